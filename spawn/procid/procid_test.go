package procid

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestIdentity: a process is itself while it lives, and gone afterwards; one with another
// start, or a thread, is not it.
func TestIdentity(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := Of(cmd.Process.Pid)
	if err != nil || !id.Alive() {
		t.Fatalf("%+v, %v", id, err)
	}
	fd, err := id.Open()
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	other := Identity{Pid: id.Pid, Start: id.Start + 1}
	if _, err := other.Open(); !errors.Is(err, ErrGone) || other.Alive() {
		t.Errorf("a process with another start: %v", err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	if _, err := id.Open(); !errors.Is(err, ErrGone) || id.Alive() {
		t.Errorf("after its end: %v", err)
	}
	if _, err := Of(id.Pid); !errors.Is(err, ErrGone) {
		t.Errorf("after its end: %v", err)
	}
}

// TestNoDescriptorIsNoEnd: a caller that cannot check a process does not take it for ended.
func TestNoDescriptorIsNoEnd(t *testing.T) {
	id, err := Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	_, oerr := Of(id.Pid)
	_, perr := id.Open()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(oerr, unix.EMFILE) || errors.Is(oerr, ErrGone) {
		t.Errorf("looking: %v", oerr)
	}
	if !errors.Is(perr, unix.EMFILE) || errors.Is(perr, ErrGone) {
		t.Errorf("pinning: %v", perr)
	}
}
