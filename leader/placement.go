package leader

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"cantina/auctioneer"
	"cantina/bbs"
	"cantina/cell"
	"cantina/fence"
	"cantina/label"
	"cantina/lrp"
	"cantina/placement"
	"cantina/task"
	"cantina/worker"
)

// Performer reaches cell processes.
type Performer interface {
	// Perform gives work to its process, and returns the refused items. An error is an unknown
	// outcome, unless NeverSent reports that the call certainly was not sent.
	Perform(ctx context.Context, name worker.CellName, work cell.Work) ([]cell.Refusal, error)
	NeverSent(err error) bool
}

// PlacementBoard receives the reasons why work has no place: bbs.BBS.
type PlacementBoard interface {
	PlacementFailed(all ...bbs.Unplaced)
	TaskRefused(guid, uid, reason string)
	TaskRejected(guid, uid, reason string, never bool)
}

// placementConfig has the parts of a PlacementAdapter. All are needed.
type placementConfig struct {
	Term  fence.Term
	Cells Performer
	// Board returns the board that requests the placements.
	Board func() PlacementBoard
	// Auctioneer has the settings of the auctioneer that places the items.
	Auctioneer auctioneer.Config
	// NewID returns the id of an instance.
	NewID func() string
	// Joined reports whether the cells have had their time to join: then work that no present cell
	// could ever hold may fail.
	Joined func() bool
}

// PlacementAdapter connects the board and the auctioneer: requests become items, placed items
// become the work of a Perform call, and the reason why an item found no place is returned to the
// board. Its methods are safe for concurrent use. (Diego dev notes, Distributing ActualLRPs:
// Auctioneer.)
//
//	board ──wants──► PlacementAdapter ──items──► auctioneer ──placed──► PlacementAdapter ──cell.Work──► cell
//	board ◄──reasons── PlacementAdapter ◄──refused── auctioneer ◄──refusals── PlacementAdapter ◄────────┘
type PlacementAdapter struct {
	cfg        placementConfig
	auctioneer *auctioneer.Auctioneer

	mu    sync.Mutex
	lrps  map[string]bbs.LRPWant // by item id
	tasks map[string]bbs.TaskWant
	asked map[string]int // by item id: the number of the newest request
	last  int            // number of a request
	early earlyItems
}

// newPlacementAdapter also makes the auctioneer, as its Cells and Feedback.
func newPlacementAdapter(cfg placementConfig) *PlacementAdapter {
	p := &PlacementAdapter{cfg: cfg, lrps: map[string]bbs.LRPWant{}, tasks: map[string]bbs.TaskWant{},
		asked: map[string]int{},
		early: earlyItems{holds: map[string]string{}}}
	p.auctioneer = auctioneer.New(cfg.Auctioneer, p, p)
	return p
}

// LRPItem names the item of an index, for the auctioneer's Explain.
func LRPItem(k lrp.Key) string { return "lrp/" + k.String() }

// TaskItem names the item of a task.
func TaskItem(guid string) string { return "task/" + guid }

// Suits is the constraint that a cell must meet to get an instance.
func Suits(d *lrp.Desired) placement.Constraint {
	c := placement.Constraint{Stack: d.Stack, Tags: d.PlacementTags, Labels: d.Labels, Tolerates: d.Tolerations,
		Conditions: labelConditions(d.Conditions), Spread: d.Spread, Apart: d.Apart(),
		Ports: d.Workload.FixedPorts(), OpenFiles: d.Workload.MostOpenFiles(), Isolation: d.Workload.Kinds(),
		Volumes: d.Workload.HostPaths()}
	for _, name := range slices.Sorted(maps.Keys(d.MaxPer)) {
		c.Limits = append(c.Limits, placement.Limit{Label: name, Most: d.MaxPer[name]})
	}
	return c
}

// taskSuits is the constraint that a cell must meet to get a task.
func taskSuits(d *task.Definition) placement.Constraint {
	return placement.Constraint{Stack: d.Stack, Tags: d.PlacementTags, Labels: d.Labels, Tolerates: d.Tolerations,
		Conditions: labelConditions(d.Conditions),
		Ports:      d.Workload.FixedPorts(), OpenFiles: d.Workload.MostOpenFiles(), Isolation: d.Workload.Kinds(),
		Volumes: d.Workload.HostPaths()}
}

// labelConditions parses the conditions of a definition. They were validated at apply: there is no error.
func labelConditions(texts []string) []label.Condition {
	out, _ := label.ParseAll(texts)
	return out
}

// Request implements bbs.Auctioneer.
func (p *PlacementAdapter) Request(lrps []bbs.LRPWant, tasks []bbs.TaskWant) {
	items := make([]placement.Item, 0, len(lrps)+len(tasks))
	var dropped []string
	p.mu.Lock()
	p.last++
	for _, w := range lrps {
		d := w.Desired
		items = append(items, placement.Item{ID: LRPItem(w.Key), Hold: p.cfg.NewID(), Kind: placement.KindLRP,
			Group: w.Key.Process, Service: d.Service.String(), Index: w.Key.Index,
			Need: d.Workload.Resources, Avoid: w.Avoid, Priority: d.Priority(),
			Name: fmt.Sprintf("%v/%d", d.Service, w.Key.Index), Constraint: Suits(d)})
		p.lrps[LRPItem(w.Key)], p.asked[LRPItem(w.Key)] = w, p.last
		dropped = append(dropped, w.Dropped...)
	}
	for _, w := range tasks {
		d := w.Definition
		items = append(items, placement.Item{ID: TaskItem(w.GUID), Hold: w.UID, Name: "task " + w.GUID,
			Kind: placement.KindTask, Need: d.Workload.Resources,
			Constraint: taskSuits(d), Priority: d.Priority()})
		p.tasks[TaskItem(w.GUID)], p.asked[TaskItem(w.GUID)] = w, p.last
		if w.Dropped {
			dropped = append(dropped, w.UID)
		}
	}
	p.mu.Unlock()
	if len(dropped) > 0 {
		p.auctioneer.Release(dropped...) // first: work in flight is not placed a second time
	}
	if err := p.auctioneer.Request(items...); err != nil {
		panic(fmt.Sprintf("items made here are refused: %v", err))
	}
}

// Withdraw implements bbs.Auctioneer.
func (p *PlacementAdapter) Withdraw(lrps []lrp.Key, tasks []bbs.TaskID) {
	var ids []string
	p.mu.Lock()
	for _, k := range lrps {
		ids = append(ids, LRPItem(k))
		p.forget(LRPItem(k))
	}
	for _, t := range tasks {
		if w, ok := p.tasks[TaskItem(t.GUID)]; ok && w.UID == t.UID {
			ids = append(ids, TaskItem(t.GUID))
			p.forget(TaskItem(t.GUID))
		}
	}
	p.mu.Unlock()
	p.auctioneer.Withdraw(ids...)
}

// forget drops a want; the lock is held.
func (p *PlacementAdapter) forget(id string) {
	delete(p.lrps, id)
	delete(p.tasks, id)
	delete(p.asked, id)
}

// taken removes the requests of work that a cell has taken, unless they were repeated since.
// before is the number of the newest request when the call was made. Work that is requested once
// more, because this attempt seemed to be lost, is still wanted.
func (p *PlacementAdapter) taken(items []placement.Item, refused []cell.Refusal, before int) {
	back := make(map[string]bool, len(refused))
	for _, r := range refused {
		back[r.ID] = true
	}
	ids := make([]string, len(items))
	for i := range items {
		ids[i] = items[i].ID
	}
	for i, waits := range p.auctioneer.Waits(ids...) {
		if waits {
			back[items[i].Hold] = true
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, it := range items {
		if n, ok := p.asked[it.ID]; ok && n <= before && !back[it.Hold] {
			p.forget(it.ID)
		}
	}
}

// Perform implements auctioneer.Cells.
func (p *PlacementAdapter) Perform(ctx context.Context, name, process string,
	items []placement.Item) ([]auctioneer.Refusal, error) {
	p.mu.Lock()
	before := p.last
	p.mu.Unlock()
	refused, err := p.cfg.Cells.Perform(ctx, worker.CellName(name), p.work(process, items))
	if err != nil && p.cfg.Cells.NeverSent(err) {
		return neverSent(items, err), nil
	}
	if err != nil {
		return nil, err
	}
	p.taken(items, refused, before)
	out := make([]auctioneer.Refusal, len(refused))
	for i, r := range refused {
		out[i] = auctioneer.Refusal{Hold: r.ID, Reason: r.Reason, Full: r.Cell}
	}
	return out, nil
}

// work is the content of a call: the items that are still wanted.
func (p *PlacementAdapter) work(process string, items []placement.Item) cell.Work {
	work := cell.Work{Term: p.cfg.Term, Proc: worker.Proc(process)}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, it := range items {
		if w, ok := p.lrps[it.ID]; ok {
			work.LRPs = append(work.LRPs, cell.LRPWork{Key: w.Key, Service: w.Desired.Service, Instance: it.Hold,
				Workload: &w.Desired.Workload, DeadlineBound: w.Desired.DeadlineBound(), Exclusive: w.Desired.Exclusive})
		} else if w, ok := p.tasks[it.ID]; ok && w.UID == it.Hold {
			work.Tasks = append(work.Tasks, cell.TaskWork{GUID: w.GUID, UID: w.UID, Domain: w.Domain,
				Workload: &w.Definition.Workload, DeadlineBound: w.Definition.DeadlineBound()})
		}
	}
	return work
}

// neverSent refuses work that certainly never reached its cell: unlike work that may have been
// accepted, it is placed again at once, and the cell is skipped for a time. (Diego dev notes,
// Distributing ActualLRPs.)
func neverSent(items []placement.Item, why error) []auctioneer.Refusal {
	out := make([]auctioneer.Refusal, len(items))
	for i, it := range items {
		out[i] = auctioneer.Refusal{Hold: it.Hold, Reason: "the cell cannot be reached: " + why.Error(), Full: true}
	}
	return out
}

// Waiting implements auctioneer.Feedback. A refusal of a task's earlier life under its guid does
// not apply to the present one.
func (p *PlacementAdapter) Waiting(refused []placement.Refused) {
	var failed []bbs.Unplaced
	for _, r := range refused {
		p.mu.Lock()
		l, isLRP := p.lrps[r.Item.ID]
		t, isTask := p.tasks[r.Item.ID]
		p.mu.Unlock()
		isTask = isTask && t.UID == r.Item.Hold
		switch {
		case isLRP:
			failed = append(failed, bbs.Unplaced{Key: l.Key, Reason: r.Refusal.String()})
		case isTask && (r.Refusal.Cell != "" || t.Definition.WhenFull == task.WhenFullFail && !p.maySayNo(r.Item)):
			p.cfg.Board().TaskRefused(t.GUID, t.UID, r.Refusal.String())
		case isTask:
			p.cfg.Board().TaskRejected(t.GUID, t.UID, r.Refusal.String(), r.Refusal.Never && p.maySayNo(r.Item))
		}
	}
	if len(failed) > 0 {
		p.cfg.Board().PlacementFailed(failed...)
	}
}

// Unanswered implements auctioneer.Feedback: convergence decides.
func (p *PlacementAdapter) Unanswered([]placement.Item) {}

var (
	_ bbs.Auctioneer      = (*PlacementAdapter)(nil)
	_ auctioneer.Cells    = (*PlacementAdapter)(nil)
	_ auctioneer.Feedback = (*PlacementAdapter)(nil)
)
