package robust

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cantina/store/etcdtest"
)

// lone is a server with a store of its own that is started on several data directories, and
// one cell.
type lone struct {
	t    *testing.T
	dir  string
	addr string
	cell *process
}

func newLone(t *testing.T) *lone { return &lone{t: t, dir: t.TempDir(), addr: etcdtest.FreeAddr(t)} }

func (l *lone) server(data string, more ...string) *process {
	l.t.Helper()
	args := append([]string{"server", "--name", "s1", "--data", filepath.Join(l.dir, data), "--listen", l.addr},
		patient...)
	return start(l.t, "server on "+data, append(args, more...)...).wait()
}

func (l *lone) startCell() {
	l.t.Helper()
	l.cell = start(l.t, "c1", append([]string{"cell", "--name", "c1", "--data", filepath.Join(l.dir, "c1"), "--servers",
		l.addr}, patient...)...).wait()
}

func (l *lone) shows(words []string, args ...string) {
	l.t.Helper()
	shows(l.t, l.addr, words, args...)
}

func terms(p *process) int { return strings.Count(p.log.tail(100000), "msg=leading") }

// TestServerOnEmptyDataEndsNothing: a server that is started on empty data by mistake is refused by the cells of
// the other store, by name at both ends. Running work goes on, and the right server has it again, in one term. A
// term that no cell of a cluster can have received ends no term.
func TestServerOnEmptyDataEndsNothing(t *testing.T) {
	l := newLone(t)
	s := l.server("right", "--new-cluster")
	l.startCell()
	l.shows([]string{"HEALTHY"}, "cells")
	alive := filepath.Join(l.dir, "alive")
	apply(t, l.addr, "domain: d\nservices: {web: {command: [sleep, '600'], stop_grace: 1s}}\n")
	must(t, l.addr, "wait", "web", "--timeout", "60s")
	must(t, l.addr, "run", "--detach", "--id", "long", "--", "sh", "-c", "while sleep 0.1; do echo >>"+alive+"; done")
	l.shows([]string{"long", "RUNNING"}, "task", "ls")
	s.kill()

	wrong := l.server("wrong", "--new-cluster")
	l.shows([]string{"c1", "FOREIGN", "belongs to cluster"}, "cells")
	l.shows([]string{"belongs to cluster", "cantina cells adopt c1", "127.0.0.1:"}, "status")
	l.shows([]string{"FOREIGN", "belongs to cluster"}, "explain", "cell/c1")
	for _, p := range []*process{wrong, l.cell} {
		if !p.log.until(p.ended, patience, func(text string) bool { return strings.Contains(text, "of another cluster") }) {
			t.Errorf("%s does not report it", p.name)
		}
	}
	before := length(t, alive)
	if !eventually(func() bool { return length(t, alive) > before+5 }) {
		t.Error("the task was ended")
	}
	wrong.stop()

	s = l.server("right")
	l.shows([]string{"HEALTHY"}, "cells")
	l.shows([]string{"long", "RUNNING"}, "task", "ls")
	body := `{"from":{"cell":"c1","proc":"p","cluster":"%s","term":{"epoch":"9000000000000000000"}},"protocol":1,` +
		`"directory":"f","started":"1","beat":"1"}`
	for _, id := range []string{"", "other"} {
		for _, call := range []string{"Rows", "Heartbeat", "UpdateStatus", "LRPEvents", "TaskEvents"} {
			a, err := http.Post("http://"+l.addr+"/cantina.v1.LeaderService/"+call, "application/json",
				strings.NewReader(fmt.Sprintf(body, id)))
			if err != nil {
				t.Fatal(err)
			}
			_ = a.Body.Close()
		}
	}
	must(t, l.addr, "run", "--timeout", "60s", "--", "true")
	if n := terms(s); n != 1 {
		t.Errorf("%d terms", n)
	}
	must(t, l.addr, "stop", "task/long")
	must(t, l.addr, "stop", "web")
	must(t, l.addr, "wait", "web", "--for", "stopped", "--timeout", "60s")
	l.cell.stop()
	s.stop()
}

// TestOlderBackup: after a restore from a backup that is older than the work, the work goes on and a person
// decides. The terms that the cells know do not end the term of the restored store. A store that was rolled back by
// other means raises its epoch once.
func TestOlderBackup(t *testing.T) {
	l := newLone(t)
	s := l.server("first", "--new-cluster")
	l.startCell()
	l.shows([]string{"HEALTHY"}, "cells")
	backup := filepath.Join(l.dir, "backup")
	must(t, l.addr, "store", "backup", "--data", filepath.Join(l.dir, "first"), backup)
	alive := filepath.Join(l.dir, "alive")
	must(t, l.addr, "run", "--detach", "--id", "long", "--", "sh", "-c", "while sleep 0.1; do echo >>"+alive+"; done")
	l.shows([]string{"long", "RUNNING"}, "task", "ls")
	s.kill()
	must(t, l.addr, "store", "restore", "--data", filepath.Join(l.dir, "second"), backup)
	s = l.server("second")
	l.shows([]string{"HEALTHY", "cantina cells discard c1"}, "cells")
	l.shows([]string{"task long", "cantina cells discard c1"}, "status")
	l.shows([]string{"task long", "the store does not know it"}, "explain", "cell/c1")
	before := length(t, alive)
	if !eventually(func() bool { return length(t, alive) > before+5 }) {
		t.Error("the task was ended")
	}
	if n := terms(s); n != 1 {
		t.Errorf("%d terms after the restore", n)
	}
	must(t, l.addr, "cells", "discard", "c1", "--yes")
	if !eventually(func() bool { return !strings.Contains(must(t, l.addr, "cells"), "discard") }) {
		t.Error("discard did not end it")
	}
	s.kill()

	// The file system is rolled back in place: nothing beside the store shows it.
	data, copied := filepath.Join(l.dir, "second"), filepath.Join(l.dir, "copy")
	clone := func(from, to string) {
		t.Helper()
		if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	clone(data, copied)
	for range 3 { // higher revisions than the copy has
		s = l.server("second")
		l.shows([]string{"HEALTHY"}, "cells")
		s.kill()
	}
	for _, name := range []string{"server/etcd", "server/memo.json"} {
		if err := os.RemoveAll(filepath.Join(data, name)); err != nil {
			t.Fatal(err)
		}
	}
	clone(filepath.Join(copied, "server/etcd"), filepath.Join(data, "server/etcd"))
	s = l.server("second")
	l.shows([]string{"HEALTHY"}, "cells")
	if n := terms(s); n > 2 {
		t.Errorf("%d terms after a rollback", n)
	}
	if !strings.Contains(s.log.tail(100000), "raising the epoch") {
		t.Error("the server does not report the fault")
	}
	l.cell.stop()
	s.stop()
}
