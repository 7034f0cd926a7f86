package placement

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Auction is the ledger and the work that waits for it. It is not safe for
// concurrent use.
type Auction struct {
	*Ledger
	waiting int               // entries that are not gone
	queues  map[string]*queue // by shape
	fresh   []*entry          // came since the last round
	seq     int64
	batch   *batchWaits
	marks   []*entry // entries that have a cell reserved, in order of reservation
	last    time.Duration
	freed   bool // resources became free that no round has reported
	// starveAt is when Starving looks again at the earliest.
	starveAt time.Duration
}

// entry is one item that waits.
type entry struct {
	item     Item
	pending  *pending // of its item, as long as it waits
	since    time.Duration
	seq      int64
	priority int // of its item, if it counts
	rank     int // of its item: LRPs of index 0, tasks, LRPs of index 1, 2, …
	size     int // memory of its item
	queue    *queue
	gone     bool
	reported bool // the refusal was reported
	mark     *cell
	tries    int           // refusals by cells in a row
	from     time.Duration // not placed before
	// Of batch work: when it was last requested, and whether its requester was woken since.
	asked time.Duration
	poked bool
	own   pending // where it lies, if it is the first of its item
	// The holdings that are being ended for it, and when the last of these was gone.
	ends    []string
	endedAt time.Duration
	// Of an entry that replaced another one: its cell, and ends.
	was *kept
}

// queue holds the waiting work of one shape, best first.
type queue struct {
	shape   *shape
	heap    heap
	sorted  bool     // the heap is in order
	came    []*entry // not in the heap yet
	n       int      // entries that are not gone
	asleep  bool
	refusal *Refusal
	gen     int // of the cells, when refusal was made
	looked  time.Duration
	// starveAt is set when nothing was found that could be ended for it.
	starveAt time.Duration
}

// Refused is an item that waits, with the reason.
type Refused struct {
	Item    Item
	Refusal *Refusal
}

// Result of one round.
type Result struct {
	Placed []Placement
	// Refused holds items that could not be placed and were not reported before, or whose refusal has
	// changed: another code, or cells are known or may get work now.
	Refused []Refused
	// Expired holds items that were in flight too long without a response: their resources are free
	// again, and convergence decides about them.
	Expired []Item
	// Woken is set if batch work may find resources without a release: the rest time of a cell ended,
	// work in flight was refused or not answered in time, or a cell is no longer reserved for an
	// item.
	Woken bool
	// More is set when the round ended at its bound.
	More bool
}

// NewAuction returns an auction over an empty ledger.
func NewAuction(cfg Config) *Auction {
	a := &Auction{Ledger: NewLedger(cfg), queues: make(map[string]*queue)}
	a.batch = &batchWaits{a: a, byShape: make(map[string]*entry)}
	return a
}

// Submit adds work to the next batch. An item whose ID already waits replaces the waiting one and
// keeps its place in time. One whose ID is in flight is dropped (a caller that knows that attempt
// to be dead releases it first), and joins the batch after all if that one expires. It returns
// ErrInvalid for an item without ids or of kind batch, and adds the others.
func (a *Auction) Submit(now time.Duration, items ...Item) error {
	var err error
	var room []entry
	a.flights.pending = roomFor(a.flights.pending, len(items))
	a.fresh = slices.Grow(a.fresh, len(items))
	for i := range items {
		it := &items[i]
		if bad := it.Submittable(); bad != nil {
			err = bad
			continue
		}
		a.note(it.Constraint.Apart)
		since, was := now, (*kept)(nil)
		if x := a.flights.pending[it.ID]; x != nil {
			if x.flies != nil {
				again := *it
				x.flies.again = &again
				continue
			}
			since, was = x.waits.since, x.waits.kept()
			a.drop(x.waits)
		}
		if len(room) == 0 {
			room = make([]entry, min(len(items)-i, entriesAtOnce))
		}
		a.enter(&room[0], it, since)
		room[0].was = was
		room = room[1:]
	}
	return err
}

// entriesAtOnce is how many entries are allocated in one piece: as long as one is used, all take memory.
const entriesAtOnce = 16

// roomFor returns a map with room for n more keys. A map that would double is made anew at once, not in steps.
func roomFor[V any](m map[string]V, n int) map[string]V {
	if n < 1024 || n < len(m) {
		return m
	}
	out := make(map[string]V, len(m)+n)
	maps.Copy(out, m)
	return out
}

func (a *Auction) enqueue(it *Item, since time.Duration) *entry {
	e := &entry{}
	a.enter(e, it, since)
	return e
}

// enter fills an entry, which then waits for the next round.
func (a *Auction) enter(e *entry, it *Item, since time.Duration) {
	a.seq++
	*e = entry{item: *it, since: since, seq: a.seq, rank: rank(it), size: memory(it), priority: a.cfg.priority(it)}
	if e.pending = a.flights.pending[it.ID]; e.pending == nil {
		e.pending = &e.own
		a.flights.pending[it.ID] = e.pending
	}
	e.pending.waits = e
	a.waiting++
	a.fresh = append(a.fresh, e)
}

// Withdraw removes unwanted items from the waiting work. It returns how many waited.
func (a *Auction) Withdraw(ids ...string) int {
	n := 0
	for _, id := range ids {
		if e := a.entryOf(id); e != nil {
			a.drop(e)
			n++
		}
	}
	return n
}

func (a *Auction) drop(e *entry) {
	e.gone = true
	a.waiting--
	e.pending.waits = nil
	a.flights.settle(e.item.ID, e.pending)
	a.unmark(e)
	if q := e.queue; q != nil {
		if q.n--; q.n == 0 {
			delete(a.queues, q.shape.key)
		}
	}
}

// Waiting returns how many items wait.
func (a *Auction) Waiting() int { return a.waiting }

// entryOf returns the entry of an item that waits.
func (a *Auction) entryOf(id string) *entry {
	if x := a.flights.pending[id]; x != nil {
		return x.waits
	}
	return nil
}

// Untried returns how many items wait for a round, and not for room.
func (a *Auction) Untried() int {
	n := a.waiting
	for _, q := range a.queues {
		if q.asleep {
			n -= q.n
		}
	}
	return n
}

// InFlight returns how many instances and tasks are placed and not confirmed.
func (a *Auction) InFlight() int { return a.flights.inFlight }

// WaitingSince returns since when an item waits.
func (a *Auction) WaitingSince(id string) (time.Duration, bool) {
	if e := a.entryOf(id); e != nil {
		return e.since, true
	}
	return 0, false
}

// Refuse handles a cell's refusal of work in flight: the item is carried over into the next batch.
// If the cell is full, or takes no work, it is skipped for a time, because the ledger is out of
// date; then why is the reason for that. Otherwise the reason is this item, and it waits 1, 2, 4 …
// 30 s. Holdings that are not in flight are ignored.
func (a *Auction) Refuse(now time.Duration, hold string, full bool, why string) {
	h := a.holds[hold]
	if h == nil || !h.inFlight {
		return
	}
	c := h.cell
	a.deallocate(h)
	a.freed = true
	if full && a.byName[c.name] == c {
		if why != "" {
			why = "refused work recently: " + why
		}
		a.rest(c, now+a.cfg.Rest, why)
	}
	if h.Kind == KindBatch || a.entryOf(h.item.ID) != nil {
		return
	}
	e := a.enqueue(h.item, now)
	e.tries = h.tries + 1
	if !full {
		e.from = now + min(time.Second<<min(h.tries, 5), 30*time.Second)
	}
}

// Rest keeps a cell out of the auction for some time: it refused granted batch work.
func (a *Auction) Rest(now time.Duration, name string) { a.RestFor(now, a.cfg.Rest, name, "") }

// RestFor is Rest with its own duration and reason.
func (a *Auction) RestFor(now, d time.Duration, name, why string) {
	if c := a.byName[name]; c != nil {
		a.rest(c, now+d, why)
	}
}

// Flies reports whether a holding is in flight to a process: it is unknown whether that has it.
func (a *Auction) Flies(hold, process string) bool {
	h := a.holds[hold]
	return h != nil && h.inFlight && a.byName[h.cell.name] == h.cell && h.cell.process == process
}

// Round runs one auction: everything that came since the last one and everything
// that waits and might fit now, in the order of work.
func (a *Auction) Round(now time.Duration) Result {
	var r Result
	a.last = now
	resting := len(a.resting)
	a.wake(now)
	a.freed = a.freed || len(a.resting) < resting
	a.expire(now, &r)
	a.regroup()
	a.rouse()
	fresh := a.admitFresh(now)
	a.place(now, &r)
	a.report(now, fresh, &r)
	a.batch.tidy(now)
	a.reserveCells(now)
	r.Woken, a.freed = a.freed, false
	return r
}

// expire frees work that was in flight too long. Items that were requested again meanwhile join
// the batch.
func (a *Auction) expire(now time.Duration, r *Result) {
	for _, h := range a.flights.expired(now) {
		if a.holds[h.Hold] != h {
			continue // stranded and over time at once
		}
		a.deallocate(h)
		a.freed = true
		if h.Kind == KindBatch {
			continue
		}
		if h.again != nil && a.entryOf(h.item.ID) == nil {
			a.enqueue(h.again, now)
			continue
		}
		r.Expired = append(r.Expired, *h.item)
	}
}

// rouse wakes the queues that a changed cell could help.
func (a *Auction) rouse() {
	for _, c := range a.improved {
		c.improved = false
		if c.earmarkFor != "" {
			if e := a.entryOf(c.earmarkFor); e != nil && e.queue != nil {
				e.queue.asleep = false
			}
		}
	}
	for _, q := range a.queues {
		if a.domains.eased[q.shape.group] {
			q.asleep = false
		}
		if !q.asleep || len(a.improved) == 0 {
			continue
		}
		a.compile(q.shape)
		for _, c := range a.improved {
			if a.fits(q.shape, c, nil) {
				q.asleep = false
				break
			}
		}
	}
	clear(a.domains.eased)
	clear(a.improved)
	a.improved = a.improved[:0]
}

// regroup gives waiting work of services that others are kept apart from, since the last round, shapes of
// its own.
func (a *Auction) regroup() {
	for _, q := range a.queues {
		if len(a.apart.fresh) == 0 {
			return
		}
		for _, e := range q.heap {
			if e.gone || !slices.Contains(a.apart.fresh, e.item.Service) {
				continue
			}
			a.drop(e)
			again := a.enqueue(&e.item, e.since)
			again.seq, again.reported, again.tries = e.seq, e.reported, e.tries
		}
	}
	a.apart.fresh = nil
}

// admitFresh moves the fresh entries that are due into the queues of their shapes.
func (a *Auction) admitFresh(now time.Duration) []*entry {
	all := a.fresh
	a.fresh = nil
	var fresh []*entry
	var last *queue // of the newest of fresh
	for _, e := range all {
		if e.gone {
			continue
		}
		if e.from > now {
			a.fresh = append(a.fresh, e)
			continue
		}
		fresh = append(fresh, e)
		q := last
		if n := len(fresh); n < 2 || q == nil || !alike(&fresh[n-2].item, &e.item) {
			s := a.shapeOf(&e.item)
			if q = a.queues[s.key]; q == nil {
				q = &queue{shape: s}
				a.queues[s.key] = q
			}
		}
		e.queue, last = q, q
		q.n++
		q.came = append(q.came, e)
		a.resume(e)
	}
	for _, q := range a.queues {
		q.take()
	}
	return fresh
}

// awake returns the queues to try, best head first.
func (a *Auction) awake() []*queue {
	var qs []*queue
	for _, q := range a.queues {
		if !q.asleep {
			qs = append(qs, q)
		}
	}
	slices.SortFunc(qs, func(x, y *queue) int { return compareEntries(x.head(), y.head()) })
	return qs
}

// head returns the best entry that is not gone.
func (q *queue) head() *entry {
	for len(q.heap) > 0 && q.heap[0].gone {
		q.pop()
	}
	if len(q.heap) == 0 {
		return nil
	}
	return q.heap[0]
}

// place goes over the awake queues in the order of work. When the head of a queue
// finds no cell, nothing of its shape does: the queue sleeps.
func (a *Auction) place(now time.Duration, r *Result) {
	var tops queueHeap
	for _, q := range a.awake() {
		tops = append(tops, q) // sorted: a heap already
	}
	most := max(a.cfg.Batch, len(a.queues)/8)
	r.Placed = make([]Placement, 0, min(most, a.waiting))
	a.holds = roomFor(a.holds, cap(r.Placed))
	for len(tops) > 0 {
		if len(r.Placed) >= most {
			r.More = true
			return
		}
		q := tops[0]
		e := q.head()
		if !a.award(e, now, r) {
			a.awardKept(q, now, r)
			q.asleep = true
			tops.pop()
			continue
		}
		if q.head() == nil {
			tops.pop()
		} else {
			tops.sink()
		}
	}
}

// award gives one entry a cell if there is one: the best one, or the one that is
// kept for it.
func (a *Auction) award(e *entry, now time.Duration, r *Result) bool {
	if a.holds[e.item.Hold] != nil { // its attempt is allocated meanwhile
		a.drop(e)
		return true
	}
	s := e.queue.shape
	a.compile(s)
	g := a.groups[e.item.Group]
	c := a.find(s, g)
	if c == nil && e.mark != nil && a.fits(s, e.mark, e.mark.earmark) {
		c = e.mark
	}
	if c == nil {
		return false
	}
	h := a.launch(&e.item, e.pending, g, s, c, now)
	h.tries = e.tries
	a.drop(e)
	placed := h.placement()
	placed.Waited = now - e.since
	r.Placed = append(r.Placed, placed)
	return true
}

// lookAgain is the minimum duration of a refusal, for any change of the cells.
const lookAgain = time.Second

// kindOf is the part of a refusal whose change is reported: amounts change all the time.
type kindOf struct {
	code        Code
	never       bool
	cells, seen bool // any is known, and any of them may be given work
}

func (r *Refusal) kind() kindOf {
	k := kindOf{code: r.Code, never: r.Never, cells: len(r.Classes) > 0}
	for i := range r.Classes {
		k.seen = k.seen || r.Classes[i].Cause != CauseNotAdmitted
	}
	return k
}

// report returns fresh entries that were not placed, and all entries of a queue whose refusal
// changed its kind.
func (a *Auction) report(now time.Duration, fresh []*entry, r *Result) {
	for _, q := range a.queues {
		if !q.asleep {
			continue
		}
		if q.refusal == nil || q.gen != a.cellGen && now-q.looked >= lookAgain {
			old := q.refusal
			q.refusal, q.gen, q.looked = a.explain(q.shape), a.cellGen, now
			if old != nil && old.kind() != q.refusal.kind() {
				for _, e := range q.heap {
					e.reported = false
				}
				fresh = append(fresh, q.heap...)
			}
		}
	}
	fresh = slices.DeleteFunc(fresh, func(e *entry) bool { return e.gone || e.reported || !e.queue.asleep })
	slices.SortFunc(fresh, compareEntries)
	for _, e := range slices.Compact(fresh) {
		e.reported = true
		r.Refused = append(r.Refused, Refused{Item: e.item, Refusal: e.queue.refusal})
	}
}

// ExplainWaiting returns why an item waits, computed now, or nil when it does not
// wait.
func (a *Auction) ExplainWaiting(id string) *Refusal {
	e := a.entryOf(id)
	if e == nil {
		return nil
	}
	return a.explain(a.shapeOf(&e.item))
}

// compareEntries is the order of work: the higher priority, if that counts; LRPs of index 0, tasks, LRPs of index 1,
// 2, …; within a rank decreasing memory, then the order of arrival (Diego dev notes,
// "Auction Work Prioritization").
func compareEntries(x, y *entry) int {
	return cmp.Or(
		cmp.Compare(y.priority, x.priority),
		cmp.Compare(x.rank, y.rank),
		cmp.Compare(y.size, x.size),
		cmp.Compare(x.since, y.since),
		cmp.Compare(x.seq, y.seq),
	)
}

func rank(it *Item) int {
	if it.Kind == KindTask {
		return 1
	}
	if it.Index <= 0 {
		return 0
	}
	return it.Index + 1
}
