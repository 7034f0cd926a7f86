package robust

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestAccess: on one machine, another user and work of another user reach the API by neither
// port nor socket; its owner does by both without a setting, cells included; and work has
// address and token when its spec asks for them.
func TestAccess(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s.sock")
	s := start(t, "server", "server", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--socket", socket,
		"--new-cluster").wait()
	c := start(t, "cell", "cell", "--data", t.TempDir(), "--name", "c1", "--servers", s.Addr).wait()
	shows(t, s.Addr, []string{"HEALTHY"}, "cells")
	shows(t, "unix:"+socket, []string{"HEALTHY"}, "cells")

	for _, x := range []struct {
		address, path string
	}{{s.Addr, "/v1/status"}, {s.Addr, "/health"}, {s.Addr, "/mux"}, {c.Addr, "/cantina.v1.CellService/ReadLogs"}} {
		r, err := http.Post("http://"+x.address+x.path, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(r.Body)
		if r.Body.Close(); r.StatusCode != http.StatusUnauthorized || !strings.Contains(string(text), "unauthenticated") {
			t.Errorf("%s%s without the token: %s %s", x.address, x.path, r.Status, text)
		}
	}
	if r := cli(t, s.Addr, "ps", "--token-file", write(t, "token", "")); r.code != 2 {
		t.Errorf("a file that is no token: %d %s", r.code, r.err)
	}
	outside(t, s.Addr, socket)

	if got := must(t, s.Addr, "run", "--", "sh", "-c",
		"echo api=$CANTINA_API token=$CANTINA_TOKEN"); got != "api= token=\n" {
		t.Errorf("work has %q", got)
	}
	apply(t, s.Addr, `
domain: d
tasks:
  asks: {command: [`+program+`, --addr, "`+s.Addr+`", cells, -q], api: true}
  shown: {command: 'echo $CANTINA_API ${#CANTINA_TOKEN}', api: true}
`)
	must(t, s.Addr, "wait", "task/d.asks")
	if got := must(t, s.Addr, "logs", "task/d.asks"); !strings.Contains(got, "c1") {
		t.Errorf("work that asked for the API: %q", got)
	}
	must(t, s.Addr, "wait", "task/d.shown")
	if got := must(t, s.Addr, "logs", "task/d.shown"); !strings.Contains(got, "http://"+s.Addr+" 26") {
		t.Errorf("it has %q", got)
	}
}

// outside tries all that a user without rights can try.
func outside(t *testing.T, address, socket string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Log("not as another user: needs root")
		return
	}
	dir, err := os.MkdirTemp("/tmp", "cantina-outside-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/cantina", text, 0o755); err != nil {
		t.Fatal(err)
	}
	for addr, says := range map[string]string{address: "Authorization: Bearer", "unix:" + socket: "permission denied"} {
		cmd := exec.Command(dir+"/cantina", "run", "-d", "--addr", addr, "--", "id")
		cmd.Dir, cmd.Env = "/", []string{"XDG_DATA_HOME=" + os.Getenv("XDG_DATA_HOME")}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if out, err := cmd.CombinedOutput(); err == nil || cmd.ProcessState.ExitCode() != 5 ||
			!strings.Contains(string(out), says) {
			t.Errorf("another user at %s: %v\n%s", addr, err, out)
		}
	}
}
