package node

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"cantina/api"
	"cantina/auctioneer"
	"cantina/bbs"
	"cantina/bbs/callback"
	"cantina/cell"
	"cantina/event"
	"cantina/fence"
	"cantina/internal/booking"
	"cantina/internal/draining"
	"cantina/internal/link"
	"cantina/internal/run"
	"cantina/lrp"
	"cantina/placement"
	"cantina/registry"
	"cantina/scheduler"
	"cantina/store"
	"cantina/timetable"
	"cantina/worker"
)

// term is everything that a leader has while its term lasts.
type term struct {
	cfg    ServerConfig
	log    *slog.Logger
	reign  *store.Reign
	since  time.Time
	began  time.Duration // by the boot clock
	hub    *event.Hub
	board  *bbs.BBS
	house  *auctioneer.Auctioneer
	jobs   *scheduler.Scheduler
	times  *timetable.Timetable
	reg    *registry.Registry
	sender *callback.Sender
	cells  *link.Directory
	market *market
	drains *draining.Desk

	// admitting makes what is told to the auctioneer the newest of what is known.
	admitting sync.Mutex

	calling sync.Mutex // no call begins while the term ends
	calls   sync.WaitGroup
	ctx     context.Context // of calls to cells
	cancel  context.CancelFunc

	mu     sync.Mutex
	states map[worker.CellName]cell.State
	// changed is when the session that holds a cell's name got its state.
	changed map[worker.CellName]time.Time
	audits  []string
}

// newTerm builds the leader's loops from the rows of the load. It starts nothing
// but what the board submits at once.
func newTerm(cfg ServerConfig, reign *store.Reign, cells *link.Directory) (*term, error) {
	t := &term{cfg: cfg, log: cfg.Log.With("term", reign.Term().String()), reign: reign, since: cfg.Clock.Wall(), began: cfg.Clock.Boot(), cells: cells, states: map[worker.CellName]cell.State{}, changed: map[worker.CellName]time.Time{}}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	rows := bbs.RollForwardOthers(reign, reign.Rows())
	t.drains = t.newDrains(rows)
	t.hub = event.New(0, reign.Revision(), cfg.Clock.Wall)
	t.market = &market{term: reign.Term(), cells: cells, newID: newID, lrps: map[string]bbs.LRPWant{}, tasks: map[string]bbs.TaskWant{},
		settled: t.settled, early: map[string]bool{}}
	t.house = auctioneer.New(auctioneer.Config{Placement: placement.Config{BatchReserve: cfg.BatchReserve}, Clock: cfg.Clock, Log: cfg.Log}, t.market, t.market)
	t.market.house = t.house
	h := &ledgerHub{t.hub, booking.New(t.house, t.desired)}
	lazy := &lateRegistry{}
	t.jobs = scheduler.New(scheduler.Config{Term: reign.Term(), Store: reign, Registry: lazy, Auctioneer: t.house, Hub: t.hub,
		Scripts: scheduler.Programs{Env: cfg.ScriptEnv}, Clock: cfg.Clock, Log: cfg.Log, NewID: newID}, rows)
	reg, err := registry.New(registry.Config{Worker: worker.Config{Term: reign.Term(), Timeouts: cfg.Timeouts, Witness: cfg.Witness,
		Restored: reign.Restored(), NewStore: reign.NewStore(), NewCluster: cfg.NewCluster, Jobs: t.jobs.Names(), HeldNodes: t.jobs.HeldNodes(),
		InitialWait: cfg.InitialWait, AllowBump: cfg.AllowBump, NoDeadline: cfg.NoDeadline, TurnoverLimit: cfg.TurnoverLimit},
		Store: reign, Cells: protocol{cells}, Listener: t, Statuses: t.jobs, Clock: cfg.Clock, Log: cfg.Log}, rows)
	if err != nil {
		t.cancel()
		return nil, err
	}
	t.reg = reg
	lazy.sessions = sessions{reg}
	t.sender = callback.New(callback.Config{Done: func(guid, uid string, ok bool, problem string) { t.board.CallbackDone(guid, uid, ok, problem) },
		Wall: cfg.Clock.Wall, Secret: cfg.CallbackSecret, Log: cfg.Log})
	t.board = bbs.New(bbs.Config{Store: reign, Auctioneer: t.market, Cells: &calls{term: reign.Term(), cells: cells, run: t.call},
		Sessions: sessions{reg}, Hub: h, Callbacks: t.sender, Clock: cfg.Clock, Log: cfg.Log, NewID: newID, Tasks: cfg.Tasks}, rows, reign.Revision(), reg.Members())
	t.market.board = t.board
	t.drains.Attach(t.board)
	t.times = t.newTimes(rows)
	h.book.Load(t.board)
	t.market.Request(t.board.Pending())
	return t, nil
}

// lateRegistry is filled in after the scheduler was made: each needs the other.
type lateRegistry struct{ sessions }

// desired finds the definition of a process for the ledger.
func (t *term) desired(process string) *lrp.Desired { return t.board.Definition(process) }

// call runs f in a goroutine of the term, unless the term is over.
func (t *term) call(f func(context.Context)) {
	t.calling.Lock()
	defer t.calling.Unlock()
	if t.ctx.Err() == nil {
		t.calls.Go(func() { f(t.ctx) })
	}
}

// end ends all calls and waits for them.
func (t *term) end() {
	t.calling.Lock()
	t.cancel()
	t.calling.Unlock()
	t.calls.Wait()
}

// run drives the term until ctx is done or the term is over.
func (t *term) run(ctx context.Context) error {
	defer t.end()
	defer t.hub.Close()
	var g run.Group
	g.Add("reign", func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.reign.Done():
			return fmt.Errorf("term %v is over: %w", t.reign.Term(), t.reign.Err())
		}
	})
	g.Add("callbacks", t.sender.Run)
	g.Add("auctioneer", t.house.Run)
	g.Add("board", t.board.Run)
	g.Add("registry", t.reg.Run)
	g.Add("scheduler", t.jobs.Run)
	g.Add("timetable", t.times.Run)
	return g.Run(ctx)
}

// Term returns the term that was won.
func (t *term) Term() fence.Term { return t.reign.Term() }

// Heartbeat implements cell.Leader. What the sender says of itself, where it is reached
// first of all, counts only when it has its cell's name: a newcomer that is refused must
// not draw the calls to the cell on itself.
func (t *term) Heartbeat(ctx context.Context, b worker.Heartbeat, s cell.State) (worker.HeartbeatAnswer, error) {
	holds := false
	a, err := t.reg.Heartbeat(ctx, b, func() {
		holds = true
		if s.Address != "" {
			t.cells.SetAddress(b.Cell, s.Address)
		}
	})
	if err != nil {
		return a, err
	}
	if a.Verdict == worker.Welcome && holds {
		t.mu.Lock()
		t.states[b.Cell] = s
		t.mu.Unlock()
		s.Process = string(b.Proc)
		t.house.Push(s.State)
		t.admit(b.Cell)
		t.drains.Heard(b.Cell, draining.Said{Evacuating: s.Evacuating, ID: s.Evacuation.ID, Over: s.Evacuation.Over, Waits: s.Evacuation.Waits})
	}
	return a, nil
}

// admit tells the auctioneer whether a cell may be given work.
func (t *term) admit(name worker.CellName) {
	t.admitting.Lock()
	proc, reason := t.reg.Receives(name)
	if d := t.drains.Of(name); d != nil && reason == "" {
		reason = "being drained: " + d.Reason
	}
	t.house.Admit(string(name), string(proc), reason)
	t.admitting.Unlock()
	t.market.recheck()
}

// UpdateStatus implements cell.Leader.
func (t *term) UpdateStatus(ctx context.Context, u worker.UpdateStatus) ([]worker.StatusAnswer, error) {
	return t.reg.UpdateStatus(ctx, u)
}

// known checks that a caller is the process that holds its cell's name in this term,
// and knows the term: a call from before is refused.
func (t *term) known(from cell.Caller) error {
	switch own := t.Term(); {
	case own.Less(from.Term):
		t.reg.Heard(worker.TermHeard{Term: from.Term})
		return cell.ErrNotLeader
	case from.Term.Less(own):
		return fmt.Errorf("%w: %v, this is %v", cell.ErrTerm, from.Term, own)
	}
	if s, ok := t.reg.Session(from.Cell); ok && s.Proc == from.Proc && s.Reported {
		return nil
	}
	return fmt.Errorf("%w: cell %s, process %s", cell.ErrProc, from.Cell, from.Proc)
}

// Rows implements cell.Leader.
func (t *term) Rows(_ context.Context, from cell.Caller, q cell.RowsQuery) (cell.Rows, error) {
	if err := t.known(from); err != nil {
		return cell.Rows{}, err
	}
	if !t.reign.LeaseHeld() {
		return cell.Rows{}, store.ErrLeaseNotProven
	}
	r := t.board.Rows(string(from.Cell), q.LRPs, q.Tasks, q.Only)
	return cell.Rows{LRPs: r.LRPs, Tasks: r.Tasks, QuarantinedLRPs: r.QuarantinedLRPs, QuarantinedTasks: r.QuarantinedTasks}, nil
}

// LRPEvents implements cell.Leader.
func (t *term) LRPEvents(ctx context.Context, from cell.Caller, events []cell.LRPEvent) ([]error, error) {
	if err := t.known(from); err != nil {
		return nil, err
	}
	return t.board.LRPEvents(ctx, events)
}

// TaskEvents implements cell.Leader.
func (t *term) TaskEvents(ctx context.Context, from cell.Caller, events []cell.TaskEvent) ([]error, error) {
	if err := t.known(from); err != nil {
		return nil, err
	}
	return t.board.TaskEvents(ctx, events)
}

// SessionChanged implements registry.Listener.
func (t *term) SessionChanged(e worker.SessionChanged) {
	t.log.Info("session", "cell", string(e.Cell), "from", e.From.String(), "to", e.To.String(), "reason", e.Reason)
	t.board.SessionChanged(e)
	t.admit(e.Cell)
	t.mu.Lock()
	if s, ok := t.reg.Session(e.Cell); ok && s.Proc == e.Proc {
		t.changed[e.Cell] = t.cfg.Clock.Wall()
	}
	t.mu.Unlock()
	t.hub.Publish(0, event.Event{Kind: event.Cell, Subject: string(e.Cell), Text: e.To.String() + ": " + e.Reason,
		Cell: &event.CellState{Name: e.Cell, Proc: e.Proc, Session: e.To, Reason: e.Reason, Term: t.Term(), Evacuating: t.drains.Of(e.Cell) != nil}})
}

// Availability implements registry.Listener.
func (t *term) Availability(e worker.Availability) {
	if e.Unavailable {
		t.log.Warn("cell is alive but unavailable", "cell", string(e.Cell), "reason", e.Reason)
	}
	t.admit(e.Cell)
	state, text := event.CellState{Name: e.Cell, Proc: e.Proc, Term: t.Term(), Evacuating: t.drains.Of(e.Cell) != nil}, "takes new work again"
	if e.Unavailable {
		state.Unavailable, text = e.Reason, "is given no new work: "+e.Reason
	}
	if s, ok := t.reg.Session(e.Cell); ok && s.Proc == e.Proc {
		state.Session, state.Reason = s.State, s.Reason
	}
	t.hub.Publish(0, event.Event{Kind: event.Cell, Subject: string(e.Cell), Text: text, Cell: &state})
}

// Eligible implements registry.Listener.
func (t *term) Eligible(e worker.Eligible) { t.admit(e.Cell) }

// Dead implements registry.Listener.
func (t *term) Dead(e worker.Dead) {
	t.log.Info("certainly dead", "cell", string(e.Cell), "proc", string(e.Proc), "proof", e.Proof.String())
	holder, _ := t.reg.Receives(e.Cell)
	t.board.Dead(e, holder)
	t.admit(e.Cell)
}

// Ended implements registry.Listener.
func (t *term) Ended(e worker.Ended) { t.jobs.Ended(e) }

// StartsChanged implements registry.Listener.
func (t *term) StartsChanged() {
	t.jobs.StartsChanged()
	t.times.Changed()
}

// maxAudits bounds what a term remembers for its status.
const maxAudits = 20

// Audit implements registry.Listener.
func (t *term) Audit(e worker.Audit) {
	logAudit(t.log, e)
	t.hub.Publish(0, event.Event{Kind: event.Note, Subject: string(e.Cell), Text: auditText(worker.Audit{Run: e.Run, Text: e.Text})})
	if e.Kind == worker.AuditWaitEnded || e.Kind == worker.AuditRefused {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.audits = append(t.audits, auditText(e))
	if len(t.audits) > maxAudits {
		t.audits = slices.Delete(t.audits, 0, 1)
	}
}

// auditText is an audit as people read it where nothing beside it says whose it is.
func auditText(e worker.Audit) string {
	text := e.Text
	if e.Run != (worker.Run{}) {
		text = fmt.Sprintf("%v (%v): %s", e.Run.Work, e.Run.Invocation, text)
	}
	if e.Cell != "" {
		text = "cell " + string(e.Cell) + ": " + text
	}
	return text
}

// logAudit writes what is to be kept, as a warning when something was not as it should
// be, and without a cell when it is of none.
func logAudit(log *slog.Logger, e worker.Audit) {
	level := slog.LevelWarn
	if e.Kind == worker.AuditWaitEnded {
		level = slog.LevelInfo
	}
	attrs := []slog.Attr{slog.String("text", e.Text)}
	if e.Cell != "" {
		attrs = append(attrs, slog.String("cell", string(e.Cell)))
	}
	if e.Proc != "" {
		attrs = append(attrs, slog.String("proc", string(e.Proc)))
	}
	if e.Run != (worker.Run{}) {
		attrs = append(attrs, slog.String("task", e.Run.Work.String()), slog.String("invocation", e.Run.Invocation.String()))
	}
	log.LogAttrs(context.Background(), level, "audit", attrs...)
}

// Deposed implements registry.Listener.
func (t *term) Deposed(higher fence.Term) {
	t.log.Warn("a higher term was heard: this one ends", "higher", higher.String())
	t.call(func(ctx context.Context) {
		if err := t.reign.Resign(ctx); err != nil {
			t.log.Debug("resign", "error", err)
		}
	})
}

var (
	_ link.Termed       = (*term)(nil)
	_ registry.Listener = (*term)(nil)
)

// backend is the term as the API sees it.
func (t *term) backend() *api.Backend {
	v := view{t}
	return &api.Backend{Applications: v, Services: v, Tasks: v, Jobs: v, Schedules: v, Cells: v, Operation: v, Explainer: v, Logs: v, Events: t.hub}
}
