package worker

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// whole writes all of a state, unexported fields too, pointers by the order in which they
// are met: the long form of a key, which leaves nothing out and renames nothing.
func whole(n *node) string {
	d := &dumper{seen: map[unsafe.Pointer]int{}}
	c := *n
	c.path = nil
	c.own.leader, c.own.members, c.own.cells = false, false, [2]bool{}
	if n.leader != nil {
		l := *n.leader
		l.cfg.Statuses = nil // the state itself
		c.leader = &l
	}
	d.dump(reflect.ValueOf(c))
	return d.b.String()
}

// dumper writes a value: maps sorted, pointers followed once.
type dumper struct {
	b    strings.Builder
	seen map[unsafe.Pointer]int
}

func (d *dumper) dump(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			d.b.WriteString("-")
			return
		}
		if n, ok := d.seen[v.UnsafePointer()]; ok {
			fmt.Fprintf(&d.b, "@%d", n)
			return
		}
		d.seen[v.UnsafePointer()] = len(d.seen)
		d.dump(v.Elem())
	case reflect.Slice, reflect.Array:
		d.b.WriteByte('[')
		for i := range v.Len() {
			d.dump(v.Index(i))
			d.b.WriteByte(' ')
		}
		d.b.WriteByte(']')
	case reflect.Map:
		d.dumpMap(v)
	case reflect.Struct:
		d.b.WriteByte('(')
		for i := range v.NumField() {
			d.dump(v.Field(i))
			d.b.WriteByte(',')
		}
		d.b.WriteByte(')')
	case reflect.Interface:
		if v.IsNil() {
			d.b.WriteByte('-')
			return
		}
		d.b.WriteString(v.Elem().Type().Name())
		d.dump(v.Elem())
	default:
		fmt.Fprint(&d.b, v)
	}
}

func (d *dumper) dumpMap(v reflect.Value) {
	type pair struct {
		text string
		key  reflect.Value
	}
	pairs := make([]pair, 0, v.Len())
	for _, k := range v.MapKeys() {
		kd := dumper{seen: d.seen}
		kd.dump(k)
		pairs = append(pairs, pair{kd.b.String(), k})
	}
	slices.SortFunc(pairs, func(a, b pair) int { return strings.Compare(a.text, b.text) })
	d.b.WriteByte('{')
	for _, p := range pairs {
		d.b.WriteString(p.text)
		d.b.WriteByte(':')
		d.dump(v.MapIndex(p.key))
		d.b.WriteByte(' ')
	}
	d.b.WriteByte('}')
}

// holds collects the addresses of all that a machine may change: two states that do not own it together must not
// share them.
func holds(v reflect.Value, into map[unsafe.Pointer]string, name string) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || into[v.UnsafePointer()] != "" {
			return
		}
		into[v.UnsafePointer()] = name
		holds(v.Elem(), into, name)
	case reflect.Slice:
		if v.Cap() > 0 {
			into[v.UnsafePointer()] = name
		}
		for i := range v.Len() {
			holds(v.Index(i), into, name)
		}
	case reflect.Array:
		for i := range v.Len() {
			holds(v.Index(i), into, name)
		}
	case reflect.Map:
		if v.IsNil() {
			return
		}
		into[v.UnsafePointer()] = name
		for it := v.MapRange(); it.Next(); {
			holds(it.Key(), into, name+"[]")
			holds(it.Value(), into, name+"[]")
		}
	case reflect.Struct:
		for i := range v.NumField() {
			holds(v.Field(i), into, v.Type().Name()+"."+v.Type().Field(i).Name)
		}
	case reflect.Interface:
		if !v.IsNil() {
			holds(v.Elem(), into, name)
		}
	}
}

// neverChanges begin the names of fields that a copy may share: the configuration, values that are fixed when a
// term begins, and the lists of runs that a question asked about.
var neverChanges = []string{"Config.", "CellConfig.", "waiting.jobs", "waiting.nodes", "unsureList.asked[]"}

// checkClone fails unless the copy equals the machine and shares nothing that changes.
func checkClone[T any](t *testing.T, machine, copied *T) {
	t.Helper()
	if a, b := dumped(machine), dumped(copied); a != b {
		t.Fatalf("the copy differs:\n%s\n%s", a, b)
	}
	of, in := map[unsafe.Pointer]string{}, map[unsafe.Pointer]string{}
	holds(reflect.ValueOf(machine), of, "it")
	holds(reflect.ValueOf(copied), in, "it")
	for p, name := range in {
		if of[p] != "" && !slices.ContainsFunc(neverChanges, func(s string) bool { return strings.HasPrefix(name, s) }) {
			t.Fatalf("the copy shares %s", name)
		}
	}
}

func dumped(v any) string {
	d := &dumper{seen: map[unsafe.Pointer]int{}}
	d.dump(reflect.ValueOf(v))
	return d.b.String()
}

// wholeStates searches by whole states, at most limit of them, and returns them.
func wholeStates(t *testing.T, b budget, limit int) []*node {
	w := world{t: t}
	seen := map[string]bool{}
	frontier := []*node{w.start(b)}
	mv := &moves{world: w}
	mv.emit = func(c *node) {
		if key := whole(c); len(frontier) < limit && !seen[key] {
			seen[key] = true
			frontier = append(frontier, c)
		}
	}
	for i := 0; i < len(frontier) && len(frontier) < limit; i++ {
		mv.expand(frontier[i])
	}
	return frontier
}

// smallBudgets are the budgets whose states the tests of copies and keys visit.
var smallBudgets = []budget{
	{time: 1}, {lose: 1, calls: 1}, {restart: 1, time: 1}, {pause: 1, time: 1}, {tasks: 2, twice: 1, calls: 1},
	{tasks: 2, restart: 1}, {late: 2, lose: 1}, {twice: 1, kill: 1},
	{time: 2}, {tasks: 2, time: 1}, {late: 1, time: 1, pause: 1}, {restart: 1, calls: 1, late: 1},
}

// TestClone: a copy equals the machine and shares nothing with it that changes. A change of one does not reach the
// other.
func TestClone(t *testing.T) {
	t.Parallel()
	k := newKeys()
	for _, b := range smallBudgets {
		mv := &moves{world: world{t: t}, emit: func(*node) {}}
		met := 0
		wander(t, b, k, size(250, 10_000), func(n, _ *node) {
			if met++; met%20 > 0 {
				return
			}
			l := cloneLeader(n.leader)
			l.cfg.Statuses = nil // the state itself
			checkClone(t, l, cloneLeader(l))
			for _, c := range n.cells {
				checkClone(t, c, cloneCell(c))
			}
			was := whole(n)
			if mv.expand(n); whole(n) != was {
				t.Fatalf("%v: a state changes when it is left:%v", b, n.path)
			}
		})
	}
}

// size is how much a test does in its short form, and in its long one.
func size(short, long int) int {
	if os.Getenv("CANTINA_SOAK") != "" {
		return long
	}
	if testing.Short() { // under the race detector
		return short / 2
	}
	return short
}
