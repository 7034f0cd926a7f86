package batch

import (
	"strings"
	"testing"

	"cantina/resource"
)

// hosts is a forest of one host with two slots and many nodes, a job of one slot and one of two.
func hosts(t *testing.T) *Board {
	spec := ForestSpec{Name: "f", Levels: []string{"host", "db"}, Order: OrderOriginal,
		Limits: map[string]map[string]Limit{"host": {"slots": {Default: 1, Limit: 2}}}}
	m := ManualNode{Name: "h"}
	for i := range 200 {
		m.Children = append(m.Children, "db"+string(rune('a'+i/26))+string(rune('a'+i%26)))
	}
	nodes, err := ManualNodes(spec.Levels, []ManualNode{m})
	if err != nil {
		t.Fatal(err)
	}
	b := newBoard(t, spec, nodes...)
	put(t, b, Job{Name: "narrow"})
	put(t, b, Job{Name: "wide", Resources: map[string]resource.Amounts{"host": {"slots": 2}}})
	return b
}

// until lets a narrow task end each second until wide starts.
func until(t *testing.T, b *Board, from, most int64) int64 {
	t.Helper()
	n := from * 10
	for now := from; now < from+most; now += 1000 {
		b.Advance(now)
		if runs := b.Runs("narrow"); len(runs) > 0 {
			finish(t, b, runs[0].Key, Report{Bits: Done})
		}
		s := b.Pick(9)
		for _, x := range s {
			if x.Key.Job == "wide" {
				return now
			}
		}
		start(t, b, s, &n)
	}
	t.Fatalf("wide does not start; %v run", b.Runs(""))
	return 0
}

// TestAWideNeedOnANodeIsNotStarved by narrow ones: its wait is bounded, and the reasons of both name the
// reservation.
func TestAWideNeedOnANodeIsNotStarved(t *testing.T) {
	b := hosts(t)
	b.Advance(1000)
	n := int64(0)
	start(t, b, b.Pick(1), &n) // narrow begins
	start(t, b, b.Pick(9), &n)
	if at := until(t, b, 2000, 60_000); at < 31_000 || at > 36_000 {
		t.Fatal(at)
	}
	if err := b.Unpick(b.runs.runKeys("wide")[0]); err != nil { // its turn came to nothing: it is the next again
		t.Fatal(err)
	}
	b.Advance(40_000)
	if got := keys(b.Pick(1)); !strings.HasPrefix(got, "wide:") {
		t.Fatal(got)
	}
}

func TestReservationsAreExplainedAndReturned(t *testing.T) {
	b := hosts(t)
	n := int64(0)
	b.Advance(1000)
	s := b.Pick(1)
	start(t, b, s, &n)
	start(t, b, b.Pick(9), &n)
	b.Advance(40_000)
	finish(t, b, s[0].Key, Report{Bits: Done})
	if got := keys(b.Pick(9)); got != "" {
		t.Fatalf("%s takes reserved room", got)
	}
	for job, want := range map[string]string{"narrow": "host h: room is reserved for wide/dbaa, which has waited longer",
		"wide": "room is reserved for it: it starts when enough of them have ended"} {
		why, err := b.ExplainJob(job, func(string) string { return "" }, 0)
		if err != nil || !strings.Contains(lines(why), want) {
			t.Errorf("%s: %s, %v", job, lines(why), err)
		}
	}
	paused, _, _ := b.Job("wide")
	paused.Paused = true
	b.Put(paused)
	if got := keys(b.Pick(1)); !strings.HasPrefix(got, "narrow:") || b.reservation.kept != nil {
		t.Fatal(got)
	}
}
