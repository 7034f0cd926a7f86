package workerset

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"cantina/fence"
)

var term = fence.Term{Epoch: 1, Revision: 7}

// pool is a tracker with cells that show the sets they were given.
type pool struct {
	t   *testing.T
	tr  *Tracker
	ids map[uint64]ID
}

func newPool(t *testing.T, limit int) *pool {
	p := &pool{t, NewTracker(term, limit), map[uint64]ID{}}
	p.note()
	return p
}

func (p *pool) note() { p.ids[p.tr.Current().Version] = p.tr.Current() }

func (p *pool) join(proc string) {
	p.tr.Join(proc, true)
	p.note()
}

// came joins a process that shows a set of an earlier leader.
func (p *pool) came(proc string, initial ID) {
	p.join(proc)
	p.tr.Came(proc, initial)
}

func (p *pool) leave(cell string) {
	p.tr.Leave(cell)
	p.note()
}

func (p *pool) echo(cell string, version uint64) {
	p.t.Helper()
	if err := p.tr.Echo(cell, p.ids[version]); err != nil {
		p.t.Fatal(err)
	}
}

// index prints the living cells that have an indirect version: "1w1 3w2".
func (p *pool) index() string {
	var out []string
	for cell, m := range p.tr.members {
		if !m.dead && m.echoed {
			out = append(out, fmt.Sprintf("%d%s", m.indirect, cell))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// history prints the steps: "1+w1 2+w2 5-w1".
func (p *pool) history() string {
	var out []string
	for i, s := range p.tr.history {
		text := fmt.Sprint(p.tr.version(i))
		for _, c := range slices.Sorted(maps.Keys(s.added)) {
			text += "+" + c
		}
		if s.removed != "" {
			text += "-" + s.removed
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func (p *pool) want(index, permitted string) {
	p.t.Helper()
	if got := p.index(); got != index {
		p.t.Fatalf("index %q, want %q", got, index)
	}
	var ok []string
	for cell := range p.tr.members {
		if p.tr.Permits(cell) {
			ok = append(ok, cell)
		}
	}
	slices.Sort(ok)
	if got := strings.Join(ok, " "); got != permitted {
		p.t.Fatalf("permitted %q, want %q", got, permitted)
	}
}

func (p *pool) wantHistory(want string) {
	p.t.Helper()
	if got := p.history(); got != want {
		p.t.Fatalf("history %q, want %q", got, want)
	}
}

// TestHistoryAndPropagation is scenario 22: one long life of a small pool.
func TestHistoryAndPropagation(t *testing.T) {
	p := newPool(t, 0)
	p.join("w1")
	p.echo("w1", 1)
	p.tr.Tick()
	p.want("1w1", "w1")

	p.join("w2")
	p.want("1w1", "") // w2 has shown nothing: fewer in the index than in the pool
	p.echo("w2", 2)
	p.tr.Tick()
	p.want("1w1 2w2", "") // w1 does not require w2
	p.wantHistory("1+w1 2+w2")

	p.join("w3")
	p.echo("w3", 3)
	p.tr.Tick()
	p.want("1w1 2w2 3w3", "")
	p.echo("w2", 3)
	p.want("1w1 3w2 3w3", "")
	p.tr.Tick()
	p.tr.Tick()
	p.want("1w1 3w2 3w3", "")

	p.join("w4")
	p.echo("w4", 4)
	p.tr.Tick()
	p.want("1w1 3w2 3w3 4w4", "")
	p.echo("w2", 4)
	p.want("1w1 3w3 4w2 4w4", "")
	p.tr.Tick()
	p.want("1w1 4w2 4w3 4w4", "") // w3 requires w2, which requires w4
	p.tr.Tick()
	p.want("1w1 4w2 4w3 4w4", "")

	p.echo("w1", 2)
	p.leave("w1")
	p.want("4w2 4w3 4w4", "")
	if m := p.tr.members["w1"]; !m.dead || m.indirect != 2 {
		t.Fatalf("dead w1: %+v", m)
	}
	p.tr.Tick()
	p.wantHistory("3+w1+w2+w3 4+w4 5-w1")
	p.want("4w2 4w3 4w4", "")

	p.echo("w3", 5)
	p.want("4w2 4w4 5w3", "w3") // even before the next round
	p.tr.Tick()
	p.wantHistory("4+w1+w2+w3+w4 5-w1")
	p.want("5w2 5w3 5w4", "w3")

	p.join("w1a")
	p.echo("w1a", 6)
	p.tr.Tick()
	p.want("5w2 5w3 5w4 6w1a", "")

	p.echo("w4", 6)
	p.leave("w4")
	p.want("5w2 5w3 6w1a", "")
	p.tr.Tick()
	p.want("6w1a 6w2 6w3", "") // through the dead w4

	p.echo("w1a", 7)
	p.tr.Tick()
	p.want("7w1a 7w2 7w3", "w1a")
	if m := p.tr.members["w4"]; m == nil || m.indirect != 6 {
		t.Fatalf("dead w4: %+v", m)
	}
}

// TestOneEchoPermitsMany: in a large pool a newcomer needs about one other echo.
func TestOneEchoPermitsMany(t *testing.T) {
	p := newPool(t, 0)
	for i := range 50 {
		p.join(fmt.Sprint("w", i))
	}
	for i := range 50 {
		p.echo(fmt.Sprint("w", i), 50)
	}
	p.tr.Tick()
	p.join("new")
	p.echo("new", 51)
	p.echo("w7", 51)
	p.tr.Tick()
	if !p.tr.Permits("new") {
		t.Fatal("everybody requires w7, and w7 requires the newcomer")
	}
	if p.tr.Permits("w8") {
		t.Fatal("w8 does not show the present set")
	}
}

// TestConsensus is scenario 20 and 21: it takes all members of a set, and an impostor does not matter. A process
// that shows no set is no consensus, and an empty pool is none.
func TestConsensus(t *testing.T) {
	old := ID{Leader: fence.Term{Epoch: 1, Revision: 3}, Version: 9, Hash: Hash{}.Add("w1").Add("w2")}
	alone := ID{Leader: fence.Term{Epoch: 1, Revision: 2}, Version: 1, Hash: Hash{}.Add("w3").Add("w4")}
	p := newPool(t, 0)
	if p.tr.Consensus() {
		t.Fatal("an empty pool agrees")
	}
	p.came("w2", old)
	if p.tr.Consensus() {
		t.Fatal("w1 is missing")
	}
	p.came("w3", alone)
	p.join("w1")
	if p.tr.Consensus() {
		t.Fatal("what w1 shows is not known")
	}
	p.tr.Came("w1", old)
	p.tr.Came("w1", alone) // later: it may be of this leader's doing
	if !p.tr.Consensus() {
		t.Fatal("w1 and w2 are all that their set names")
	}
	p.tr.Tick() // refuses to prune: no cell has shown a set of this leader
	p.wantHistory("1+w2 2+w3 3+w1")
	if err := p.tr.Echo("w3", ID{Leader: fence.Term{Revision: 1}, Version: 3}); err != nil {
		t.Fatalf("a set of an earlier leader is ignored: %v", err)
	}
	p.echo("w3", 3)
	p.leave("w3")
	if got := p.tr.Current(); got.Version != 4 || got.Hash != old.Hash || !p.tr.Consensus() {
		t.Fatalf("%+v", got)
	}
	p.came("w5", old) // it shows a set without being in it
	if p.tr.Consensus() {
		t.Fatal("a set that names others")
	}
	p.leave("w5")
	p.tr.Came("w5", alone)
	p.tr.Came("nobody", alone)
	if !p.tr.Consensus() {
		t.Fatal("w5 is gone")
	}
	p.leave("w1")
	if p.tr.Consensus() {
		t.Fatal("w1 is gone")
	}
	for _, none := range []ID{{}, {Leader: fence.Term{Epoch: 1}, Version: 3, Hash: Hash{}.Add("w1")}} {
		single := newPool(t, 0)
		single.came("w1", none)
		if single.tr.Consensus() {
			t.Fatalf("no set, or a list, is no consensus: %+v", none)
		}
	}
}

// TestReplacementAdvancesByTwo: removal and addition are two versions.
func TestReplacementAdvancesByTwo(t *testing.T) {
	p := newPool(t, 0)
	p.join("w1")
	p.join("w1") // it is there
	p.join("w1a")
	p.leave("w1")
	p.leave("w1")
	if err := p.tr.Echo("w1", p.ids[2]); err != nil || p.tr.index.size != 0 {
		t.Fatal("a dead one shows nothing any more", err)
	}
	if got := p.tr.Current(); got.Version != 3 || got.Hash != (Hash{}.Add("w1a")) || p.tr.Len() != 1 || p.tr.Has("w1") ||
		!p.tr.Has("w1a") {
		t.Fatalf("%+v", got)
	}
	p.leave("w1a")
	p.leave("w1a")
	p.leave("unknown")
	if got := p.tr.Current(); got.Version != 4 || got.Hash != (Hash{}) || p.tr.Len() != 0 {
		t.Fatalf("%+v", got)
	}
	p.tr.Tick()
	p.wantHistory("")
	p.join("w2")
	p.echo("w2", 5)
	p.tr.Tick()
	p.want("5w2", "w2")
}

// TestRemoteInputIsRefused: a set that no correct cell shows changes nothing.
func TestRemoteInputIsRefused(t *testing.T) {
	p := newPool(t, 0)
	p.join("w1")
	p.join("w2")
	p.echo("w1", 1)
	p.echo("w2", 2)
	bad := []ID{
		{Leader: term, Version: 3, Hash: Hash{}.Add("w1")},                              // never made
		{Leader: term, Version: 2, Hash: Hash{}.Add("x")},                               // other content
		{Leader: term, Version: 2 + 1<<63, Hash: Hash{}},                                // half the circle away
		{Leader: fence.Term{Epoch: 1, Revision: 8}, Version: 1, Hash: Hash{}.Add("w1")}, // a leader to come
	}
	for _, id := range bad {
		if err := p.tr.Echo("w1", id); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%+v: %v", id, err)
		}
	}
	if err := p.tr.Echo("w1", ID{Leader: term, Version: 1, Hash: Hash{}.Add("y")}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("two sets of one version: %v", err)
	}
	p.echo("w1", 2)
	p.echo("w1", 1) // older: ignored
	if err := p.tr.Echo("nobody", p.ids[1]); err != nil {
		t.Error(err)
	}
	p.want("2w1 2w2", "w1 w2")
}

// TestUnhealthyStillCounts: w1, silent, keeps every newcomer from its first work
// (the note's example of a forced choice).
func TestUnhealthyStillCounts(t *testing.T) {
	p := newPool(t, 0)
	p.join("w1")
	p.echo("w1", 1)
	p.tr.Tick()
	p.join("w2")
	p.echo("w2", 2)
	for range 10 {
		p.tr.Tick()
	}
	p.want("1w1 2w2", "")
	p.echo("w1", 2)
	p.tr.Tick()
	p.want("2w1 2w2", "w1 w2")
}

// closure is the naive model: explicit sets, transitive closure.
func closure(from string, direct map[string]map[string]bool) map[string]bool {
	seen := map[string]bool{from: true}
	for stack := []string{from}; len(stack) > 0; {
		c := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for d := range direct[c] {
			if !seen[d] {
				seen[d] = true
				stack = append(stack, d)
			}
		}
	}
	return seen
}

// TestPermitIsSafe compares with explicit sets: each permitted process is indeed required, directly or through
// others, by every living cell.
func TestPermitIsSafe(t *testing.T) {
	permitted := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		p := newPool(t, rng.IntN(3)*2)
		sets := map[uint64]map[string]bool{}
		shown := map[string]map[string]bool{}
		note := func() {
			p.note()
			s := map[string]bool{}
			for proc, m := range p.tr.members {
				if !m.dead {
					s[proc] = true
				}
			}
			sets[p.tr.Current().Version] = s
		}
		for i := range 200 {
			proc := fmt.Sprint("w", rng.IntN(6), ".", i/40) // new processes from time to time
			switch rng.IntN(8) {
			case 0:
				if _, known := p.tr.members[proc]; !known {
					p.tr.Join(proc, true)
				}
				note()
			case 1:
				if rng.IntN(3) == 0 {
					p.tr.Leave(proc)
					note()
				}
			case 2, 3:
				p.tr.Tick()
				note()
			default:
				v := p.tr.Current().Version - uint64(rng.IntN(3))
				if m := p.tr.members[proc]; m != nil && !m.dead && sets[v] != nil && !before(v, m.joined) {
					p.echo(proc, v)
					if shown[proc] == nil || m.set == v {
						shown[proc] = sets[v]
					}
				}
			}
			for proc, m := range p.tr.members {
				if m.dead || !p.tr.Permits(proc) {
					continue
				}
				permitted++
				for other, o := range p.tr.members {
					if !o.dead && !closure(other, shown)[proc] && !needsDead(p, other, shown) {
						t.Fatalf("seed %d step %d: %s is permitted though %s does not require it", seed, i, proc, other)
					}
				}
			}
		}
	}
	if permitted == 0 {
		t.Fatal("no process was ever permitted")
	}
}

// needsDead: one that requires, directly or through others, a process that is
// dead can be part of no consensus at all.
func needsDead(p *pool, from string, shown map[string]map[string]bool) bool {
	for proc := range closure(from, shown) {
		if !p.tr.Has(proc) {
			return true
		}
	}
	return false
}

// TestTurnover is the crash-looping pool of the note's "Future" section: many
// more cells than the estimate connect, fall silent and are lost, spread evenly.
// Without the queue the good cells are never permitted; with it they are, within
// (time to lose a cell) + a few beats.
func TestTurnover(t *testing.T) {
	if at := turnoverRun(0, 60, 400*time.Second); at != 0 {
		t.Fatalf("agreement at %v without the queue: the pool is too calm to show anything", at)
	}
	at := turnoverRun(10, 60, 400*time.Second)
	if at == 0 || at > 100*time.Second {
		t.Fatalf("with the queue: agreement at %v, want it within 100 s", at)
	}
	t.Logf("agreement after %v with the queue, never without", at)
}

// turnoverRun simulates 5 good cells that beat each 5 s and n crash-loopers that
// join, show their set once and are lost 60 s later. It returns when all good
// cells had been permitted.
func turnoverRun(limit, n int, length time.Duration) time.Duration {
	tr := NewTracker(term, limit)
	echoes := map[string]ID{}
	good := map[string]bool{}
	for i := range 5 {
		tr.Join(fmt.Sprint("good", i), true)
		good[fmt.Sprint("good", i)] = false
	}
	bad := map[string]time.Duration{}
	born := 0
	gap := 60 * time.Second / time.Duration(n)
	for now := time.Duration(0); now < length; now += 500 * time.Millisecond {
		for cell, at := range bad {
			if now >= at+60*time.Second {
				tr.Leave(cell)
				delete(bad, cell)
			}
		}
		for time.Duration(born)*gap <= now {
			cell := fmt.Sprint("bad", born)
			tr.Join(cell, true)
			bad[cell] = now
			born++
		}
		for i := range 5 {
			cell := fmt.Sprint("good", i)
			if now%(5*time.Second) == time.Duration(i)*time.Second {
				if id, ok := echoes[cell]; ok {
					_ = tr.Echo(cell, id)
				}
				echoes[cell] = tr.Current()
			}
		}
		for cell, at := range bad {
			if now == at+500*time.Millisecond {
				_ = tr.Echo(cell, tr.Current())
			}
		}
		tr.Tick()
		all := true
		for cell := range good {
			good[cell] = good[cell] || tr.Permits(cell)
			all = all && good[cell]
		}
		if all {
			return max(now, 1)
		}
	}
	return 0
}

// TestQueuedNewcomers: a queued cell is in no set, permitted nothing, and can be lost.
func TestQueuedNewcomers(t *testing.T) {
	p := newPool(t, 2)
	p.join("w1")
	p.join("w2")
	p.join("w3")
	p.join("w3")
	p.join("w4")
	if p.tr.Queued() != 2 || p.tr.Current().Version != 2 || p.tr.Permits("w3") {
		t.Fatalf("%d queued, version %d", p.tr.Queued(), p.tr.Current().Version)
	}
	p.leave("w4")
	if p.tr.Queued() != 1 || p.tr.Current().Version != 2 {
		t.Fatal("a queued cell is lost without a trace in the set")
	}
	p.echo("w1", 2)
	p.echo("w2", 2)
	p.tr.Tick()
	p.note()
	if p.tr.Queued() != 0 || p.tr.Current().Version != 3 || !p.tr.Has("w3") {
		t.Fatalf("agreement lets the queue in: %d, version %d", p.tr.Queued(), p.tr.Current().Version)
	}
	if err := p.tr.Echo("w3", p.ids[2]); err != nil {
		t.Fatal(err)
	}
	p.want("2w1 2w2", "") // a set from before it joined is not w3's
	p.join("w5")
	if p.tr.Queued() != 1 {
		t.Fatal("until that batch agrees too, others wait")
	}
	p.tr.Join("w6", false)
	if p.tr.Queued() != 1 {
		t.Fatal("no process queues while the initial wait lasts")
	}
}

// TestTheDeadAreForgotten once no set that is shown names them; not one that came again.
func TestTheDeadAreForgotten(t *testing.T) {
	p := newPool(t, 0)
	p.join("w1")
	for i := range 100 {
		proc := fmt.Sprint("p", i)
		p.join(proc)
		p.leave(proc)
		p.join("again")
		p.echo("w1", p.tr.Current().Version)
		p.echo("again", p.tr.Current().Version)
		p.tr.Tick()
		if len(p.tr.members) > 3 || len(p.tr.history) > 4 {
			t.Fatalf("%d members, %d steps after %d rounds", len(p.tr.members), len(p.tr.history), i)
		}
		if !p.tr.Has("again") || !p.tr.Permits("again") {
			t.Fatal("it lives")
		}
		p.leave("again")
		if m := p.tr.members["again"]; m == nil || !m.dead {
			t.Fatal("a set that is shown names it")
		}
	}
}

// TestOneThatCameAgainIsNotRequiredByOldSets: its present set does not show by which sets it was required before.
func TestOneThatCameAgainIsNotRequiredByOldSets(t *testing.T) {
	p := newPool(t, 0)
	p.join("w1")
	p.join("w2")
	p.join("x")
	p.leave("x")
	p.echo("w1", 4)
	p.echo("w2", 2)
	p.join("x")
	p.echo("x", 5)
	p.tr.Tick()
	p.want("4w1 4w2 5x", "") // w2 requires w1
}

// TestTheLeastCounts: a process that shows an old set forbids first work, also if all others that showed that set
// have gone on or are gone.
func TestTheLeastCounts(t *testing.T) {
	for name, do := range map[string]func(p *pool){
		"gone":    func(p *pool) { p.leave("w2") },
		"gone on": func(p *pool) { p.echo("w2", 4) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, 0)
			for _, w := range []string{"w1", "w2", "w3"} {
				p.join(w)
			}
			for _, w := range []string{"w1", "w2", "w3"} {
				p.echo(w, 3)
			}
			p.join("w4")
			p.echo("w4", 4)
			do(p)
			p.echo("w4", p.tr.Current().Version)
			if got := p.tr.index.min(); got != 3 || p.tr.Permits("w4") {
				t.Fatalf("least %d: w1 and w3 do not require w4", got)
			}
		})
	}
}

// TestAgreementLetsNewcomersIn: a process that came before the others agreed does not count against later ones.
func TestAgreementLetsNewcomersIn(t *testing.T) {
	p := newPool(t, 2)
	p.join("w1")
	p.join("w2")
	p.echo("w1", 2)
	p.echo("w2", 2)
	p.tr.Tick()
	p.join("w3")
	p.join("w4")
	if p.tr.Queued() != 0 {
		t.Fatal("two may come again")
	}
	p.join("w5")
	if p.tr.Queued() != 1 {
		t.Fatal("and no more")
	}
}

func benchmarkTick(b *testing.B, n int) {
	tr := NewTracker(term, 0)
	for i := range n {
		tr.Join(fmt.Sprint("proc-", i), true)
	}
	id := tr.Current()
	for i := range n {
		_ = tr.Echo(fmt.Sprint("proc-", i), id)
	}
	tr.Tick()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		tr.Leave(fmt.Sprint("proc-", i))
		next := fmt.Sprint("proc-", i+n)
		tr.Join(next, true)
		_ = tr.Echo(next, tr.Current())
		tr.Tick()
	}
}

func BenchmarkTick10k(b *testing.B)  { benchmarkTick(b, 10_000) }
func BenchmarkTick100k(b *testing.B) { benchmarkTick(b, 100_000) }

// version is that of an entry of the history.
func (t *Tracker) version(i int) uint64 { return t.current.Version - uint64(len(t.history)-1-i) }
