package robust

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// witness watches work from outside cantina. Each piece holds a lock of the kernel
// while any process of it lives, and writes its id and its fence when it begins.
type witness struct {
	t   *testing.T
	dir string
}

func newWitness(t *testing.T) *witness {
	t.Helper()
	w := &witness{t: t, dir: t.TempDir()}
	if err := os.Mkdir(filepath.Join(w.dir, "lock"), 0o755); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf(`#!/bin/sh
# work ID CMD...: says that two of one id live at a time; then it is left to CMD
id=$1; shift
exec 9>"%[1]s/lock/$id"
flock -n 9 || echo "$id" >>"%[1]s/twice"
echo "$id ${CANTINA_FENCE:--}" >>"%[1]s/begun"
exec "$@"
`, w.dir)
	if err := os.WriteFile(w.command(), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return w
}

// command is the program that work runs: COMMAND ID PROGRAM ARG...
func (w *witness) command() string { return filepath.Join(w.dir, "work") }

func (w *witness) lines(name string) []string {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	return strings.FieldsFunc(string(b), func(r rune) bool { return r == '\n' })
}

// begun returns, for each id, the fences under which it began.
func (w *witness) begun() map[string][]string {
	w.t.Helper()
	out := map[string][]string{}
	for _, line := range w.lines("begun") {
		id, fence, _ := strings.Cut(line, " ")
		out[id] = append(out[id], fence)
	}
	return out
}

// check demands that nothing lived twice at a time.
func (w *witness) check() {
	w.t.Helper()
	for _, id := range w.lines("twice") {
		w.t.Errorf("%s began while an earlier start of it was alive", id)
	}
}
