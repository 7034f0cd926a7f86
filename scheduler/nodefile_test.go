package scheduler

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"cantina/batch"
	"cantina/plan"
)

// TestNodesOfAFile: a file is read again after a change, also within the same second, and a bad one
// keeps the last good nodes.
func TestNodesOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nodes")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, newFakeStore(), 1)
		defer func() { r.stop() }()
		r.cell("c", 9)
		w := testJob("j", nil)
		w.Forest.Levels = []string{"host"}
		w.Forest.Sources = []batch.Source{{Kind: batch.SourceFile, File: file}}
		c := r.apply(w)
		if c.Lines[0].Nodes != -1 {
			t.Errorf("%+v", c.Lines)
		}
		view := func(total int, problem string) {
			t.Helper()
			v, err := r.Job("j")
			if err != nil || v.Progress.Total != total || !strings.Contains(v.NodesError, problem) ||
				problem == "" && v.NodesError != "" {
				t.Errorf("%d nodes, error %q, %v; want %d, %q", v.Progress.Total, v.NodesError, err, total, problem)
			}
		}
		view(0, "no such file")
		write("a\nb\n")
		pass(filesEvery)
		r.wantStarted("j/a j/b")
		view(2, "")
		write("a\nb\nc\n")
		pass(filesEvery)
		r.wantStarted("j/c")
		write("a\nd\n") // as long as the first one
		pass(filesEvery)
		r.wantStarted("j/d")
		for _, node := range []string{"a", "b", "c", "d"} {
			r.end("j", node, 0, "")
		}
		write("a\nb\x00\n")
		pass(filesEvery)
		view(2, "line 2: name has a NUL byte")
		write("a\nd\na\n")
		pass(filesEvery)
		view(2, "line 3 repeats")
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		pass(filesEvery)
		view(2, "no such file")
		if err := syscall.Mkfifo(file, 0o600); err != nil {
			t.Fatal(err)
		}
		pass(filesEvery)
		view(2, "is not a regular file")
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		write("a\n")
		pass(filesEvery)
		view(1, "")
		due := func() (at time.Duration) {
			r.locked(func() { at = r.forests["j"].wholeAt })
			return at
		}
		reads := due()
		pass(10 * time.Second)
		if due() != reads {
			t.Error("an unchanged file was read again")
		}
		pass(5 * time.Minute)
		if due() == reads {
			t.Error("it is never read again")
		}
	})
}

// TestNumberedNodes: a range is counted by a plan, and a later source uses its nodes as parents.
func TestNumberedNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, newFakeStore(), 1)
		defer func() { r.stop() }()
		r.cell("c", 9)
		w := testJob("j", nil)
		w.Forest.Sources = []batch.Source{
			{Kind: batch.SourceRange, ParentLevel: batch.LevelInstance, First: 1, Last: 2, Format: "h{i}"},
			{Kind: batch.SourceRange, ParentLevel: "host", First: 1, Last: 5, Step: 4, Format: "{parent}__{i}"},
			{Kind: batch.SourceEmpty},
		}
		if c := r.apply(w); c.Lines[0].Nodes != 4 {
			t.Errorf("%+v", c.Lines)
		}
		r.wantStarted("j/h1__1 j/h1__5 j/h2__1 j/h2__5")
		w.Forest.Sources[1].Step = -1
		if _, err := r.Apply("dom", nil, plan.Prune{}); err != nil {
			t.Error(err)
		}
		w.Job.Name = "k"
		w.Job.Forest, w.Forest.Name = "k", "k"
		if _, err := r.Apply("dom", []plan.NamedJob{w}, plan.Prune{}); err == nil || !strings.Contains(err.Error(),
			"below 0") {
			t.Error(err)
		}
	})
}
