package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cantina/bbs"
	"cantina/internal/booking"
	"cantina/lrp"
	"cantina/placement"
	"cantina/resource"
	"cantina/task"
	"cantina/worker"
)

// market is the auctioneer of one term: the loop around placement.Auction, which
// sends what was placed to the cells and books what rows say.
type market struct {
	b       *board
	auction *placement.Auction
	lrps    map[string]lrpWant // by item id
	tasks   map[string]taskWant
	lines   map[string]*line // by cell
	book    *booking.Book
	pumping bool
}

type lrpWant struct {
	key     lrp.Key
	desired *lrp.Desired
	avoid   []string
}

type taskWant struct {
	guid, uid  string
	definition *task.Definition
}

// line is the calls to one cell process: one at a time.
type line struct {
	cell, proc string
	queue      []placement.Item
	busy       bool
}

func newMarket(b *board) *market {
	cfg := placement.Config{InFlight: 5 * time.Second, Rest: time.Second, Patience: 5 * time.Second}
	m := &market{b: b, auction: placement.NewAuction(cfg), lrps: map[string]lrpWant{}, tasks: map[string]taskWant{}, lines: map[string]*line{}}
	m.book = booking.New(ledger{m.auction}, func(process string) *lrp.Desired { return b.Definition(process) })
	return m
}

// ledger is the room that the auction knows, as the book of the rows needs it.
type ledger struct{ *placement.Auction }

// Release implements booking.Ledger.
func (l ledger) Release(holds ...string) { l.Auction.Release(holds...) }

func lrpItem(k lrp.Key) string    { return "lrp/" + k.String() }
func taskItem(guid string) string { return "task/" + guid }

func (m *market) now() time.Duration { return m.b.r.s.local() }

// need is what a piece of work takes from its cell.
func need(r resource.Amounts) resource.Amounts {
	return r.Add(resource.Amounts{resource.Containers: 1})
}

// Request implements bbs.Auctioneer.
func (m *market) Request(lrps []bbs.LRPWant, tasks []bbs.TaskWant) {
	if m.b.stops() {
		return
	}
	w := m.b.r.s.w
	var items []placement.Item
	for _, x := range lrps {
		m.lrps[lrpItem(x.Key)] = lrpWant{x.Key, x.Desired, x.Avoid}
		items = append(items, placement.Item{ID: lrpItem(x.Key), Hold: w.newID("i"), Kind: placement.KindLRP, Group: x.Key.Process, Index: x.Key.Index,
			Need: x.Desired.Workload.Resources, Avoid: x.Avoid})
	}
	for _, x := range tasks {
		m.tasks[taskItem(x.GUID)] = taskWant{x.GUID, x.UID, x.Definition}
		items = append(items, placement.Item{ID: taskItem(x.GUID), Hold: x.UID, Kind: placement.KindTask, Need: x.Definition.Workload.Resources})
	}
	if err := m.auction.Submit(m.now(), items...); err != nil {
		w.fail("contract", "%v", err)
	}
	m.pump()
}

// Withdraw implements bbs.Auctioneer.
func (m *market) Withdraw(lrps []lrp.Key, tasks []bbs.TaskID) {
	if m.b.stops() {
		return
	}
	for _, k := range lrps {
		delete(m.lrps, lrpItem(k))
		m.auction.Withdraw(lrpItem(k))
	}
	for _, x := range tasks {
		if t, ok := m.tasks[taskItem(x.GUID)]; ok && t.uid == x.UID {
			delete(m.tasks, taskItem(x.GUID))
			m.auction.Withdraw(taskItem(x.GUID))
		}
	}
	m.pump()
}

// pump runs rounds until nothing is left to place.
func (m *market) pump() {
	if m.pumping || m.b.r.over {
		return
	}
	m.pumping = true
	for more := true; more && !m.b.r.over; {
		r := m.auction.Round(m.now())
		more = r.More
		m.refused(r.Refused)
		for _, p := range r.Placed {
			l := m.lines[p.Cell]
			if l == nil || l.proc != p.Process {
				l = &line{cell: p.Cell, proc: p.Process}
				m.lines[p.Cell] = l
			}
			l.queue = append(l.queue, p.Item)
			m.send(l)
		}
		m.roomFor(r.Placed)
	}
	m.pumping = false
}

// roomFor: I4, no cell is given work above its capacity.
func (m *market) roomFor(placed []placement.Placement) {
	if len(placed) == 0 {
		return
	}
	for _, v := range m.auction.Cells() {
		given := slices.ContainsFunc(placed, func(p placement.Placement) bool { return p.Cell == v.Name })
		if given && len(v.Capacity.Sub(v.Foreign).Lacking(v.Used)) > 0 {
			m.b.r.s.w.fail("I4", "%s is given work: %v of %v", v.Name, v.Used, v.Capacity)
		}
	}
}

// refused tells the board why items found no place.
func (m *market) refused(rs []placement.Refused) {
	for _, r := range rs {
		if m.b.r.over {
			return
		}
		if l, ok := m.lrps[r.Item.ID]; ok {
			m.b.PlacementFailed(l.key, r.Refusal.String())
		} else if t, ok := m.tasks[r.Item.ID]; ok && r.Refusal.Cell != "" {
			m.b.TaskRefused(t.guid, t.uid, r.Refusal.String())
		} else if ok {
			m.b.TaskRejected(t.guid, t.uid, r.Refusal.String(), false)
		}
	}
}

// performTimeout bounds one call to a cell.
const performTimeout = 1500 * time.Millisecond

// work is one unit of a Perform call.
type work struct {
	lrp  *lrpWant
	task *taskWant
	hold string
}

// noPlace is why a cell did not take one unit.
type noPlace struct {
	hold, reason string
	full         bool
}

func (m *market) send(l *line) {
	if l.busy || len(l.queue) == 0 || m.b.r.over {
		return
	}
	items := l.queue
	l.queue, l.busy = nil, true
	var all []work
	for _, it := range items {
		if want, ok := m.lrps[it.ID]; ok {
			all = append(all, work{lrp: &want, hold: it.Hold})
		} else if want, ok := m.tasks[it.ID]; ok && want.uid == it.Hold {
			all = append(all, work{task: &want, hold: it.Hold})
		}
	}
	m.perform(l, items, all)
}

// perform makes one call: refused, it is placed again; without an answer it is not.
func (m *market) perform(l *line, items []placement.Item, all []work) {
	r := m.b.r
	w := r.s.w
	done := false
	end := func(refused []noPlace) {
		if done || r.over {
			return
		}
		done, l.busy = true, false
		m.takeBack(l.cell, items, refused)
		m.send(l)
		m.pump()
	}
	proc := worker.Proc(l.proc)
	to := w.byProc[proc]
	if unreachable := w.cut(w.serverNode(r.s.id), w.machineNode(to.id)) && w.chance(500); unreachable || !to.alive || to.deaf > w.now {
		var never []noPlace
		for _, it := range items {
			never = append(never, noPlace{it.Hold, "the cell cannot be reached", true})
		}
		w.res.Coverage.add(OpPerform, w)
		r.s.later(time.Millisecond, func() { end(never) })
		return
	}
	m.b.toCell(OpPerform, proc, func(p *rep) {
		refused, ok := p.perform(all)
		if !ok || to.doomed {
			return
		}
		w.send(OpPerformAnswer, w.machineNode(to.id), w.serverNode(r.s.id), func() { r.s.on(func() { end(refused) }) })
	})
	r.s.later(performTimeout, func() { end(nil) })
}

// takeBack carries over what a cell did not take.
func (m *market) takeBack(cell string, items []placement.Item, refused []noPlace) {
	var told []placement.Refused
	for _, no := range refused {
		i := slices.IndexFunc(items, func(it placement.Item) bool { return it.Hold == no.hold })
		if i < 0 {
			continue
		}
		m.auction.Refuse(m.now(), no.hold, no.full)
		told = append(told, placement.Refused{Item: items[i], Refusal: placement.RefusedByCell(cell, no.reason)})
	}
	m.refused(told)
}

// admit tells the auction whether a cell may be given work.
func (b *board) admit(name worker.CellName) {
	h, ok := b.r.leader.MayReceive(name)
	reason := ""
	if !ok {
		reason = h.Reason.String()
	} else if b.desk.Of(name) != nil {
		reason = "being drained"
	}
	b.market.auction.Admit(string(name), string(h.Proc), reason)
}

// describe prints the rows of an index on one line.
func describe(x lrp.Index) string {
	if x.Empty() {
		return x.Key.String() + " -"
	}
	var b strings.Builder
	b.WriteString(x.Key.String())
	for _, a := range x.Rows() {
		fmt.Fprintf(&b, " %v %v", a.Presence, a.State)
		if a.Instance != "" {
			fmt.Fprintf(&b, " %s@%s/%s", a.Instance, a.Cell, a.Proc)
		}
		if a.Retiring {
			b.WriteString(" retiring")
		}
		if a.CrashCount > 0 {
			fmt.Fprintf(&b, " crash %d", a.CrashCount)
		}
	}
	return b.String()
}

func describeTask(t *task.Task) string {
	if t == nil {
		return "-"
	}
	s := fmt.Sprintf("%s %v", t.UID, t.State)
	if t.Holder != (task.Holder{}) {
		s += fmt.Sprintf(" %s/%s", t.Holder.Cell, t.Holder.Proc)
	}
	if t.Outcome != task.Open {
		s += " " + t.Outcome.String()
	}
	return s
}
