package sim

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestCoroutinesTakeTurns: waiting coroutines go on in the order of their release, never within the caller that
// releases them. An end of the process releases all.
func TestCoroutinesTakeTurns(t *testing.T) {
	w := newWorld(Config{Faults: []Fault{}}.withDefaults())
	defer w.close()
	w.q, w.now = nil, 0
	p := newThreads(w, func(fn func()) { w.after(0, fn) })
	var got []string
	say := func(text string) { got = append(got, fmt.Sprintf("%v %s", w.now, text)) }
	first, waitFirst := p.park()
	second, waitSecond := p.park()
	_, waitForEver := p.park()
	ctx := t.Context()
	p.run(func() {
		say(fmt.Sprint("a ", waitFirst(ctx)))
		second()
		say("a again")
	})
	p.run(func() { say(fmt.Sprint("b ", waitSecond(ctx))) })
	p.run(func() {
		say(fmt.Sprint("c ", waitForEver(ctx)))
		_, more := p.park()
		say(fmt.Sprint("c again ", more(ctx)))
	})
	w.after(time.Second, first)
	for len(w.q) > 0 {
		w.step()
	}
	w.after(0, p.end)
	w.step()
	p.run(func() { say("after the end") })
	want := []string{"1s a <nil>", "1s a again", "1s b <nil>", "1s c the process has ended",
		"1s c again the process has ended"}
	if !slices.Equal(got, want) || slices.Contains(w.threads, p) {
		t.Errorf("%q", got)
	}
}
