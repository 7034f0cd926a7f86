package worker

import (
	"slices"
	"time"
)

// A lone cluster. A leader that is one process with its only cell (cantina dev) accepts no other
// cell, and marks the store that it makes. A leader of another kind refuses such a store. So all
// work that any leader of the cluster has ever started was started by a process on the directory
// of such a cell. It has ended with that process, or is among the work that the next process on
// the directory has found. No other machine can run any work, even if the rows lack some. Waiting
// for the longest promise would prove nothing here, because no promise is made.

// begin marks a store that was made by this very term, or whose terms have ended before any
// process was listed, and so might have been given work.
func (iw *waiting) begin() {
	c := &iw.cfg
	iw.alone = c.NoDeadline && c.Own != "" && (c.Alone || !c.Restored && c.List.Version == 0 && len(c.Members) == 0)
	if iw.alone && !iw.cfg.Alone {
		iw.rows = append(iw.rows, PutAlone{})
	}
}

// accounted reports whether all work that may run without a row is known by now: no work of any
// leader's promise can run. In a lone cluster: the own cell has reported its work, no work of its
// predecessors is left besides, and the rows name the running work; no other cell is accepted. If
// the rows do not, the cell has as long as any other to end it.
func (iw *waiting) accounted(now time.Duration) bool {
	lapsed := now >= iw.lapseEnd()
	if !iw.alone {
		return lapsed
	}
	return slices.ContainsFunc(iw.order, func(p *process) bool {
		return p.reported && !p.remains && p.health.State != MustDie &&
			(lapsed || !slices.ContainsFunc(p.alive, func(a Alive) bool { return iw.unnamed(a.ID) }))
	})
}
