package registry

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"cantina/batch"
	"cantina/fence"
	"cantina/internal/run"
	"cantina/worker"
)

// runBatch is how many runTasks or killTasks go in one call at most.
const runBatch = 500

// maxReports limits the getRunningTasks in progress for one process: the leader sends one with
// every heartbeat of a new session, and one that hangs must not be the only one.
const maxReports = 2

// calls are the calls to cells in progress, and the items that wait for the next ones. The maps are
// guarded by the machine's lock.
type calls struct {
	m      *machine
	cells  Cells
	log    *slog.Logger
	step   func(...worker.Event) // gets the results
	spawn  func(func())
	ctx    context.Context // of all calls; ends with Run
	cancel context.CancelFunc
	active sync.WaitGroup

	payloads map[fence.Invocation]*batch.Payload // of runs that are not sent
	runs     *run.Batches[queueKey, worker.RunTask]
	kills    *run.Batches[queueKey, worker.KillTask]
	reports  map[worker.Proc]int // getRunningTasks in progress
}

func newCalls(m *machine, cfg *Config, step func(...worker.Event)) *calls {
	c := &calls{m: m, cells: cfg.Cells, log: cfg.Log, step: step, spawn: cfg.Runtime.Go,
		payloads: map[fence.Invocation]*batch.Payload{}, reports: map[worker.Proc]int{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if c.spawn == nil {
		c.spawn = c.active.Go
	}
	spawn := func(f func(context.Context)) { c.spawn(func() { f(c.ctx) }) }
	c.runs = run.NewBatches(spawn, func(_ context.Context, key queueKey, items []worker.RunTask) {
		for part := range slices.Chunk(items, runBatch) {
			c.runTasks(key.cell, part)
		}
	})
	c.kills = run.NewBatches(spawn, c.killTasks)
	return c
}

// queueKey identifies items that may be sent in one call: the same process, and the same notify
// sequence number.
type queueKey struct {
	cell worker.CellName
	proc worker.Proc
	seq  int64
}

// run queues one runTask. The lock is held.
func (c *calls) run(e worker.SendRun) {
	if c.m.over == nil {
		c.runs.Add(queueKey{e.Cell, e.Call.Proc, e.Call.Seq}, e.Call)
	}
}

// takePayloads returns the work of runTasks that are sent now, nil for a probe.
func (c *calls) takePayloads(items []worker.RunTask) []*batch.Payload {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	payloads := make([]*batch.Payload, len(items))
	for i, x := range items {
		payloads[i] = c.payloads[x.Invocation]
		delete(c.payloads, x.Invocation)
	}
	return payloads
}

func (c *calls) runTasks(cell worker.CellName, items []worker.RunTask) {
	got, err := c.cells.RunTasks(c.ctx, cell, items, c.takePayloads(items))
	result := worker.RunUnknown
	if err != nil {
		c.debug("RunTasks", cell, err)
		if c.cells.NeverSent(err) {
			result = worker.RunNeverSent
		}
	}
	var answers []worker.Event
	for _, x := range items {
		if x.Probe > 0 {
			continue
		}
		a := worker.RunAnswer{Term: x.Term, Proc: x.Proc, Run: x.Run, Result: result}
		if err != nil {
			a.Reason = err.Error()
		} else if next := len(answers); next < len(got) {
			a = got[next]
		}
		answers = append(answers, worker.RunAnswered{Answer: a})
	}
	c.step(answers...)
}

// kill queues one killTask. Ending a large job must not use a connection for each of its tasks.
func (c *calls) kill(e worker.SendKill) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if c.m.over == nil {
		c.kills.Add(queueKey{cell: e.Cell, proc: e.Call.Proc}, e.Call)
	}
}

// killTasks sends killTasks that waited, each run once.
func (c *calls) killTasks(ctx context.Context, key queueKey, items []worker.KillTask) {
	newest := make(map[worker.Run]worker.KillTask, len(items))
	for _, x := range items {
		newest[x.Run] = x
	}
	sorted := slices.SortedFunc(maps.Values(newest), func(a, b worker.KillTask) int { return a.Run.Compare(b.Run) })
	for part := range slices.Chunk(sorted, runBatch) {
		c.debug("KillTask", key.cell, c.cells.KillTask(ctx, key.cell, part))
	}
}

// report requests a process's running work, unless enough requests are in progress. The lock is held.
func (c *calls) report(e worker.SendReportRequest) {
	if c.m.over != nil || c.reports[e.Call.Proc] == maxReports {
		return
	}
	c.reports[e.Call.Proc]++
	c.spawn(func() {
		defer c.reported(e.Call.Proc)
		got, err := c.cells.GetRunningTasks(c.ctx, e.Cell, e.Call)
		if err != nil {
			c.debug("GetRunningTasks", e.Cell, err)
			return
		}
		c.step(worker.ReportReceived{Report: got})
	})
}

func (c *calls) reported(proc worker.Proc) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if c.reports[proc]--; c.reports[proc] == 0 {
		delete(c.reports, proc)
	}
}

func (c *calls) notify(e worker.SendNotify) {
	got, err := c.cells.NotifyIfTasksNotRunning(c.ctx, e.Cell, e.Call)
	if err != nil {
		c.debug("NotifyIfTasksNotRunning", e.Cell, err)
		got = worker.NotifyAnswer{Term: e.Call.Term, Proc: e.Call.Proc, Seq: e.Call.Seq}
	}
	c.step(worker.NotifyAnswered{Answer: got})
}

func (c *calls) suicide(e worker.SendSuicide) {
	c.debug("RequestSuicide", e.Cell, c.cells.RequestSuicide(c.ctx, e.Cell, e.Call))
}

// start makes a call beside everything else, unless the term is over.
func (c *calls) start(call func()) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if c.m.over == nil {
		c.spawn(call)
	}
}

func (c *calls) debug(call string, cell worker.CellName, err error) {
	if err != nil {
		c.log.Debug("call failed", "call", call, "cell", string(cell), "error", err)
	}
}
