package batch

import (
	"math"
	"strings"
	"testing"

	"cantina/resource"
)

// policed is Bistro's reference with another policy.
func policed(t tb, p Policy) *Board {
	b := twoHosts(t)
	spec := b.Spec()
	spec.Policy = p
	if err := b.Configure(spec); err != nil {
		t.Fatal(err)
	}
	b.Seed("test")
	return b
}

func only(node string) map[string]Filter { return map[string]Filter{"db": {Whitelist: []string{node}}} }

// TestPolicyReferenceVectors are Bistro's own: the nodes are taken from the end.
func TestPolicyReferenceVectors(t *testing.T) {
	for _, c := range []struct {
		policy Policy
		want   string
	}{
		{RoundRobin, "job1:db22 job2:db21 job3:db12 job1:db11"},
		{RankedPriority, "job3:db12 job1:db22 job1:db21 job1:db11"},
		{LongTail, "job3:db12 job1:db22 job1:db21 job1:db11"},
	} {
		b := policed(t, c.policy)
		put(t, b, Job{Name: "job1", Priority: 1})
		put(t, b, Job{Name: "job2", Priority: 1})
		put(t, b, Job{Name: "job3", Priority: 100, Filters: only("db12")})
		if got := keys(b.Pick(100)); got != c.want {
			t.Errorf("%v: got %s, want %s", c.policy, got, c.want)
		}
	}
}

// TestRankedByADependency is Bistro's vector of a job that depends on one of lower priority.
func TestRankedByADependency(t *testing.T) {
	b := policed(t, RankedPriority)
	n := int64(0)
	put(t, b, Job{Name: "job1", Priority: 10, DependsOn: []string{"job2"}})
	put(t, b, Job{Name: "job2", Priority: 1})
	s := b.Pick(9)
	if got := keys(s); got != "job2:db22 job2:db21 job2:db12 job2:db11" {
		t.Fatal(got)
	}
	for _, x := range s { // db11 and db12 run; nothing of the others did
		if x.Key.Node == "db11" || x.Key.Node == "db12" {
			start(t, b, []Start{x}, &n)
		} else if err := b.Unpick(x.Key); err != nil {
			t.Fatal(err)
		}
	}
	finish(t, b, Key{"job2", "db11"}, Report{Bits: Done})
	if got := keys(b.Pick(9)); got != "job1:db11 job2:db22 job2:db21" {
		t.Error(got)
	}
}

// crowd is a forest of 1000 nodes below a root with one slot, and two jobs with the weights.
func crowd(t tb, p Policy, seed string, heavy, light float64, wide int) *Board {
	spec := ForestSpec{Name: "f", Levels: []string{"db"}, Order: OrderOriginal, Policy: p,
		Limits: map[string]map[string]Limit{LevelInstance: {"slots": {Default: 1, Limit: max(wide, 1)}}}}
	nodes, err := RangeNodes(spec.Levels, &Source{Kind: SourceRange, Last: 999, Format: "{i}"}, []string{"instance"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes {
		nodes[i].Parent = ""
	}
	b := newBoard(t, spec, nodes...)
	b.Seed(seed)
	put(t, b, Job{Name: "heavy", Priority: heavy})
	put(t, b, Job{Name: "light", Priority: light,
		Resources: map[string]resource.Amounts{LevelInstance: {"slots": max(wide, 1)}}})
	return b
}

// turns lets one task after the other run, each for a minute, and counts the starts of a job.
func turns(t tb, b *Board, rounds int, job string) (count int, all string) {
	n := int64(0)
	for i := range rounds {
		b.Advance(int64(i+1) * 60_000)
		for _, r := range b.Runs("") {
			finish(t, b, r.Key, Report{Bits: Done})
		}
		s := b.Pick(1)
		start(t, b, s, &n)
		if got := keys(s); got != "" {
			all += got + " "
			if strings.HasPrefix(got, job+":") {
				count++
			}
		}
	}
	return count, all
}

// TestRandomizedPriority: about ten of eleven starts go to the job with ten times the weight, though
// the other one waits for longer than room is reserved after; the same seed has the same starts.
func TestRandomizedPriority(t *testing.T) {
	got, all := turns(t, crowd(t, RandomizedPriority, "a", 10, 1, 0), 500, "heavy")
	if got < 435 || got > 474 { // 454.5 ± 3 standard deviations
		t.Errorf("%d of 500 starts, want about 454", got)
	}
	if _, again := turns(t, crowd(t, RandomizedPriority, "a", 10, 1, 0), 500, "heavy"); again != all {
		t.Error("the same seed has other starts")
	}
	if _, other := turns(t, crowd(t, RandomizedPriority, "b", 10, 1, 0), 500, "heavy"); other == all {
		t.Error("another seed has the same starts")
	}
	for _, w := range []float64{0, -1} { // no weight at all: all alike
		if got, _ := turns(t, crowd(t, RandomizedPriority, "a", w, w, 0), 500, "heavy"); got < 216 || got > 284 {
			t.Errorf("weights %v: %d of 500 starts, want about 250", w, got)
		}
	}
	if got, _ := turns(t, crowd(t, RandomizedPriority, "a", 1, 0, 0), 500, "heavy"); got != 500 {
		t.Errorf("weight 0 beside 1: %d of 500 starts, want all", got)
	}
}

// TestOrderedPoliciesReserveNothingForTheRest: a job that gets the leftover room waits for as long as the first
// has ready nodes, and no room is reserved for it; nor for a drawn one that needs no more than the others.
func TestOrderedPoliciesReserveNothingForTheRest(t *testing.T) {
	for _, p := range []Policy{RankedPriority, LongTail, RandomizedPriority} {
		b := crowd(t, p, "a", 10, 1, 0)
		if p == LongTail {
			put(t, b, Job{Name: "light", Priority: 1})
			put(t, b, Job{Name: "heavy", Filters: map[string]Filter{"db": {WhitelistRegex: "^.{1,2}$"}}})
		}
		n := int64(0)
		for i := range 50 {
			b.Advance(int64(i+1) * 60_000)
			for _, r := range b.Runs("") {
				finish(t, b, r.Key, Report{Bits: Done})
			}
			start(t, b, b.Pick(9), &n)
			if k := b.reservation.kept; k != nil && k.job.Name == "light" {
				t.Fatalf("%v: room is reserved for %s", p, k.job.Name)
			}
		}
	}
}

// TestAWideJobIsDrawnInTheEnd: a drawn job that needs more than others has room reserved for it.
func TestAWideJobIsDrawnInTheEnd(t *testing.T) {
	b := crowd(t, RandomizedPriority, "a", 10, 1, 2)
	n, wide := int64(0), 0
	for i := range 100 { // one of the two slots becomes free each second
		b.Advance(int64(i+1) * 1000)
		if runs := b.Runs(""); len(runs) > 0 {
			finish(t, b, runs[0].Key, Report{Bits: Done})
		}
		s := b.Pick(9)
		start(t, b, s, &n)
		for _, x := range s {
			if x.Key.Job == "light" {
				wide++
			}
		}
	}
	if wide == 0 {
		t.Error("the wide job has never started")
	}
}

func TestPrioritiesThatCannotBe(t *testing.T) {
	b := twoHosts(t)
	for _, p := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 2e9, -2e9} {
		if got := b.Put(Job{Name: "j", UID: "u", Priority: p}); len(got) != 1 || !strings.HasPrefix(got[0], "priority: ") {
			t.Errorf("%v: %q", p, got)
		}
	}
	for _, p := range []float64{0, -1e9, 1e9} {
		if got := b.Put(Job{Name: "j", UID: "u", Priority: p}); len(got) != 0 {
			t.Errorf("%v: %q", p, got)
		}
	}
}

// TestVisitsOfAFreedSlot: by every policy a freed slot costs a path per job, also when all is blocked on the root.
func TestVisitsOfAFreedSlot(t *testing.T) {
	for _, p := range []Policy{RoundRobin, RankedPriority, RandomizedPriority, LongTail} {
		for _, root := range []int{0, 10} {
			b := grove(t, 200, 25, 10, root)
			spec := b.Spec()
			spec.Policy = p
			if err := b.Configure(spec); err != nil {
				t.Fatal(err)
			}
			n := int64(0)
			start(t, b, b.Pick(1<<30), &n)
			for _, r := range b.Runs("")[:5] {
				before := b.f.visits
				finish(t, b, r.Key, Report{Bits: Done})
				start(t, b, b.Pick(1), &n)
				if got, most := b.f.visits-before, int64(64*(3+10)); got > most || got == 0 {
					t.Errorf("%v, root %d: %d visits, at most %d", p, root, got, most)
				}
			}
		}
	}
}
