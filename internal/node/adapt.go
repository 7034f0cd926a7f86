package node

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"cantina/auctioneer"
	"cantina/batch"
	"cantina/bbs"
	"cantina/cell"
	"cantina/fence"
	"cantina/internal/link"
	"cantina/lrp"
	"cantina/placement"
	"cantina/registry"
	"cantina/task"
	"cantina/worker"
)

// errNoAddress reports a cell that nothing is known of.
var errNoAddress = errors.New("the cell's address is not known")

// market stands between board and auctioneer: it turns wants into items, and items
// that were placed into the work of a Perform call.
type market struct {
	term  fence.Term
	cells *link.Directory
	newID func() string
	mu    sync.Mutex
	house *auctioneer.Auctioneer
	board *bbs.BBS
	lrps  map[string]bbs.LRPWant // by item id
	tasks map[string]bbs.TaskWant
	// settled says that the cells have had their time to join.
	settled func() bool
	early   map[string]bool // items that no cell could hold, found before that
}

func lrpItem(k lrp.Key) string    { return "lrp/" + k.String() }
func taskItem(guid string) string { return "task/" + guid }

// Request implements bbs.Auctioneer.
func (m *market) Request(lrps []bbs.LRPWant, tasks []bbs.TaskWant) {
	items := make([]placement.Item, 0, len(lrps)+len(tasks))
	m.mu.Lock()
	for _, w := range lrps {
		d := w.Desired
		items = append(items, placement.Item{ID: lrpItem(w.Key), Hold: m.newID(), Kind: placement.KindLRP, Group: w.Key.Process, Index: w.Key.Index,
			Need: d.Workload.Resources, Avoid: w.Avoid,
			Constraint: placement.Constraint{Stack: d.Stack, Tags: d.PlacementTags, Labels: d.Labels, Tolerates: d.Tolerations}})
		m.lrps[lrpItem(w.Key)] = w
	}
	for _, w := range tasks {
		d := w.Definition
		items = append(items, placement.Item{ID: taskItem(w.GUID), Hold: w.UID, Kind: placement.KindTask, Need: d.Workload.Resources,
			Constraint: placement.Constraint{Stack: d.Stack, Tags: d.PlacementTags, Labels: d.Labels, Tolerates: d.Tolerations}})
		m.tasks[taskItem(w.GUID)] = w
	}
	m.mu.Unlock()
	if err := m.house.Request(items...); err != nil {
		panic(fmt.Sprintf("items made here are refused: %v", err))
	}
}

// Withdraw implements bbs.Auctioneer.
func (m *market) Withdraw(lrps []lrp.Key, tasks []bbs.TaskID) {
	var ids []string
	m.mu.Lock()
	for _, k := range lrps {
		ids = append(ids, lrpItem(k))
		delete(m.lrps, lrpItem(k))
	}
	for _, t := range tasks {
		if w, ok := m.tasks[taskItem(t.GUID)]; ok && w.UID == t.UID {
			ids = append(ids, taskItem(t.GUID))
			delete(m.tasks, taskItem(t.GUID))
		}
	}
	m.mu.Unlock()
	m.house.Withdraw(ids...)
}

// Perform implements auctioneer.Cells.
func (m *market) Perform(ctx context.Context, name, process string, items []placement.Item) ([]auctioneer.Refusal, error) {
	c := m.cells.Cell(worker.CellName(name))
	if c == nil {
		return nil, fmt.Errorf("cell %s: %w", name, errNoAddress)
	}
	work := cell.Work{Term: m.term, Proc: worker.Proc(process)}
	m.mu.Lock()
	for _, it := range items {
		if w, ok := m.lrps[it.ID]; ok {
			work.LRPs = append(work.LRPs, cell.LRPWork{Key: w.Key, Service: w.Desired.Service, Instance: it.Hold, Workload: &w.Desired.Workload, DeadlineBound: w.Desired.DeadlineBound(), Exclusive: w.Desired.Exclusive})
		} else if w, ok := m.tasks[it.ID]; ok && w.UID == it.Hold {
			work.Tasks = append(work.Tasks, cell.TaskWork{GUID: w.GUID, UID: w.UID, Domain: w.Domain, Workload: &w.Definition.Workload, DeadlineBound: w.Definition.DeadlineBound()})
		}
	}
	m.mu.Unlock()
	refused, err := c.Perform(ctx, work)
	if err != nil && link.NeverSent(err) {
		return neverSent(items, err), nil
	}
	if err != nil {
		return nil, err
	}
	out := make([]auctioneer.Refusal, len(refused))
	for i, r := range refused {
		out[i] = auctioneer.Refusal{Hold: r.ID, Reason: r.Reason, Full: r.Cell}
	}
	return out, nil
}

// neverSent refuses what certainly never reached its cell: unlike work that may have
// been accepted, it is placed again at once, and the cell rests. (Diego dev notes, Distributing ActualLRPs.)
func neverSent(items []placement.Item, why error) []auctioneer.Refusal {
	out := make([]auctioneer.Refusal, len(items))
	for i, it := range items {
		out[i] = auctioneer.Refusal{Hold: it.Hold, Reason: "the cell cannot be reached: " + why.Error(), Full: true}
	}
	return out
}

// Waiting implements auctioneer.Feedback.
func (m *market) Waiting(refused []placement.Refused) {
	for _, r := range refused {
		m.mu.Lock()
		l, isLRP := m.lrps[r.Item.ID]
		t, isTask := m.tasks[r.Item.ID]
		m.mu.Unlock()
		switch {
		case isLRP:
			m.board.PlacementFailed(l.Key, r.Refusal.String())
		case isTask && r.Refusal.Cell != "":
			m.board.TaskRefused(t.GUID, t.UID, r.Refusal.String())
		case isTask:
			m.board.TaskRejected(t.GUID, t.UID, r.Refusal.String(), r.Refusal.Never && m.maySayNever(r.Item.ID))
		}
	}
}

// Unanswered implements auctioneer.Feedback: convergence decides.
func (m *market) Unanswered([]placement.Item) {}

// calls reaches cells for the board.
type calls struct {
	term  fence.Term
	cells *link.Directory
	run   func(func(context.Context))
}

// StopInstance implements bbs.Cells.
func (c *calls) StopInstance(key lrp.Key, who lrp.Identity) {
	c.run(func(ctx context.Context) {
		if to := c.cells.Cell(worker.CellName(who.Cell)); to != nil {
			_ = to.StopInstance(ctx, c.term, worker.Proc(who.Proc), key, who.Instance) // a lost call is found by the cell's poll
		}
	})
}

// CancelTask implements bbs.Cells.
func (c *calls) CancelTask(holder task.Holder, _, uid string) {
	c.run(func(ctx context.Context) {
		if to := c.cells.Cell(worker.CellName(holder.Cell)); to != nil {
			_ = to.CancelTask(ctx, c.term, worker.Proc(holder.Proc), uid) // a lost call is found by the cell's poll
		}
	})
}

// protocol carries the registry's calls.
type protocol struct{ cells *link.Directory }

func (p protocol) to(name worker.CellName) (link.Cell, error) {
	if c := p.cells.Cell(name); c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("cell %s: %w", name, errNoAddress)
}

// GetRunningTasks implements registry.Cells.
func (p protocol) GetRunningTasks(ctx context.Context, name worker.CellName, q worker.ReportRequest) (worker.Report, error) {
	c, err := p.to(name)
	if err != nil {
		return worker.Report{}, err
	}
	return c.GetRunningTasks(ctx, q)
}

// RunTasks implements registry.Cells.
func (p protocol) RunTasks(ctx context.Context, name worker.CellName, tasks []worker.RunTask, payloads []*batch.Payload) ([]worker.RunAnswer, error) {
	c, err := p.to(name)
	if err != nil {
		return nil, err
	}
	items := make([]cell.RunItem, len(tasks))
	for i, t := range tasks {
		items[i].Call = t
		if x := payloads[i]; x != nil {
			items[i].Work = cell.WorkOf(x)
		}
	}
	return c.RunTasks(ctx, items)
}

// NotifyIfTasksNotRunning implements registry.Cells.
func (p protocol) NotifyIfTasksNotRunning(ctx context.Context, name worker.CellName, q worker.Notify) (worker.NotifyAnswer, error) {
	c, err := p.to(name)
	if err != nil {
		return worker.NotifyAnswer{}, err
	}
	return c.NotifyIfTasksNotRunning(ctx, q)
}

// KillTask implements registry.Cells.
func (p protocol) KillTask(ctx context.Context, name worker.CellName, calls []worker.KillTask) error {
	c, err := p.to(name)
	if err == nil {
		_, err = c.KillTask(ctx, calls)
	}
	return err
}

// RequestSuicide implements registry.Cells.
func (p protocol) RequestSuicide(ctx context.Context, name worker.CellName, s worker.Suicide) error {
	c, err := p.to(name)
	if err == nil {
		err = c.RequestSuicide(ctx, s)
	}
	return err
}

// NeverSent implements registry.Cells.
func (p protocol) NeverSent(err error) bool {
	return errors.Is(err, errNoAddress) || link.NeverSent(err)
}

// sessions is the registry as the scheduler and the board see it.
type sessions struct{ *registry.Registry }

// Run implements scheduler.Registry.
func (s sessions) Run(r worker.Request, payload func(fence.Invocation) (batch.Payload, bool)) (fence.Invocation, worker.Hold, bool) {
	return s.StartBatch(r, payload)
}
