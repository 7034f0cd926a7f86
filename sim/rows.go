package sim

import (
	"maps"
	"slices"
	"strings"
	"time"

	"cantina/bbs"
	"cantina/leader"
	"cantina/lrp"
	"cantina/registry"
	"cantina/scheduler"
	disk "cantina/store"
	"cantina/task"
	"cantina/timetable"
)

// saved is a row that a shell has encoded. Its key in the storage is the text that the
// shell gave it. It is never changed after its commit.
type saved struct {
	value    []byte
	revision int64         // of its commit
	row      any           // content of the value, for the checks; nil if not needed
	sound    []byte        // the value before it was corrupted; nil = it is as it was written
	at       time.Duration // true time when it was decided
}

// decode reads a row of any shell.
func decode(x disk.Row) (any, error) {
	if r, ok, err := scheduler.ReadRow(x.Key, x.Value); ok {
		return r, err
	}
	if r, ok, err := timetable.ReadRow(leader.TimetableContents{}, x.Key, x.Value); ok {
		return r, err
	}
	if r, err := registry.Decode(x); r != nil || err != nil {
		return r, err
	}
	return bbs.Decode(x)
}

// open decodes a value of a shell.
func (w *world) open(key string, value []byte) *saved {
	row, err := decode(disk.Row{Key: key, Value: value})
	if err != nil {
		w.fail("I8", "an unreadable row is written: %v", err)
	}
	return &saved{value: value, row: row, at: w.now}
}

// sameAs has a row that is written once more, as it was, decided when it was.
func (x *saved) sameAs(val any) {
	was, ok := val.(*saved)
	if !ok {
		return
	}
	before, _ := was.row.(*task.Task)
	if t, ok := x.row.(*task.Task); ok && before != nil && before.UID == t.UID && before.Updated.Equal(t.Updated) {
		x.at = was.at
	}
}

// get returns a row that a shell has written.
func (s *storage) get(key string) (disk.Row, bool) {
	if x, ok := s.rows[key].(*saved); ok {
		return disk.Row{Key: key, Value: x.value, Revision: x.revision}, true
	}
	return disk.Row{}, false
}

// rowsOf returns the rows that shells have written under a prefix, in order: the load of a term
// begins with them.
func (s *storage) rowsOf(prefix string) []disk.Row {
	var out []disk.Row
	for _, key := range s.texts() {
		if strings.HasPrefix(key, prefix) && !strings.HasPrefix(key, disk.DataPrefix) {
			row, _ := s.get(key)
			out = append(out, row)
		}
	}
	return out
}

// texts lists the keys of the rows that shells have written.
func (s *storage) texts() []string {
	var out []string
	for k := range s.rows {
		if text, ok := k.(string); ok {
			out = append(out, text)
		}
	}
	slices.Sort(out)
	return out
}

// rows are the decoded rows of a board: as they are committed, or as the leader has
// submitted them.
type rows struct {
	services []*lrp.Service
	versions map[string]*lrp.Version // by process guid
	indices  []lrp.Index
	tasks    []*task.Task
}

// wants reports whether a service wants an index.
func (r *rows) wants(k lrp.Key) bool {
	v := r.versions[k.Process]
	return v != nil && v.Wants(k.Index)
}

func (r *rows) add(row any) {
	switch x := row.(type) {
	case *lrp.Service:
		r.services = append(r.services, x)
		for i := range x.Versions {
			r.versions[x.Versions[i].Process] = &x.Versions[i]
		}
	case lrp.Index:
		r.indices = append(r.indices, x)
	case *task.Task:
		r.tasks = append(r.tasks, x)
	}
}

// work returns all committed rows of services and tasks, in order of their keys.
func (s *storage) work() *rows {
	out := &rows{versions: map[string]*lrp.Version{}}
	for _, key := range s.texts() {
		out.add(s.rows[key].(*saved).row)
	}
	return out
}

// work returns all rows of services and tasks as they are submitted.
func (r *leadership) work() *rows {
	out := &rows{versions: map[string]*lrp.Version{}}
	for _, key := range slices.Sorted(maps.Keys(r.newest)) {
		out.add(r.newest[key])
	}
	return out
}

// index and task return committed rows.
func (s *storage) index(k lrp.Key) lrp.Index {
	if x, ok := s.rows[bbs.IndexRow(k)].(*saved); ok {
		if x, ok := x.row.(lrp.Index); ok {
			return x
		}
	}
	return lrp.Index{Key: k}
}

func (s *storage) task(guid string) *task.Task {
	if x, ok := s.rows[bbs.TaskRow(guid)].(*saved); ok {
		t, _ := x.row.(*task.Task)
		return t
	}
	return nil
}

// task returns the newest row.
func (r *leadership) task(guid string) *task.Task {
	t, _ := r.newest[bbs.TaskRow(guid)].(*task.Task)
	return t
}

// opsOf are a shell's rows as this store takes them.
func (r *leadership) opsOf(rows []disk.Op) []op {
	all := make([]op, len(rows))
	for i, o := range rows {
		all[i].key = o.Key
		delete(r.newest, o.Key)
		if o.Value != nil {
			row := r.s.w.open(o.Key, o.Value)
			row.sameAs(r.s.w.store.rows[o.Key])
			all[i].val = row
			if row.row != nil {
				r.newest[o.Key] = row.row
			}
		}
	}
	return all
}

type op struct {
	key, val any // val nil = delete
}

// jobPrefix begins the keys of jobs.
const jobPrefix = "job/"

type restoredKey struct{}

type snapshot struct {
	rows     map[any]any
	restored bool
	epoch    int64
}

// item is one transition with its effects.
type item struct {
	ops   []op
	after func()
	// landed gets the outcome, as from store.Leadership; refused: nothing of it is sent.
	landed  func(revision int64, err error)
	refused error
	alone   bool // a separate transaction
}
