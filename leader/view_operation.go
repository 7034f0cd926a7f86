package leader

import (
	"context"
	"fmt"
	"strings"
	"time"

	"cantina/api"
	"cantina/bbs"
	"cantina/fault"
	"cantina/plan"
	"cantina/store"
	"cantina/timetable"
	"cantina/worker"
)

// Status implements api.Operation.
func (v operationView) Status() (api.Status, error) {
	n := v.Board.Count()
	w := v.Registry.Wait()
	s := api.Status{Cluster: v.cfg.Cluster, ClusterID: v.lease.Cluster(), Leader: v.cfg.Name, Term: v.Term.Term(),
		Build: v.cfg.Build, Since: v.since, Revision: v.hub.Newest().Revision,
		Waiting: w.Active, Longest: w.Longest, Quarantined: len(v.lease.Quarantined()), Counts: map[string]int{
			"services": n.Services, "instances": n.Desired, "running": n.Running, "crashed": n.Crashed, "unclaimed": n.Unclaimed,
			"suspect": n.Suspect, "evacuating": n.Evacuating, "moving": n.Moving,
			"tasks_pending": n.Pending, "tasks_running": n.TasksRunning,
			"tasks_lost": n.Lost, "dead_letters": n.DeadLetters,
			"orphans": n.Orphans, "rows_pruned": n.Pruned,
			"batch_running": v.Registry.Live()}}
	for _, f := range w.For {
		limit := fmt.Sprintf("at most %s", f.Longest.Round(time.Second))
		if f.Longest <= 0 { // a process of dev has no deadline
			limit = "until it reports, or cantina cells forget " + string(f.Proc)
		}
		s.For = append(s.For, fmt.Sprintf("%s (process %s, %s)", f.Cell, f.Proc, limit))
	}
	s.Domains = v.Board.ListDomains()
	all := v.Scheduler.Jobs(plan.NameFilter{}, "", 0)
	s.Counts["jobs"], s.Counts["schedules"] = len(all), v.Timetable.Len()
	sessions := v.Registry.Sessions()
	s.Warnings = append(s.Warnings, v.unconfirmedCells(sessions)...)
	s.Warnings = append(s.Warnings, v.heldUpCells(sessions)...)
	for _, x := range sessions {
		if x.Holder {
			s.Counts["cells"]++
			if x.State == worker.Healthy {
				s.Counts["cells_healthy"]++
			}
			if x.Unavailable {
				s.Warnings = append(s.Warnings, fmt.Sprintf("cell %s is given no new work: %s", x.Cell, x.Reason))
			}
		}
	}
	v.lostCells(&s)
	if err := v.lease.NoRoom(); err != nil {
		s.Warnings = append(s.Warnings,
			fmt.Sprintf("writes are suspended: %v; running work and reads continue, and writes resume automatically", err))
	}
	s.Warnings = append(s.Warnings, v.identityWarnings(sessions)...)
	for _, d := range v.Drains.All() {
		s.Warnings = append(s.Warnings, fmt.Sprintf("cell %s is drained: %s", d.Cell, d.Reason))
	}
	v.held(&s, w, all)
	s.Rollouts, s.RolloutsMore = v.Board.Rollouts(maxHeld)
	s.Behind = v.behind()
	if n.Orphans > 0 {
		s.Warnings = append(s.Warnings,
			fmt.Sprintf("%d instances belong to no service and are kept: cantina ps --orphans lists them, "+
				"applying their domain afresh stops them", n.Orphans))
	}
	s.Warnings = append(s.Warnings, v.Audits()...)
	return s, v.fresh()
}

// identityWarnings are of cells of other clusters, of work that the store does not know, and
// of terms that were not believed.
func (v operationView) identityWarnings(sessions []worker.SessionView) []string {
	var out []string
	foreign := v.ForeignCells()
	for _, f := range foreign[:min(len(foreign), namedCells)] {
		text := foreignText(f.Cell, f.Address, f.Cluster, v.lease.Cluster())
		if f.Adopting {
			text += "; it is about to join, as an operator has decided"
		} else {
			text += "; if this server runs on the wrong store, stop it and start it on the right one; " +
				"to have the cell join this cluster: cantina cells adopt " + string(f.Cell)
		}
		out = append(out, text)
	}
	if more := len(foreign) - namedCells; more > 0 {
		out = append(out, fmt.Sprintf("%d more cells belong to other clusters: cantina cells", more))
	}
	for _, s := range sessions {
		if unknown := v.reported().unknownOn(s.Cell); s.Holder && len(unknown) > 0 {
			out = append(out,
				fmt.Sprintf("cell %s runs what this store does not know, as after a restore from an older backup, "+
					"and leaves it alone: %s; to end it: cantina cells discard %s",
					s.Cell, list(unknown), s.Cell))
		}
	}
	if n := v.Registry.RefusedTerms(); n > 0 {
		out = append(out,
			fmt.Sprintf("%d messages with a term that this cluster cannot have given were refused in this term; "+
				"the log names their senders", n))
	}
	return out
}

// maxLostNamed is how many cells that are lost status names.
const maxLostNamed = 10

// lostCells has status name the cells that are lost, those that left not.
func (v operationView) lostCells(s *api.Status) {
	var names []string
	for _, l := range v.Lost() {
		if !l.Left {
			names = append(names, string(l.Cell))
		}
	}
	n := len(names)
	if n == 0 {
		return
	}
	s.Counts["cells_lost"] = n
	text := strings.Join(names[:min(n, maxLostNamed)], ", ")
	if n > maxLostNamed {
		text += fmt.Sprintf(" and %d more", n-maxLostNamed)
	}
	s.Warnings = append(s.Warnings, "lost cells: "+text+"; details: cantina explain cell/NAME")
}

// EndWait implements api.Operation.
func (v operationView) EndWait(_ context.Context, w plan.Write) error {
	return v.Registry.EndWait(w.By)
}

// ListQuarantine implements api.Operation.
func (v operationView) ListQuarantine(r plan.Range) (plan.Page[api.Quarantined], error) {
	out := plan.Page[api.Quarantined]{}
	for _, q := range v.lease.Quarantined() {
		if q.Key <= r.After && r.After != "" {
			continue
		}
		if len(out.Items) == r.Limit {
			out.Next = out.Items[len(out.Items)-1].Key
			break
		}
		out.Items = append(out.Items, api.Quarantined{Key: q.Key, Reason: q.Reason, Bytes: q.Bytes})
	}
	return out, v.fresh()
}

// ReleaseQuarantined implements api.Operation.
func (v operationView) ReleaseQuarantined(ctx context.Context, key string, restore bool, _ plan.Write) error {
	drained := DrainedCell(key)
	release := v.Board.Release
	switch {
	case timetable.Owns(key):
		release = v.Timetable.Release
	case drained != "":
		if d := v.Drains.Of(drained); d == nil || !d.Quarantined {
			return fmt.Errorf("%s: %w", key, store.ErrNotQuarantined)
		}
		if !restore {
			return waited(ctx, func(done func(error)) error { v.Drains.Drop(drained, done); return nil })
		}
	case !bbs.Owns(key):
		return fmt.Errorf("quarantined row %s: only rows of services, instances, tasks, domains, schedules and drains can "+
			"be released while a leader runs: %w", key, fault.ErrConflict)
	}
	var value []byte
	if restore { // its present value: it may have been repaired
		row, ok, err := v.lease.Get(ctx, key)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("quarantined row %s is not in the store any more: drop it: %w", key, fault.ErrConflict)
		}
		if value = row.Value; drained != "" {
			return waited(ctx, func(done func(error)) error { return v.Drains.Restore(drained, row, done) })
		}
	}
	return waited(ctx, func(done func(error)) error {
		return release(key, restore, value, func(_ int64, err error) { done(err) })
	})
}

// waited waits for the outcome of a commit that do asks for.
func waited(ctx context.Context, do func(done func(error)) error) error {
	done := make(chan error, 1)
	if err := do(func(err error) { done <- err }); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
