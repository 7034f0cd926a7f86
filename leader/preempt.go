package leader

import (
	"cantina/auctioneer"
	"cantina/bbs"
	"cantina/placement"
)

const (
	// maxPreempted is how many instances are stopped at once for other work. The auction has a second between two times.
	maxPreempted = 10
	// maxPreemptible bounds how many instances are looked at for that.
	maxPreemptible = 20_000
)

// preempt stops instances of lower priority for items that have waited for room. It is called by the auctioneer,
// without a lock held. While cells may still join, they may have room.
func (l *Leader) preempt(items []placement.Item) {
	if !l.joined() {
		return
	}
	highest := 0
	for i := range items {
		highest = max(highest, items[i].Priority)
	}
	byHold := make(map[string]bbs.Preemptible)
	var victims []placement.Victim
	for _, x := range l.Board.Preemptibles(highest, maxPreemptible) {
		byHold[x.Instance] = x
		victims = append(victims, placement.Victim{Hold: x.Instance, Priority: x.Priority, Ending: x.Ending})
	}
	left := maxPreempted
	for i := range items {
		left -= l.preemptFor(&items[i], victims, byHold, left)
	}
}

// preemptFor stops instances for one item, at most limit, and returns their number.
func (l *Leader) preemptFor(it *placement.Item, victims []placement.Victim, byHold map[string]bbs.Preemptible,
	limit int) int {
	b, ok := l.Placement.beneficiary(it)
	if !ok {
		return 0
	}
	p, ok := auctioneer.Preempt(l.Auctioneer, it.ID, victims, limit)
	if !ok {
		return 0
	}
	var chosen []bbs.Preemptible
	for _, hold := range p.Victims {
		chosen = append(chosen, byHold[hold])
	}
	if len(chosen) > 0 {
		if err := l.Board.Preempt(b, chosen); err != nil {
			auctioneer.Spare(l.Auctioneer, it.ID)
			l.log.Debug("preempt", "item", it.Name, "cell", p.Cell, "error", err)
			return 0
		}
		l.log.Info("stopping instances for work of higher priority", "item", it.Name, "cell", p.Cell, "count", len(chosen))
	}
	auctioneer.Await(l.Auctioneer, it.ID, &p)
	return len(chosen)
}

// beneficiary returns the row of an item that waits.
func (p *PlacementAdapter) beneficiary(it *placement.Item) (bbs.Beneficiary, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w, ok := p.lrps[it.ID]; ok {
		return bbs.Beneficiary{Key: w.Key}, true
	}
	w, ok := p.tasks[it.ID]
	return bbs.Beneficiary{Task: bbs.TaskID{GUID: w.GUID, UID: w.UID}}, ok
}
