package robust

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPlainBuild: a cantina that `go build` made, without the embedded reaper, is its own reaper. It ends work that
// ignores signals after the cell was killed, lets kept work run, copies files, and runs roots.
func TestPlainBuild(t *testing.T) {
	data := tempDir(t)
	embedded := program
	program = plainBuild(t)
	defer func() { program = embedded }()
	d := startDev(t, data).wait()
	apply(t, d.Addr, fmt.Sprintf(`
services:
  stubborn: {command: 'trap "" TERM; echo up; while :; do sleep 1; done', instances: 2, stop_grace: 1s}
  kept: {command: 'echo up; sleep 1000', on_cell_restart: keep}
tasks:
  copies:
    setup: {download: {from: "file://%s", to: got, allow_unpinned: true}}
    command: cp got out
    result_file: out
`, write(t, "in", "copied")))
	must(t, d.Addr, "wait", "stubborn", "--timeout", "60s")
	must(t, d.Addr, "wait", "kept", "--timeout", "60s")
	must(t, d.Addr, "wait", "copies", "--client-exit-code", "--timeout", "60s")
	if out := must(t, d.Addr, "task", "result", "copies"); strings.TrimSpace(out) != "copied" {
		t.Errorf("the result of the task is %q", out)
	}
	d.kill()
	d = startDev(t, data).wait()
	must(t, d.Addr, "wait", "stubborn", "--timeout", "60s")
	must(t, d.Addr, "wait", "kept", "--timeout", "60s")
	if out := must(t, d.Addr, "logs", "kept"); strings.Count(out, "up") != 1 {
		t.Errorf("kept work has started again:\n%s", out)
	}
	must(t, d.Addr, "rm", "kept", "--yes")
	must(t, d.Addr, "wait", "kept", "--for", "stopped", "--timeout", "60s")
	d.kill()
	t.Logf("all gone after %v", gone(t, filepath.Join(data, "cell"), patience))
	d = startDev(t, data).wait()
	d.stop()
	clean(t, filepath.Join(data, "cell"))
}

// plainBuild builds cantina as `go build` does in a fresh clone: the embedded reaper is not there.
func plainBuild(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(root, "executor", "reaperbin", "cantina-reaper"): ""}})
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(tempDir(t), "cantina")
	cmd := exec.Command("go", "build", "-overlay", write(t, "overlay.json", string(overlay)), "-o", out, "./cmd/cantina")
	cmd.Dir = root
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, text)
	}
	return out
}
