package leader

import (
	"cantina/api"
	"cantina/auctioneer"
	"cantina/bbs"
	"cantina/plan"
	"cantina/timetable"
	"cantina/worker"
)

// Gauges are figures of a term at one moment, for monitoring.
type Gauges struct {
	Board       bbs.Counts
	Auction     auctioneer.Stats
	Schedules   timetable.Stats
	Sessions    map[worker.State]int // of cells that have their name
	Batch       int                  // batch tasks that run
	Held        int                  // work that the initial wait holds
	Waiting     bool                 // the initial wait lasts
	Suspended   bool                 // the store takes no writes
	Quarantined int                  // rows
	// Uncommitted transitions wait for their commit, Undelivered ones for their effects.
	Uncommitted, Undelivered int
}

// Gauges returns them. It looks at all jobs, instances and tasks only while the initial wait lasts.
func (t *Term) Gauges() Gauges {
	g := Gauges{Board: t.Board.Count(), Auction: t.Auctioneer.Stats(), Sessions: map[worker.State]int{},
		Batch:     t.Registry.Live(),
		Suspended: t.lease.NoRoom() != nil, Quarantined: len(t.lease.Quarantined())}
	if t.Timetable != nil {
		g.Schedules = t.Timetable.Stats()
	}
	g.Uncommitted, g.Undelivered = t.lease.Queues()
	for _, s := range t.Registry.Sessions() {
		if s.Holder {
			g.Sessions[s.State]++
		}
	}
	w := t.Registry.Wait()
	if g.Waiting = w.Active; w.Active || w.Stale {
		var s api.Status
		operationView{t}.held(&s, w, t.Scheduler.Jobs(plan.NameFilter{}, "", 0))
		g.Held = len(s.Held) + s.HeldMore
	}
	return g
}

// Answer returns when each part of the term has answered: none of them hangs.
func (t *Term) Answer() {
	t.Board.Count()
	t.Auctioneer.Stats()
	t.Registry.Live()
	t.lease.Queues()
}

// TakesWrites reports that the store takes writes.
func (t *Term) TakesWrites() bool { return t.lease.NoRoom() == nil }
