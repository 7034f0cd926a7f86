package store

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// For any division of transitions into batches: each is whole, in order and within the limits. The batches have the
// same effect on a store as the transitions one by one.
func TestCutKeepsTransitions(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limits := Limits{Ops: rapid.IntRange(1, 8).Draw(rt, "ops"), Bytes: rapid.IntRange(100, 2000).Draw(rt, "bytes")}
		var q queue
		var pushed []string
		want := make(map[string]string)
		for i := range rapid.IntRange(0, 60).Draw(rt, "transitions") {
			var ops []Op
			for range rapid.IntRange(0, 5).Draw(rt, "size") {
				op := Op{Key: fmt.Sprint("k", rapid.IntRange(0, 6).Draw(rt, "key"))}
				if rapid.Bool().Draw(rt, "put") {
					op.Value = make([]byte, rapid.IntRange(0, 40).Draw(rt, "value"))
					op.Value = append(op.Value, fmt.Sprint(i)...)
				}
				ops = append(ops, op)
			}
			bytes, err := weigh(Transition{Ops: ops}, limits)
			if err != nil {
				continue
			}
			for _, op := range ops {
				want[op.Key] = string(op.Value)
			}
			q.push(item{ops: ops, bytes: bytes, done: func(int64, error) {}})
			pushed = append(pushed, fmt.Sprint(ops))
		}
		got := make(map[string]string)
		var cut []string
		for q.len() > 0 {
			b := q.cut(limits)
			if rapid.IntRange(0, 5).Draw(rt, "back") == 0 {
				q.putBack(b)
				continue
			}
			if len(b.items) == 0 || len(b.ops) > limits.Ops || b.bytes > limits.Bytes {
				rt.Fatalf("batch of %d transitions, %d rows, %d bytes; limits %+v", len(b.items), len(b.ops), b.bytes, limits)
			}
			seen := make(map[string]bool)
			for _, op := range b.ops {
				if seen[op.Key] {
					rt.Fatalf("%s twice in one transaction", op.Key)
				}
				seen[op.Key] = true
				got[op.Key] = string(op.Value)
			}
			for _, i := range b.items {
				cut = append(cut, fmt.Sprint(i.ops))
			}
		}
		if fmt.Sprint(cut) != fmt.Sprint(pushed) || q.live != 0 {
			rt.Fatalf("cut %v, pushed %v, live %d", cut, pushed, q.live)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			rt.Fatalf("rows %v, want %v", got, want)
		}
	})
}

func TestQueueGivesItsRoomBack(t *testing.T) {
	var q queue
	for range 10_000 {
		for range 3 {
			q.push(item{ops: []Op{{Key: "k", Value: []byte("v")}}, bytes: 50})
		}
		q.cut(Limits{Ops: 100, Bytes: 120}) // two of three
		if q.len() > 5000 {
			for q.len() > 10 {
				q.cut(Limits{Ops: 100, Bytes: 1 << 20})
			}
		}
	}
	if len(q.items) > 20_000 {
		t.Fatalf("%d items kept for %d waiting", len(q.items), q.len())
	}
}

func TestManifestsOfBadRows(t *testing.T) {
	m := Manifest{Number: 5, Subject: "s", Steps: [][]byte{[]byte("0"), []byte("1"), []byte("2")}}
	var good []Row
	for _, tr := range m.Transitions() {
		good = append(good, Row{Key: tr.Ops[0].Key, Value: tr.Ops[0].Value})
	}
	change := func(f func([]Row) []Row) []Row { return f(append([]Row(nil), good...)) }
	for name, rows := range map[string][]Row{
		"step missing":      change(func(r []Row) []Row { return append(r[:1], r[2:]...) }),
		"last step missing": change(func(r []Row) []Row { return append(r[:2], r[3:]...) }),
		"only the marker":   good[3:],
		"step corrupt":      change(func(r []Row) []Row { r[1].Value = []byte("x"); return r }),
		"marker corrupt":    change(func(r []Row) []Row { r[3].Value = []byte("x"); return r }),
		"step of no kind":   change(func(r []Row) []Row { r[1].Value = Encode(1, "lrp", nil); return r }),
		"no number":         {{Key: "manifest/zzz/ready", Value: good[3].Value}},
		"no directory":      {{Key: "manifest/x", Value: good[3].Value}},
		"no step number":    change(func(r []Row) []Row { r[2].Key = r[2].Key[:len(r[2].Key)-1] + "x"; return r }),
	} {
		pending, torn, bad := Manifests(append([]Row{{Key: "lrp/a"}}, rows...))
		if len(pending) != 0 || len(torn) != 0 || len(bad) != len(rows) || bad[0].Reason == "" || bad[0].Key != rows[0].Key {
			t.Errorf("%s: pending %v, torn %v, bad %v", name, pending, torn, bad)
		}
	}
	pending, torn, bad := Manifests(append(append([]Row{{Key: "a"}}, good...), Row{Key: "z"}))
	if len(pending) != 1 || len(torn) != 0 || len(bad) != 0 || len(pending[0].Steps) != 3 {
		t.Fatalf("pending %v, torn %v, bad %v", pending, torn, bad)
	}
	if _, _, rest, ok := (Manifest{}).Forward(); ok || len(rest.Steps) != 0 {
		t.Fatal("a step of nothing")
	}
}

func TestNewRefusesImpossibleConfigs(t *testing.T) {
	if _, err := New(nil, Config{}); err == nil {
		t.Fatal("no clock")
	}
	if _, err := weigh(Transition{Ops: []Op{{}}}, Limits{Ops: 1, Bytes: 100}); !errors.Is(err, ErrBadKey) {
		t.Fatal(err)
	}
}

// TestARefusedNeighbourDoesNotClearTheMark: when the store refuses a batch as too large,
// the wish to take away the Restored mark goes back with it; it is not answered as done.
func TestARefusedNeighbourDoesNotClearTheMark(t *testing.T) {
	r := &Leadership{store: &Store{cfg: Config{}.withDefaults()}}
	r.changed = sync.NewCond(&r.mu)
	cleared := make(chan error, 1)
	r.queue.push(item{clear: true, done: func(_ int64, err error) { cleared <- err }})
	r.queue.push(item{ops: []Op{{Key: "a", Value: []byte("large")}}, bytes: 60})
	l := Limits{Ops: 100, Bytes: 1000}
	b := r.queue.cut(l)
	l = r.shrink(b, l, ErrTooLarge)
	r.join()
	if len(cleared) > 0 {
		t.Fatal("the mark counts as cleared")
	}
	if next := r.queue.cut(l); len(next.items) != 1 || !next.clear {
		t.Fatalf("%+v", next)
	}
}
