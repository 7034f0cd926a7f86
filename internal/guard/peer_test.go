package guard_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"cantina/internal/guard"
)

// TestTheUserOfAListener: both ways of asking name the user of a listener, on each family, also of one
// that listens everywhere.
func TestTheUserOfAListener(t *testing.T) {
	for listen, call := range map[string]string{"127.0.0.1:0": "127.0.0.1", "[::1]:0": "::1", "0.0.0.0:0": "127.0.0.1",
		"[::]:0": "::1"} {
		ln, err := net.Listen("tcp", listen)
		if err != nil {
			t.Logf("%s: %v", listen, err) // a machine without IPv6
			continue
		}
		at := netip.AddrPortFrom(netip.MustParseAddr(call), ln.Addr().(*net.TCPAddr).AddrPort().Port())
		for name, ask := range map[string]func(netip.AddrPort) (int, error){"sock_diag": guard.AskKernel,
			"proc": guard.AskProc} {
			if who, err := ask(at); err != nil || who != os.Geteuid() {
				t.Errorf("%s by %s: user %d, %v", listen, name, who, err)
			}
		}
		_ = ln.Close()
		for name, ask := range map[string]func(netip.AddrPort) (int, error){"sock_diag": guard.AskKernel,
			"proc": guard.AskProc} {
			if who, err := ask(at); err == nil {
				t.Errorf("%s by %s: no listener, and it is user %d", listen, name, who)
			}
		}
	}
}

// TestAPortOfAnotherUserIsNotCalled: a process that takes the port while its server is down gets neither the token
// nor a cell to command.
func TestAPortOfAnotherUserIsNotCalled(t *testing.T) {
	if address := os.Getenv("GUARD_TEST_LISTEN"); address != "" {
		listenForParent(t)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be another user")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(self) // unreadable for others
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "guard-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(dir+"/listen", text, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(dir+"/listen", "-test.run", "^TestAPortOfAnotherUserIsNotCalled$")
	cmd.Dir, cmd.Env = "/", []string{"GUARD_TEST_LISTEN=127.0.0.1:0"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close(); _ = cmd.Wait() }()
	line := make([]byte, 100)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimSpace(string(line[:n]))
	if c, err := token.Way(address, false).Dial(t.Context()); !errors.Is(err, guard.ErrForeignPort) ||
		!strings.Contains(err.Error(), "user 65534") {
		t.Errorf("%s: %v, %v", address, c, err)
	}
	path := dir + "/token" // that user's own
	if err := errors.Join(os.WriteFile(path, []byte("0123456789abcdef\n"), 0o600),
		os.Chown(path, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	own, err := guard.ReadToken(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := own.Way(address, false).Dial(t.Context())
	if err != nil {
		t.Fatalf("with that user's token: %v", err)
	}
	_ = c.Close()
}

// listenForParent is the other user.
func listenForParent(t *testing.T) {
	ln, err := net.Listen("tcp", os.Getenv("GUARD_TEST_LISTEN"))
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout.WriteString(ln.Addr().String() + "\n")
	_, _ = os.Stdin.Read(make([]byte, 1)) // until the parent is done
	_ = ln.Close()
}
