package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cantina/auctioneer"
	"cantina/bbs"
	"cantina/cell"
	"cantina/internal/booking"
	"cantina/lrp"
	"cantina/placement"
	"cantina/resource"
	"cantina/task"
	"cantina/worker"
)

// market is the auctioneer of one term, and what stands between it and the board: wants
// become items, what was placed becomes work for a cell, rows become what the ledger holds.
type market struct {
	r     *reign
	b     *board // nil without services and tasks
	house *auctioneer.Auctioneer
	lrps  map[string]lrpWant // by item id
	tasks map[string]taskWant
	awake bool          // a pass is about to be made
	timer int           // of the newest pass
	book  *booking.Book // of the rows of services and tasks
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

func newMarket(r *reign) *market {
	m := &market{r: r, lrps: map[string]lrpWant{}, tasks: map[string]taskWant{}}
	m.house = auctioneer.New(auctioneer.Config{Placement: placement.Config{InFlight: 5 * time.Second, Rest: time.Second, Patience: 5 * time.Second},
		Clock: r.s.kernel()}, nil, m)
	return m
}

// serve connects the board.
func (m *market) serve(b *board) {
	m.b = b
	m.book = booking.New(m.house, func(process string) *lrp.Desired { return b.Definition(process) })
}

func lrpItem(k lrp.Key) string    { return "lrp/" + k.String() }
func taskItem(guid string) string { return "task/" + guid }

// need is what a piece of work takes from its cell.
func need(r resource.Amounts) resource.Amounts {
	return r.Add(resource.Amounts{resource.Containers: 1})
}

// Request implements bbs.Auctioneer.
func (m *market) Request(lrps []bbs.LRPWant, tasks []bbs.TaskWant) {
	if m.b.stops() {
		return
	}
	w := m.r.s.w
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
	if err := m.house.Request(items...); err != nil {
		w.fail("contract", "%v", err)
	}
}

// Withdraw implements bbs.Auctioneer.
func (m *market) Withdraw(lrps []lrp.Key, tasks []bbs.TaskID) {
	if m.b.stops() {
		return
	}
	for _, k := range lrps {
		delete(m.lrps, lrpItem(k))
		m.house.Withdraw(lrpItem(k))
	}
	for _, x := range tasks {
		if t, ok := m.tasks[taskItem(x.GUID)]; ok && t.uid == x.UID {
			delete(m.tasks, taskItem(x.GUID))
			m.house.Withdraw(taskItem(x.GUID))
		}
	}
}

// shift is within how long a loop of a shell runs that was woken.
const shift = 300 * time.Microsecond

// wake has the auctioneer's loop run soon, if it was woken.
func (m *market) wake() {
	if !m.house.Woken() || m.awake {
		return
	}
	m.awake = true
	m.r.s.later(m.r.s.w.between(0, shift), func() {
		m.awake = false
		m.pass()
	})
}

// pass is one turn of the auctioneer's loop.
func (m *market) pass() {
	if m.r.over {
		return
	}
	calls, next, ok := m.house.Pass()
	m.roomFor(calls)
	for _, c := range calls {
		m.perform(c)
	}
	m.timer++
	if timer := m.timer; ok {
		m.r.s.later(next+next/100+time.Microsecond, func() {
			if m.timer == timer {
				m.pass()
			}
		})
	}
}

// roomFor: I4, no cell is given work above its capacity.
func (m *market) roomFor(calls []auctioneer.Call) {
	if len(calls) == 0 {
		return
	}
	for _, v := range m.house.Cells() {
		if slices.ContainsFunc(calls, func(c auctioneer.Call) bool { return c.Cell == v.Name }) {
			m.fits(v)
		}
	}
}

func (m *market) fits(v placement.CellView) {
	if len(v.Capacity.Sub(v.Foreign).Lacking(v.Used)) > 0 {
		m.r.s.w.fail("I4", "%s is given work: %v of %v", v.Name, v.Used, v.Capacity)
	}
}

// Reserve is the auctioneer's, with the same check.
func (m *market) Reserve(wants []placement.Want) []placement.Grant {
	grants := m.house.Reserve(wants)
	granted := func(v placement.CellView) bool {
		return slices.ContainsFunc(grants, func(g placement.Grant) bool { return g.Refusal == nil && g.Cell == v.Name })
	}
	if slices.ContainsFunc(grants, func(g placement.Grant) bool { return g.Refusal == nil }) {
		for _, v := range m.house.Cells() {
			if granted(v) {
				m.fits(v)
			}
		}
	}
	return grants
}

// Waiting tells the board why items found no place.
func (m *market) Waiting(rs []placement.Refused) {
	for _, r := range rs {
		if m.r.over {
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

// Unanswered does nothing: convergence decides.
func (m *market) Unanswered([]placement.Item) {}

// performTimeout bounds one call to a cell.
const performTimeout = 1500 * time.Millisecond

// errSilent is a call without an answer.
var errSilent = errors.New("no answer")

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

// perform makes one call, and the next to the same process that has come up meanwhile.
func (m *market) perform(c auctioneer.Call) {
	r := m.r
	w := r.s.w
	var all []work
	for _, it := range c.Work {
		if want, ok := m.lrps[it.ID]; ok {
			all = append(all, work{lrp: &want, hold: it.Hold})
		} else if want, ok := m.tasks[it.ID]; ok && want.uid == it.Hold {
			all = append(all, work{task: &want, hold: it.Hold})
		}
	}
	done := false
	end := func(refused []noPlace, err error) {
		if done || r.over {
			return
		}
		done = true
		out := make([]auctioneer.Refusal, len(refused))
		for i, no := range refused {
			out[i] = auctioneer.Refusal{Hold: no.hold, Reason: no.reason, Full: no.full}
		}
		if next, more := m.house.Answered(c, out, err); more && !r.over {
			m.perform(next)
		}
	}
	proc := worker.Proc(c.Process)
	to := w.byProc[proc]
	if unreachable := w.cut(w.serverNode(r.s.id), w.machineNode(to.id)) && w.chance(500); unreachable || !to.alive || to.deaf > w.now {
		var never []noPlace
		for _, it := range c.Work {
			never = append(never, noPlace{it.Hold, "the cell cannot be reached", true})
		}
		w.res.Coverage.add(OpPerform, w)
		r.s.later(time.Millisecond, func() { end(never, nil) })
		return
	}
	m.b.toCell(OpPerform, proc, func(p *rep) {
		refused, ok := p.perform(all)
		if !ok || to.doomed {
			return
		}
		w.send(OpPerformAnswer, w.machineNode(to.id), w.serverNode(r.s.id), func() { r.s.on(func() { end(refused, nil) }) })
	})
	r.s.later(performTimeout, func() { end(nil, errSilent) })
}

// offered takes the offer of a cell that was welcomed.
func (m *market) offered(name worker.CellName, s cell.State) {
	m.house.Push(s.State)
	m.admit(name)
}

// admit tells the auction whether a cell may be given work.
func (m *market) admit(name worker.CellName) {
	proc, reason := m.r.reg.Receives(name)
	if reason == "" && m.b != nil && m.b.desk.Of(name) != nil {
		reason = "being drained"
	}
	m.house.Admit(string(name), string(proc), reason)
}

// admit tells the auction whether a cell may be given work.
func (b *board) admit(name worker.CellName) { b.market.admit(name) }

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
