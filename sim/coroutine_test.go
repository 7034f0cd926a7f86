package sim

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestCoroutinesTakeTurns: what waits goes on in the order in which it was let through,
// never within what lets it through, and an end of the process lets everything go.
func TestCoroutinesTakeTurns(t *testing.T) {
	w := newWorld(Config{Only: []Fault{}}.withDefaults())
	defer w.close()
	w.q, w.now = nil, 0
	p := newThreads(w, func(fn func()) { w.after(0, fn) })
	var got []string
	say := func(text string) { got = append(got, fmt.Sprintf("%v %s", w.now, text)) }
	first, second, never := p.gate(), p.gate(), p.gate()
	p.run(func() {
		first.Wait()
		say("a")
		second.Open()
		say("a again")
		first.Wait()
		say("a ends")
	})
	p.run(func() { second.Wait(); say("b") })
	p.run(func() { never.Wait(); say("let go"); never.Wait(); say("and again") })
	w.after(time.Second, first.Open)
	for len(w.q) > 0 {
		w.step()
	}
	w.after(0, p.end)
	w.step()
	p.run(func() { say("after the end") })
	want := []string{"1s a", "1s a again", "1s a ends", "1s b", "1s let go", "1s and again"}
	if !slices.Equal(got, want) || slices.Contains(w.threads, p) {
		t.Errorf("%q", got)
	}
}
