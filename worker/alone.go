package worker

import (
	"slices"
	"time"
)

// A cluster that is alone. A leader that is one process with its only cell (cantina dev) takes no
// other cell in, and marks the store that it makes. A leader of another kind refuses such a
// store. So all that any leader of the cluster has ever started was started by a process on the
// directory of such a cell, and ended with it, or stands among what the next process on the directory has
// found: no other machine can run anything, whatever the rows have forgotten. A wait by the longest
// promise would prove nothing here, where no promise is made.

// begin marks a store that was made by this very term, or whose terms have ended before any process
// was listed, and so might have been given work.
func (iw *waiting) begin() {
	c := &iw.cfg
	iw.alone = c.NoDeadline && c.Own != "" && (c.Alone || !c.Restored && c.List.Version == 0 && len(c.Members) == 0)
	if iw.alone && !iw.cfg.Alone {
		iw.rows = append(iw.rows, PutAlone{})
	}
}

// accounted reports that whatever may run and stands in no row is known by now: nothing does that any
// leader may have promised to; of a cluster that is alone the own cell, and no other is taken in, has
// said what it has, that nothing else of its predecessors is left, and the rows name what runs. Where
// they do not, the cell has as long as any other to end it.
func (iw *waiting) accounted(now time.Duration) bool {
	lapsed := now >= iw.lapseEnd()
	if !iw.alone {
		return lapsed
	}
	return slices.ContainsFunc(iw.order, func(p *process) bool {
		return p.reported && !p.remains && p.health.State != MustDie &&
			(lapsed || !slices.ContainsFunc(p.alive, iw.unnamed))
	})
}
