package cell

import (
	"context"
	"time"

	"cantina/executor"
	"cantina/internal/run"
	"cantina/worker"
)

// orders are the orders of the session's machine to the cell.
type orders struct {
	*batchRuns // orders about batch tasks
	vital      *run.Keyed
	polls      *polls
	exit       *onceError
}

// probe makes and removes a real container, outside the ledger, and reports.
func (o *orders) probe(ctx context.Context, number int64) {
	limit, cancel := o.session.limit(ctx, o.cfg.ProbeTimeout)
	defer cancel()
	err := o.exec.Probe(limit)
	o.probeFailed.Store(err != nil)
	ev := worker.ProbeEnded{Probe: number, OK: err == nil}
	if err != nil {
		ev.Reason = err.Error()
		o.log.Warn("probe failed", "error", err)
	}
	o.session.step(ev)
}

func (o *orders) startProbe(number int64) {
	o.vital.Push("probe", func(ctx context.Context) { o.probe(ctx, number) })
}

// setDeadline: a deadline comes from a credit, and the leader gives credit only when it has
// recorded this process's report: so it covers adopted work too. (safety.md, Credit.)
func (o *orders) setDeadline(at time.Duration) {
	o.exec.SetDeadline(at)
	o.exec.AdoptionRecorded()
}

func (o *orders) endBound(grace time.Duration, reason string) {
	o.log.Warn("stopping deadline-bound work", "reason", reason)
	for _, ct := range o.exec.List() {
		if ct.DeadlineBound && ct.State != executor.Completed {
			o.containers.endReasons.put(ct.ID, reason)
			o.containers.warn("end", ct.ID, o.exec.StopWithin(ct.ID, grace))
		}
	}
}

func (o *orders) endAll(reason string) {
	o.log.Error("stopping all work and exiting", "reason", reason)
	for _, ct := range o.exec.List() { // those too that outlive an end of another kind
		if ct.State != executor.Completed {
			o.containers.endReasons.put(ct.ID, reason)
			o.containers.warn("end", ct.ID, o.exec.Stop(ct.ID))
		}
	}
	o.exit.set(&Displaced{o.cfg.Name, reason})
}

func (o *orders) changed(from, to worker.State, reason string) {
	if from == to {
		o.log.Info("session restarted", "state", to.String(), "reason", reason)
	} else {
		o.log.Info("session", "from", from.String(), "to", to.String(), "reason", reason)
	}
	if to == worker.Healthy {
		o.polls.pollNow()
	}
	if o.cfg.OnSession != nil {
		o.cfg.OnSession(to)
	}
}
