package batch

import (
	"slices"
	"strings"
	"testing"

	"cantina/fence"
	"cantina/resource"
)

func newBoard(t tb, spec ForestSpec, nodes ...NodeSpec) *Board {
	t.Helper()
	b, err := NewBoard(spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.SetNodes(nodes); err != nil {
		t.Fatal(err)
	}
	return b
}

// twoHosts is Bistro's reference: host1{db11,db12}, host2{db21,db22}, two at a time
// per host, one per db.
func twoHosts(t tb) *Board {
	spec := ForestSpec{Name: "f", Levels: []string{"host", "db"}, Order: OrderOriginal, Backwards: true,
		Limits: map[string]map[string]Limit{
			"host": {"slots": {Default: 1, Limit: 2}}, "db": {"slots": {Default: 1, Limit: 1}},
		}}
	nodes, err := ManualNodes(spec.Levels, []ManualNode{{Name: "host1", Children: []string{"db11", "db12"}},
		{Name: "host2", Children: []string{"db21", "db22"}}})
	if err != nil {
		t.Fatal(err)
	}
	return newBoard(t, spec, nodes...)
}

func put(t tb, b *Board, j Job) {
	t.Helper()
	if j.UID == "" {
		j.UID = "u-" + j.Name
	}
	if p := b.Put(j); len(p) > 0 {
		t.Fatalf("job %s: %v", j.Name, p)
	}
}

func keys(starts []Start) string {
	var out []string
	for _, s := range starts {
		out = append(out, s.Key.Job+":"+s.Key.Node)
	}
	return strings.Join(out, " ")
}

func start(t tb, b *Board, starts []Start, counter *int64) {
	t.Helper()
	for _, s := range starts {
		*counter++
		if err := b.Started(s.Key, inv(*counter), "c"); err != nil {
			t.Fatal(err)
		}
	}
}

func finish(t tb, b *Board, k Key, r Report) Update {
	t.Helper()
	i, _, ok := b.Running(k)
	if !ok {
		t.Fatalf("%v does not run", k)
	}
	u, ok := end(b, k, i, r, 0)
	if !ok {
		t.Fatalf("%v: nothing to store", k)
	}
	return u
}

func TestRoundRobinReferenceVector(t *testing.T) {
	b := twoHosts(t)
	put(t, b, Job{Name: "job1"})
	put(t, b, Job{Name: "job2"})
	if got, want := keys(b.Pick(100)), "job1:db22 job2:db21 job1:db12 job2:db11"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestDependencies(t *testing.T) {
	b := twoHosts(t)
	n := int64(0)
	put(t, b, Job{Name: "job1", DependsOn: []string{"job2"}})
	if got := keys(b.Pick(9)); got != "" {
		t.Fatalf("depends on a job that does not exist, yet %s", got)
	}
	put(t, b, Job{Name: "job2"})
	s := b.Pick(9)
	if got := keys(s); got != "job2:db22 job2:db21 job2:db12 job2:db11" {
		t.Fatal(got)
	}
	start(t, b, s, &n)
	finish(t, b, Key{"job2", "db11"}, Report{Bits: Done})
	finish(t, b, Key{"job2", "db21"}, Report{Bits: Failed})
	if got := keys(b.Pick(9)); got != "job1:db11" {
		t.Errorf("got %s", got)
	}
	if w, err := b.Explain(Key{"job1", "db21"}, "", 0); err != nil || len(w) != 1 ||
		!strings.Contains(w[0].Text, `depends on job "job2", which failed on this node`) {
		t.Errorf("explain: %v, %v", w, err)
	}
}

func TestFreedSlotIsRefilledFromItsOwnNode(t *testing.T) {
	b := twoHosts(t)
	n := int64(0)
	put(t, b, Job{Name: "a", Resources: map[string]resource.Amounts{"host": {"slots": 2}}})
	s := b.Pick(9)
	start(t, b, s, &n)
	if got := keys(s); got != "a:db22 a:db12" {
		t.Fatal(got)
	}
	why, err := b.Explain(Key{"a", "db21"}, "", 0)
	if err != nil || len(why) != 1 ||
		why[0].String() != "host host2: slots 2 needed, 0 free, held by a/db22; it starts when one of them ends; "+
			"to start it now: raise the limit of slots on level host to 4" {
		t.Errorf("explain: %v, %v", why, err)
	}
	finish(t, b, Key{"a", "db22"}, Report{Bits: Done})
	if got := keys(b.Pick(9)); got != "a:db21" {
		t.Errorf("refilled with %s", got)
	}
}

// TestABackoffByAClockThatWasAhead counts from the begin of the board: the leader before had
// the wrong time.
func TestABackoffByAClockThatWasAhead(t *testing.T) {
	for name, at := range map[string]int64{"right": 999_000, "an hour ahead": 4_600_000, "some seconds ahead": 1_003_000} {
		t.Run(name, func(t *testing.T) {
			b := twoHosts(t)
			b.Advance(1_000_000)
			put(t, b, Job{Name: "a", Retries: -1, Backoff: Backoff{Seconds: []int{7}},
				Filters: map[string]Filter{"db": {Whitelist: []string{"db11"}}}})
			if _, err := b.Load(Key{"a", "db11"}, Status{Bits: UsesBackoff, Time: at, Backoff: 7,
				Invocation: fence.Invocation{Counter: 1}}, 1); err != nil {
				t.Fatal(err)
			}
			end := min(at, 1_000_000) + 7000
			if at, ok := b.NextDue(); !ok || at != end {
				t.Fatal(at, ok)
			}
			b.Advance(end - 1)
			if at, ok := b.NextDue(); !ok || at != end {
				t.Fatalf("its end is forgotten, or another one: %d, %v", at, ok)
			}
			if got := keys(b.Pick(9)); got != "" {
				t.Fatal(got)
			}
			b.Advance(end)
			if got := keys(b.Pick(9)); got != "a:db11" {
				t.Fatal(got)
			}
		})
	}
}

func TestBackoffAndRetry(t *testing.T) {
	b := twoHosts(t)
	n := int64(0)
	put(t, b, Job{Name: "a", Retries: -1, Backoff: Backoff{Seconds: []int{7}, Fail: true},
		Filters: map[string]Filter{"db": {Whitelist: []string{"db11"}}}})
	b.Advance(1000)
	start(t, b, b.Pick(9), &n)
	finish(t, b, Key{"a", "db11"}, errorBackoff)
	if at, ok := b.NextDue(); !ok || at != 8000 || len(b.Pick(9)) != 0 {
		t.Fatalf("due at %d, %v", at, ok)
	}
	b.Advance(7999)
	if len(b.Pick(9)) != 0 {
		t.Fatal("too early")
	}
	b.Advance(8000)
	start(t, b, b.Pick(9), &n)
	finish(t, b, Key{"a", "db11"}, errorBackoff)
	if p, _ := b.Progress("a"); p.State != JobFailed || p.Failed != 1 || p.Avoided != 3 || p.Total != 1 {
		t.Fatalf("%+v", p)
	}
	u, err := b.Retry("a")
	if err != nil || len(u) != 1 || u[0].Status.Bits&Error == 0 {
		t.Fatalf("%+v, %v", u, err)
	}
	apply(b, u)
	if got := keys(b.Pick(9)); got != "a:db11" {
		t.Errorf("forgiven runs again: %s", got)
	}
}

func TestReplayAndForeignEnds(t *testing.T) {
	b := twoHosts(t)
	n := int64(0)
	k := Key{"a", "db11"}
	put(t, b, Job{Name: "a", Retries: 5, Backoff: Backoff{Seconds: []int{1}, Repeat: true},
		Filters: map[string]Filter{"db": {Whitelist: []string{"db11"}}}})
	start(t, b, b.Pick(9), &n)
	finish(t, b, k, errorBackoff)
	if _, ok := end(b, k, inv(1), errorBackoff, 0); ok {
		t.Error("a replay is applied")
	}
	b.Advance(5000)
	start(t, b, b.Pick(9), &n)
	if _, ok := end(b, k, inv(1), Report{Bits: Done}, 0); ok {
		t.Error("an old invocation ends a new one")
	}
	if s, err := b.Status(k); err != nil || s.Attempts != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	finish(t, b, k, LostReport("cell gone"))
	if u, ok := end(b, k, inv(2), Report{Bits: Done}, 0); !ok || u.Status.Bits != Done {
		t.Errorf("the late real end replaces the synthetic one: %+v, %v", u, ok)
	}
}

// blockedByFormer demands that job a waits on a node for the removed job of its name, and does not run there.
func blockedByFormer(t *testing.T, b *Board, node string) {
	t.Helper()
	p, _ := b.Progress("a")
	if p.Blocked != 1 || p.Running+p.Ready != p.Total-1 {
		t.Errorf("%s: %+v", node, p)
	}
	own, err := b.Explain(Key{"a", node}, "", 0)
	if err != nil || len(own) != 1 || own[0].Class != ClassBlocked ||
		!strings.HasPrefix(own[0].Text, WaitsForRemoved+", which runs on cell c as ") {
		t.Errorf("%s: %+v, %v", node, own, err)
	}
	all, err := b.ExplainJob("a", func(string) string { return "" }, 0)
	if err != nil ||
		!slices.ContainsFunc(all, func(w Why) bool { return strings.HasPrefix(w.Text, node+": "+WaitsForRemoved) }) {
		t.Errorf("%s: %+v, %v", node, all, err)
	}
}

func TestRecreatedJob(t *testing.T) {
	b := twoHosts(t)
	n := int64(0)
	put(t, b, Job{Name: "a"})
	start(t, b, b.Pick(1), &n)
	put(t, b, Job{Name: "a", UID: "second", Born: inv(n)})
	if got := keys(b.Pick(9)); strings.Contains(got, "db22") {
		t.Errorf("the node of the old job's task starts again: %s", got)
	}
	blockedByFormer(t, b, "db22")
	if u, ok := end(b, Key{"a", "db22"}, inv(1), Report{Bits: Done}, 0); ok {
		t.Errorf("the old job's result counts for the new one: %+v", u)
	}
	if got := keys(b.Pick(9)); got != "a:db22" {
		t.Errorf("then it runs: %s", got)
	}
	if p, _ := b.Progress("a"); p.Blocked != 0 || p.Ready+p.Running != p.Total {
		t.Errorf("nothing of the old job is left: %+v", p)
	}
	// The same after a change of leader: the report names no uid.
	c := twoHosts(t)
	put(t, c, Job{Name: "a", UID: "second", Born: inv(5)})
	c.Adopt(Key{"a", "db11"}, inv(4), "c")
	blockedByFormer(t, c, "db11")
	if u, ok := end(c, Key{"a", "db11"}, inv(4), Report{Bits: Done}, 0); ok {
		t.Errorf("an older invocation counts: %+v", u)
	}
	c.Adopt(Key{"a", "db11"}, inv(6), "c")
	if _, ok := end(c, Key{"a", "db11"}, inv(6), Report{Bits: Done}, 0); !ok {
		t.Error("its own invocation does not count")
	}
}

func TestAdoptedWorkDraws(t *testing.T) {
	b := twoHosts(t)
	b.Adopt(Key{"a", "db11"}, inv(1), "c1") // its row comes later
	put(t, b, Job{Name: "a"})
	put(t, b, Job{Name: "b"})
	if got := keys(b.Pick(9)); strings.Contains(got, "a:db11") {
		t.Errorf("runs, and is started again: %s", got)
	}
	put(t, b, Job{Name: "c"})
	if got := keys(b.Pick(9)); strings.Contains(got, "db11") {
		t.Errorf("it draws since its job is known: %s", got)
	}
	d, err := NewBoard(twoHosts(t).Spec())
	if err != nil {
		t.Fatal(err)
	}
	put(t, d, Job{Name: "a"})
	d.Adopt(Key{"a", "db11"}, inv(1), "c1") // its node comes later
	if err := d.SetNodes(twoHosts(t).f.nodes); err != nil {
		t.Fatal(err)
	}
	put(t, d, Job{Name: "b"})
	if got := keys(d.Pick(9)); strings.Contains(got, "db11") {
		t.Errorf("it draws since its node is known: %s", got)
	}
	checkBoard(t, d)
	c := twoHosts(t)
	put(t, c, Job{Name: "a"})
	c.Adopt(Key{"a", "db11"}, inv(1), "c1")
	put(t, c, Job{Name: "b"})
	if got := keys(c.Pick(9)); strings.Contains(got, "db11") {
		t.Errorf("its database has room for one: %s", got)
	}
}

func TestOneBadThingHarmsNothing(t *testing.T) {
	b := twoHosts(t)
	n := int64(0)
	put(t, b, Job{Name: "good"})
	for name, j := range map[string]Job{
		"regex":    {Filters: map[string]Filter{"db": {WhitelistRegex: "("}}},
		"level":    {Level: "moon"},
		"filter":   {Filters: map[string]Filter{"moon": {}}},
		"resource": {Resources: map[string]resource.Amounts{"db": {"moon": 1}}},
		"negative": {Resources: map[string]resource.Amounts{"db": {"slots": -1}}},
		"self":     {DependsOn: []string{"self"}},
		"backoff":  {Backoff: Backoff{Seconds: []int{2, 1}}},
	} {
		j.Name, j.UID = name, "u"
		if p := b.Put(j); len(p) == 0 {
			t.Errorf("%s: no problem", name)
		}
		if p, _ := b.Progress(name); p.State != JobInvalid || p.Reason == "" {
			t.Errorf("%s: %+v", name, p)
		}
	}
	s := b.Pick(100)
	if got := keys(s); got != "good:db22 good:db21 good:db12 good:db11" {
		t.Errorf("got %s", got)
	}
	start(t, b, s, &n)
	if err := b.SetNodes([]NodeSpec{{Name: "x", Level: "db", Parent: "nobody"}}); err == nil {
		t.Fatal("a node without parent is taken")
	}
	if p, _ := b.Progress("good"); p.Running != 4 || p.Total != 4 {
		t.Errorf("bad nodes changed something: %+v", p)
	}
}

func TestNodesThatLeaveAndReturn(t *testing.T) {
	b := twoHosts(t)
	n := int64(0)
	put(t, b, Job{Name: "a"})
	start(t, b, b.Pick(9), &n)
	finish(t, b, Key{"a", "db11"}, Report{Bits: Done})
	all := b.f.nodes
	if err := b.SetNodes(nil); err != nil {
		t.Fatal(err)
	}
	if p, _ := b.Progress("a"); p.Total != 3 || p.Running != 3 {
		t.Errorf("what runs is counted: %+v", p)
	}
	finish(t, b, Key{"a", "db12"}, Report{Bits: Done})
	if err := b.SetNodes(all); err != nil {
		t.Fatal(err)
	}
	if p, _ := b.Progress("a"); p.Done != 2 || p.Running != 2 {
		t.Errorf("statuses are kept by name: %+v", p)
	}
	checkBoard(t, b)
}

func TestConfigureKeepsStatusesAndDraws(t *testing.T) {
	b := twoHosts(t)
	n := int64(0)
	put(t, b, Job{Name: "a"})
	start(t, b, b.Pick(2), &n)
	finish(t, b, Key{"a", "db22"}, Report{Bits: Done})
	spec := b.Spec()
	spec.Levels = []string{"host", "db", "table"}
	spec.Limits = map[string]map[string]Limit{"host": {"slots": {Default: 1, Limit: 1}, "io": {Default: 0, Limit: 5}}}
	put(t, b, Job{Name: "a", Level: "db"})
	if err := b.Configure(spec); err != nil {
		t.Fatal(err)
	}
	if p, _ := b.Progress("a"); p.Done != 1 || p.Running != 1 || p.Ready != 2 {
		t.Errorf("%+v", p)
	}
	if got := keys(b.Pick(9)); got != "a:db12" {
		t.Errorf("host2 is held by what runs there, host1 takes one now: %s", got)
	}
	checkBoard(t, b)
}

func TestReplicas(t *testing.T) {
	spec := ForestSpec{Name: "f", Levels: []string{"host", "db"}, Order: OrderOriginal,
		Limits: map[string]map[string]Limit{
			"host": {"slots": {Default: 1, Limit: 1}}, "db": {"slots": {Default: 1, Limit: 1}},
		}}
	nodes, err := ManualNodes(spec.Levels, []ManualNode{{Name: "h1", Children: []string{"db"}},
		{Name: "h2", Children: []string{"db", "other"}}})
	if err != nil {
		t.Fatal(err)
	}
	b := newBoard(t, spec, nodes...)
	n := int64(0)
	put(t, b, Job{Name: "a"})
	put(t, b, Job{Name: "b"})
	s := b.Pick(9)
	if got := keys(s); got != "a:db b:other" {
		t.Fatalf("one slot for both replicas: %s", got)
	}
	start(t, b, s, &n)
	finish(t, b, Key{"a", "db"}, Report{Bits: Done})
	if got := keys(b.Pick(9)); got != "b:db" {
		t.Errorf("the free replica: %s", got)
	}
	if p, _ := b.Progress("a"); p.Total != 2 {
		t.Errorf("a replica counts once: %+v", p)
	}
	checkBoard(t, b)
}

func TestTheRootAsHost(t *testing.T) {
	b := twoHosts(t)
	put(t, b, Job{Name: "j", HostLevel: LevelInstance})
	if s := b.Pick(1); s[0].Host != s[0].Path[0] || s[0].Host == "" {
		t.Errorf("host %q of path %v", s[0].Host, s[0].Path)
	}
}

func TestRefusals(t *testing.T) {
	b := twoHosts(t)
	put(t, b, Job{Name: "pinned", HostLevel: "host"})
	put(t, b, Job{Name: "free"})
	s := b.Pick(1)
	if s[0].Key.Job != "free" {
		t.Fatal(keys(s))
	}
	if err := b.Refuse(s[0].Key, ScopeJob, "no cell has room"); err != nil {
		t.Fatal(err)
	}
	s = b.Pick(1)
	if keys(s) != "pinned:db22" || s[0].Host != "host2" {
		t.Fatalf("%s on %s", keys(s), s[0].Host)
	}
	if err := b.Refuse(s[0].Key, ScopeHost, "no cell on host2"); err != nil {
		t.Fatal(err)
	}
	if got := keys(b.Pick(9)); got != "pinned:db12 pinned:db11" {
		t.Errorf("a dead host stops only the jobs pinned to it: %s", got)
	}
	if w, _ := b.Explain(Key{"pinned", "db21"}, "", 0); len(w) != 1 || w[0].Text != "no cell on host2" {
		t.Errorf("explain: %v", w)
	}
	if !b.Blocked() {
		t.Error("nothing is blocked")
	}
	b.Unblock()
	if got := keys(b.Pick(9)); got != "free:db22 pinned:db21" {
		t.Errorf("after a change: %s", got)
	}
	checkBoard(t, b)
}

// tb is the interface that helpers need of a test: a testing.T or a rapid.T.
type tb interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// end ends an invocation and applies the update; ok = the update had something to store.
func end(b *Board, k Key, i fence.Invocation, r Report, guard int) (Update, bool) {
	u := b.End(k, i, r, guard)
	b.Apply(u)
	return u, u.Store
}

// apply makes an operator's changes effective.
func apply(b *Board, us []Update) {
	for _, u := range us {
		b.Apply(u)
	}
}

// TestEndOfALaterInvocationThanIsKnown: the end of an unreported invocation counts, though the board has an earlier
// one that may run. The end of that earlier one does not count.
func TestEndOfALaterInvocationThanIsKnown(t *testing.T) {
	b, err := NewBoard(ForestSpec{Name: "f", Levels: []string{"host"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.SetNodes([]NodeSpec{{Name: "n", Level: "host"}}); err != nil {
		t.Fatal(err)
	}
	b.Put(Job{Name: "j", UID: "u", Forest: "f"})
	k := Key{"j", "n"}
	earlier, later := fence.Invocation{Term: fence.Term{Epoch: 1, Revision: 1}, Counter: 3},
		fence.Invocation{Term: fence.Term{Epoch: 1, Revision: 2}, Counter: 1}
	b.Adopt(k, earlier, "c")
	u := b.End(k, later, Report{Bits: Done}, 0)
	if !u.Store {
		t.Fatal("the end of the later one is dropped")
	}
	b.Apply(u)
	if inv, _, runs := b.Running(k); !runs || inv != earlier {
		t.Errorf("%v runs: %v; the earlier one has not ended", inv, runs)
	}
	if u := b.End(k, earlier, Report{Bits: Done}, 0); u.Store {
		t.Error("the end of the earlier one replaces it")
	} else {
		b.Apply(u)
	}
	if st, err := b.Status(k); err != nil || st.Invocation != later || st.Bits != Done {
		t.Errorf("%+v, %v", st, err)
	}
}
