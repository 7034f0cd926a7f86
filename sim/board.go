package sim

import (
	"cmp"
	"slices"
	"time"

	"cantina/lrp"
	"cantina/task"
	"cantina/worker"
)

// The rows of services and tasks in the simulated store.
type (
	serviceRow struct{ key lrp.ServiceKey }
	indexRow   struct{ key lrp.Key }
	taskRow    struct{ guid string }
	drainRow   struct{ cell worker.CellName }
)

// rules are the decisions of the core. Tests put wrong ones in their place.
type rules struct {
	step     func(lrp.Index, lrp.Event, lrp.Env) (lrp.Index, []lrp.Effect, error)
	stepTask func(*task.Task, task.Event, task.Env) (*task.Task, []task.Effect, error)
	early    bool // answers and effects go out before the commit
}

func rightRules() rules { return rules{step: lrp.Step, stepTask: task.Step} }

// board is the bulletin board of one term: it decides on the newest rows, commits,
// shows what is committed, and acts. It is the shell around lrp.Board and task.Board.
type board struct {
	r        *reign
	services *lrp.Board
	tasks    *task.Board
	drains   map[worker.CellName]drain
	shown    shown
	began    time.Time     // the wall clock when the term began
	boot     time.Duration // the server's clock at that moment
	market   *market
	// waiting has the given-up processes whose kept work waits for a successor's report.
	waiting map[string][]string
	said    map[saying]cellState // with heartbeats that are not answered yet
	states  map[worker.CellName]cellState
	full    time.Time // of the last pass over everything
}

// shown is what readers see: committed rows.
type shown struct {
	services map[lrp.ServiceKey]*lrp.Service
	versions map[string]*lrp.Version // by process guid
	indices  map[lrp.Key]lrp.Index
	tasks    map[string]*task.Task
	drains   map[worker.CellName]drain
}

// The settings of the boards: short, so that much happens.
const (
	resend       = 5 * time.Second
	fullPass     = 15 * time.Second
	pendingBound = 10 * time.Minute
	keepTasks    = 3
)

func taskPolicy() task.Policy {
	return task.Policy{Retention: 10 * time.Minute, KeepPerDomain: keepTasks, Kick: resend, StuckResolving: 4 * time.Second}
}

// epoch is where all wall clocks begin.
func epoch() time.Time { return time.Unix(1_700_000_000, 0).UTC() }

// newBoard loads the rows as they stand when a term begins.
func newBoard(r *reign, members []worker.Member) *board {
	w := r.s.w
	b := &board{r: r, services: lrp.NewBoard(lrp.ConvergePolicy{Resend: resend}), tasks: task.NewBoard(taskPolicy()),
		drains: map[worker.CellName]drain{}, waiting: map[string][]string{}, said: map[saying]cellState{}, states: map[worker.CellName]cellState{},
		began: epoch().Add(w.now + w.between(-time.Second, time.Second)), boot: r.s.local(),
		shown: shown{services: map[lrp.ServiceKey]*lrp.Service{}, versions: map[string]*lrp.Version{}, indices: map[lrp.Key]lrp.Index{},
			tasks: map[string]*task.Task{}, drains: map[worker.CellName]drain{}}}
	b.market = newMarket(b)
	b.services.SetDomain(domain, time.Time{})
	b.load()
	b.bury(members)
	t := b.begin()
	for _, k := range b.services.Services() {
		t.surplus(k)
	}
	b.submit(t, nil)
	b.market.book()
	b.market.request(b.pending())
	return b
}

// now is the leader's wall clock, which does not step within a term.
func (b *board) now() time.Time { return b.began.Add(b.r.s.local() - b.boot) }

func (b *board) load() {
	for _, row := range rowsOf[serviceRow, *lrp.Service](b.r.s.w.store, func(x, y serviceRow) int { return x.key.Compare(y.key) }) {
		b.services.PutService(row.val.Resumed(b.now()))
		b.shown.putService(row.key.key, row.val)
	}
	for _, row := range rowsOf[indexRow, lrp.Index](b.r.s.w.store, func(x, y indexRow) int { return x.key.Compare(y.key) }) {
		b.services.LoadIndex(b.notFuture(row.val))
		b.shown.indices[row.key.key] = row.val
	}
	for _, row := range rowsOf[taskRow, *task.Task](b.r.s.w.store, func(x, y taskRow) int { return cmp.Compare(x.guid, y.guid) }) {
		b.tasks.Load(row.val)
		b.shown.tasks[row.key.guid] = row.val
	}
	for _, row := range rowsOf[drainRow, drain](b.r.s.w.store, func(x, y drainRow) int { return cmp.Compare(x.cell, y.cell) }) {
		b.drains[row.key.cell], b.shown.drains[row.key.cell] = row.val, row.val
	}
}

type keyed[K, V any] struct {
	key K
	val V
}

// rowsOf returns the rows of one kind in order.
func rowsOf[K comparable, V any](s *storage, order func(x, y K) int) []keyed[K, V] {
	var out []keyed[K, V]
	for k, v := range s.rows {
		if k, ok := k.(K); ok {
			out = append(out, keyed[K, V]{k, v.(V)})
		}
	}
	slices.SortFunc(out, func(x, y keyed[K, V]) int { return order(x.key, y.key) })
	return out
}

// notFuture brings moments of a leader with a faster clock back to now.
func (b *board) notFuture(x lrp.Index) lrp.Index {
	for _, p := range []**lrp.Actual{&x.Ordinary, &x.Evacuating, &x.Suspect} {
		if a := *p; a != nil && a.Since.After(b.now()) {
			c := *a
			c.Since = b.now()
			*p = &c
		}
	}
	return x
}

// bury declares dead every process that rows name and the list does not.
func (b *board) bury(members []worker.Member) {
	listed := func(p string) bool {
		return slices.ContainsFunc(members, func(m worker.Member) bool { return string(m.Proc) == p })
	}
	for _, p := range b.services.Procs() {
		if !listed(p) {
			b.services.ProcDied(p)
		}
	}
	for _, p := range b.tasks.Procs() {
		if !listed(p) {
			b.tasks.ProcDied(p)
		}
	}
}

// pass converges; from time to time over everything.
func (b *board) pass() {
	if b.r.over {
		return
	}
	all := b.now().Sub(b.full) >= fullPass
	if all {
		b.full = b.now()
	}
	b.converge(all)
}

// maxRounds bounds the passes that one change may need.
const maxRounds = 100

func (b *board) converge(all bool) {
	for range maxRounds {
		if b.r.over {
			return
		}
		now := b.now()
		var out lrp.Outcome
		var moves []task.Move
		if all {
			out, moves = b.services.ConvergeAll(now), b.tasks.ConvergeAll(now)
		} else {
			out, moves = b.services.Converge(now), b.tasks.Converge(now)
		}
		all = false
		if out.Empty() && len(moves) == 0 {
			return
		}
		t := b.begin()
		for _, s := range out.Services {
			t.putService(s.Key, s)
		}
		for _, k := range out.Gone {
			t.putService(k, nil)
		}
		for _, m := range out.Moves {
			t.try(m.Key, m.Event)
		}
		for _, m := range moves {
			t.tryTask(m.GUID, m.Event)
		}
		b.submit(t, nil)
	}
	b.r.s.w.fail("I14", "convergence does not come to rest in %d rounds", maxRounds)
}

// change runs fn on the newest rows, commits what it changed, and converges. done is called
// after the commit.
func (b *board) change(fn func(t *tx), done func()) {
	t := b.begin()
	fn(t)
	b.submit(t, done)
	b.converge(false)
}

// pending is everything that waits for a place.
func (b *board) pending() (keys []lrp.Key, guids []string) {
	for k := range b.shown.indices {
		if _, ok := b.shown.want(k); ok {
			keys = append(keys, k)
		}
	}
	for g, t := range b.shown.tasks {
		if t.State == task.Pending {
			guids = append(guids, g)
		}
	}
	slices.SortFunc(keys, lrp.Key.Compare)
	slices.Sort(guids)
	return keys, guids
}

func (s *shown) putService(k lrp.ServiceKey, next *lrp.Service) {
	if old := s.services[k]; old != nil {
		for i := range old.Versions {
			delete(s.versions, old.Versions[i].Process)
		}
	}
	if next == nil {
		delete(s.services, k)
		return
	}
	s.services[k] = next
	for i := range next.Versions {
		s.versions[next.Versions[i].Process] = &next.Versions[i]
	}
}

// want is what the auction is told of an index that waits for a place.
func (s *shown) want(k lrp.Key) (lrpWant, bool) {
	v, x := s.versions[k.Process], s.indices[k]
	if v == nil || x.Ordinary == nil || x.Ordinary.State != lrp.Unclaimed {
		return lrpWant{}, false
	}
	want := lrpWant{key: k, desired: &v.Desired}
	for _, a := range []*lrp.Actual{x.Suspect, x.Evacuating} {
		if a != nil {
			want.avoid = append(want.avoid, a.Cell)
		}
	}
	return want, true
}
