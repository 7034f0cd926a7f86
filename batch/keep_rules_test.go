package batch

import (
	"strings"
	"testing"

	"cantina/resource"
)

// play is a board of two hosts: h1 with the nodes a, b and c, and h2 with d, e and f, in this order. A host has two
// slots and two io. A task takes one slot by default.
type play struct {
	t *testing.T
	b *Board
	n int64
}

func playing(t *testing.T) *play {
	t.Helper()
	spec := ForestSpec{Name: "f", Levels: []string{"host", "db"}, Order: OrderOriginal,
		Limits: map[string]map[string]Limit{
			LevelInstance: {"all": {Limit: 4}}, "host": {"slots": {Default: 1, Limit: 2}, "io": {Limit: 2}},
		}}
	nodes, err := ManualNodes(spec.Levels, []ManualNode{{Name: "h1", Children: []string{"a", "b", "c"}},
		{Name: "h2", Children: []string{"d", "e", "f"}}})
	if err != nil {
		t.Fatal(err)
	}
	return &play{t: t, b: newBoard(t, spec, nodes...)}
}

func slots(n int) map[string]resource.Amounts {
	return map[string]resource.Amounts{"host": {"slots": n}}
}

// job puts a job; only names the nodes it runs on.
func (p *play) job(name string, needs map[string]resource.Amounts, only ...string) *play {
	p.t.Helper()
	j := Job{Name: name, Resources: needs, Retries: -1}
	if len(only) > 0 {
		j.Filters = map[string]Filter{"db": {Whitelist: only}}
	}
	put(p.t, p.b, j)
	return p
}

// at sets the clock, in milliseconds.
func (p *play) at(ms int64) *play { p.b.Advance(ms); return p }

// starts compares the picked tasks, and starts them.
func (p *play) starts(want string) *play {
	p.t.Helper()
	s := p.b.Pick(9)
	if got := keys(s); got != want {
		p.t.Fatalf("at %d: %q starts, want %q", p.b.clock.now, got, want)
	}
	start(p.t, p.b, s, &p.n)
	checkBoard(p.t, p.b)
	return p
}

// ends has tasks done, as "job:node job:node".
func (p *play) ends(list string) *play {
	p.t.Helper()
	for x := range strings.FieldsSeq(list) {
		job, node, _ := strings.Cut(x, ":")
		finish(p.t, p.b, Key{job, node}, Report{Bits: Done})
	}
	return p
}

// kept compares the node for which room is reserved; empty for none.
func (p *play) kept(want string) *play {
	p.t.Helper()
	got := ""
	if k := p.b.reservation.kept; k != nil {
		got = k.job.Name + ":" + p.b.f.names[k.job.level].list[k.node]
	}
	if got != want {
		p.t.Fatalf("at %d: room is reserved for %q, want %q", p.b.clock.now, got, want)
	}
	return p
}

// full has both hosts run two narrow tasks each since 1 s, and only these unless more is given.
func full(t *testing.T, more ...string) *play {
	t.Helper()
	p := playing(t).job("narrow", nil, append([]string{"a", "b", "d", "e"}, more...)...).at(1000)
	s := p.b.Pick(9)
	if got := keys(s); got != "narrow:a narrow:b narrow:d narrow:e" {
		t.Fatal(got)
	}
	start(t, p.b, s, &p.n)
	return p
}

// TestRoomIsReservedAfterThirtySeconds, not before, and given up when the job has started.
func TestRoomIsReservedAfterThirtySeconds(t *testing.T) {
	p := full(t, "c", "f").job("wide", slots(2)).at(2000).starts("")
	p.at(31_999).starts("").kept("").ends("narrow:a").starts("narrow:c")
	p.at(32_000).starts("").kept("wide:a").ends("narrow:b").starts("").kept("wide:a")
	p.ends("narrow:d").starts("narrow:f") // on the other host nothing is reserved
	p.ends("narrow:c").starts("wide:a").kept("")
	p.at(40_000).ends("wide:a").starts("wide:b").ends("wide:b").starts("wide:c").ends("wide:c")
	p.ends("narrow:e").starts("").at(69_999).starts("").kept("")
	p.at(70_000).starts("").kept("wide:d") // it has waited since its last start
}

// TestRoomIsReservedForTheOneThatWaitsLongest; of those that wait equally long the first by name.
func TestRoomIsReservedForTheOneThatWaitsLongest(t *testing.T) {
	p := full(t).job("wide2", slots(2)).at(2000).starts("").job("wide1", slots(2)).at(2001).starts("")
	p.at(60_000).starts("").kept("wide2:a")
	p = full(t).job("wide2", slots(2)).job("wide1", slots(2)).at(2000).starts("").at(60_000).starts("").kept("wide1:a")
	p.ends("narrow:a narrow:b").starts("wide1:a").kept("")
	p.starts("").kept("wide2:a") // its turn
}

// TestAMomentBeforeTheClockIsSet counts as the first millisecond.
func TestAMomentBeforeTheClockIsSet(t *testing.T) {
	p := playing(t).job("narrow", nil, "a", "b", "d", "e").starts("narrow:a narrow:b narrow:d narrow:e")
	p.job("wide", slots(2)).starts("").at(30_000).starts("").kept("").at(30_001).starts("").kept("wide:a")
}

// TestRoomIsReservedOnlyForStartableWork, which could start with that room.
func TestRoomIsReservedOnlyForStartableWork(t *testing.T) {
	for name, c := range map[string]struct {
		older  map[string]resource.Amounts
		change func(p *play)
		want   string
	}{
		"nothing changed": {slots(2), func(*play) {}, "older:a"},
		"it is paused": {slots(2), func(p *play) {
			put(p.t, p.b,
				Job{Name: "older", Resources: slots(2), Paused: true})
		}, "younger:a"},
		"it is refused":             {slots(2), func(p *play) { p.b.jobs.named["older"].blocked = "no cell" }, "younger:a"},
		"it has no ready node left": {slots(2), func(p *play) { p.job("older", slots(2), "none") }, "younger:a"},
		"it is gone":                {slots(2), func(p *play) { p.b.Delete("older") }, "younger:a"},
		"only one node is left":     {slots(2), func(p *play) { p.job("older", slots(2), "e") }, "older:e"},
		"it needs more than there is": {slots(3), func(p *play) {
			p.starts("").kept("") // it is looked at once, and gives way
		}, "younger:a"},
		"it needs more than the root has": {map[string]resource.Amounts{LevelInstance: {"all": 5}},
			func(p *play) { p.starts("").kept("") }, "younger:a"},
	} {
		t.Run(name, func(t *testing.T) {
			p := full(t).job("older", c.older).at(2000).starts("").job("younger", slots(2)).at(3000).starts("").at(32_500)
			c.change(p)
			p.at(33_000).starts("").kept(c.want)
		})
	}
}

// TestReservedRoomIsGivenUp in the pick after its job can no longer use it, and then kept for the
// next job that has waited too long.
func TestReservedRoomIsGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *play)
		want   string // reserved at the next pick
	}{
		"nothing changed": {func(*play) {}, "older:a"},
		"paused": {func(p *play) { put(p.t, p.b, Job{Name: "older", Resources: slots(2), Paused: true}) },
			"younger:a"},
		"deleted":            {func(p *play) { p.b.Delete("older") }, "younger:a"},
		"another is deleted": {func(p *play) { p.b.Delete("narrow") }, "older:a"},
		"another is put":     {func(p *play) { p.job("third", nil, "c") }, "older:a"},
		"applied again":      {func(p *play) { p.job("older", slots(2), "b", "c") }, "older:b"},
		"created anew": {func(p *play) {
			put(p.t, p.b, Job{Name: "older", UID: "second", Resources: slots(2)})
		}, "younger:a"},
		"refused": {func(p *play) { p.b.jobs.named["older"].blocked = "no cell" }, "younger:a"},
		"its node is refused": {func(p *play) {
			j := p.b.jobs.named["older"]
			j.shut = map[int32]string{p.b.reservation.kept.place: "no cell"}
			j.t.update(p.b.reservation.kept.place)
		}, "older:b"},
		"another node is refused": {func(p *play) {
			j := p.b.jobs.named["older"]
			j.shut = map[int32]string{p.b.reservation.kept.place + 1: "no cell"}
			j.t.update(p.b.reservation.kept.place + 1)
		}, "older:a"},
		"its node is done": {func(p *play) {
			if _, err := p.b.Load(Key{"older", "a"}, Status{Bits: Done, Time: 1, Invocation: inv(99)}, 1); err != nil {
				p.t.Fatal(err)
			}
		}, "older:b"},
		"another node is done": {func(p *play) {
			if _, err := p.b.Load(Key{"older", "b"}, Status{Bits: Done, Time: 1, Invocation: inv(99)}, 1); err != nil {
				p.t.Fatal(err)
			}
		}, "older:a"},
	} {
		t.Run(name, func(t *testing.T) {
			p := full(t).job("older", slots(2)).at(2000).starts("").job("younger",
				slots(2)).at(3000).starts("").at(40_000).starts("").kept("older:a")
			c.change(p)
			p.starts("").kept(c.want)
		})
	}
}

// TestReservedRoomStaysWhereItIs, also when less is lacking elsewhere; when it moves, others start
// where it was.
func TestReservedRoomStaysWhereItIs(t *testing.T) {
	p := full(t).job("wide", slots(2), "a", "d").at(2000).starts("").job("third", nil,
		"c").at(3000).starts("").at(40_000).starts("").kept("wide:a")
	p.ends("narrow:d").starts("").kept("wide:a").ends("narrow:a").starts("").kept("wide:a")
	if _, err := p.b.Load(Key{"wide", "a"}, Status{Bits: Done, Time: 1, Invocation: inv(99)}, 1); err != nil {
		t.Fatal(err)
	}
	p.starts("third:c").kept("wide:d")
}

// TestRoomLeftForOthers has the room beside a reservation.
func TestRoomLeftForOthers(t *testing.T) {
	needs := func(slots, io int) map[string]resource.Amounts {
		return map[string]resource.Amounts{"host": {"slots": slots, "io": io}}
	}
	for name, c := range map[string]struct {
		kept, other map[string]resource.Amounts
		want        string
	}{
		"the same resource":             {needs(2, 0), needs(1, 0), ""},
		"another resource":              {needs(2, 0), needs(0, 1), "other:a other:b"},
		"both":                          {needs(2, 0), needs(1, 1), ""},
		"some, and there is enough":     {needs(2, 1), needs(0, 1), "other:a"},
		"some, and there is not enough": {needs(2, 2), needs(0, 1), ""},
		"nothing":                       {needs(2, 2), needs(0, 0), "other:a other:b other:c"},
	} {
		t.Run(name, func(t *testing.T) {
			p := playing(t).job("narrow", nil, "a", "b").at(1000).starts("narrow:a narrow:b").job("wide", c.kept,
				"a").at(2000).starts("").at(40_000).starts("").kept("wide:a")
			p.ends("narrow:a").job("other", c.other, "a", "b", "c").starts(c.want)
		})
	}
}

// TestRoomIsReservedWhereLeastIsLacking: the shortage counts as a share of the capacity of a node.
func TestRoomIsReservedWhereLeastIsLacking(t *testing.T) {
	io := func(slots, io int) map[string]resource.Amounts {
		return map[string]resource.Amounts{"host": {"slots": slots, "io": io}}
	}
	for name, c := range map[string]struct {
		h1, h2 map[string]resource.Amounts // of the one task that runs on a host
		need   map[string]resource.Amounts
		want   string
	}{
		"the first of equal ones":       {io(1, 0), io(1, 0), io(2, 0), "wide:b"},
		"less on the second":            {io(2, 0), io(1, 0), io(2, 0), "wide:e"},
		"unneeded amounts do not count": {io(1, 2), io(1, 0), io(2, 0), "wide:b"},
		"one of each is short":          {io(2, 2), io(2, 0), io(1, 1), "wide:e"},
		"all of one, or half of each":   {io(2, 0), io(1, 1), io(2, 2), "wide:b"},
		"one unit counts":               {io(2, 2), io(2, 1), io(1, 2), "wide:e"},
	} {
		t.Run(name, func(t *testing.T) {
			p := playing(t).job("x", c.h1, "a").job("y", c.h2, "d").at(1000).starts("x:a y:d")
			p.job("wide", c.need, "b", "c", "e", "f").at(2000).starts("").at(40_000).starts("").kept(c.want)
		})
	}
}

// TestRoomOfTheRoot is reserved for a job that runs there, the one node of its level.
func TestRoomOfTheRoot(t *testing.T) {
	all := func(n int) map[string]resource.Amounts {
		return map[string]resource.Amounts{LevelInstance: {"all": n}}
	}
	p := playing(t).job("narrow", all(2), "a", "b").at(1000).starts("narrow:a narrow:b")
	put(t, p.b, Job{Name: "root", Level: LevelInstance, Resources: all(4)})
	p.at(2000).starts("").at(40_000).starts("").kept("root:instance").ends("narrow:a").starts("").ends("narrow:b").starts(
		"root:instance").kept("")
}

// TestRoomAboveTheNodes: a reservation there holds back tasks that share only the root, on any host.
func TestRoomAboveTheNodes(t *testing.T) {
	all := func(n int) map[string]resource.Amounts {
		return map[string]resource.Amounts{LevelInstance: {"all": n}, "host": {"slots": 0}}
	}
	p := playing(t).job("narrow", all(1), "a", "b", "c", "d").at(1000).starts("narrow:a narrow:b narrow:c narrow:d")
	p.job("wide", all(3)).at(2000).starts("").at(40_000).starts("").kept("wide:a")
	p.job("other", all(1), "e", "f").ends("narrow:a").starts("")
	p.ends("narrow:b").starts("").ends("narrow:c").starts("wide:a")
}
