package auctioneer

import "cantina/placement"

// Preempt plans room on a cell for an item that waits; see placement.Auction.Preempt.
func Preempt(a *Auctioneer, item string, victims []placement.Victim, limit int) (placement.Preemption, bool) {
	now := a.cfg.Clock.Boot()
	a.lock()
	defer a.unlock()
	return a.auction.Preempt(now, item, victims, limit)
}

// Await reserves the cell of a preemption for its item, and counts the instances that are stopped for it.
func Await(a *Auctioneer, item string, p *placement.Preemption) {
	a.lock()
	defer a.unlock()
	a.stats.Preempted += len(p.Victims)
	a.auction.Await(item, p)
	a.wake()
}

// Spare records that nothing may be ended for an item now: it is tried again later.
func Spare(a *Auctioneer, item string) {
	now := a.cfg.Clock.Boot()
	a.lock()
	defer a.unlock()
	a.auction.Spare(now, item)
}

// Awaits returns the cell whose work is ended for an item that waits, and how much of that has not ended; 0 = none.
func Awaits(a *Auctioneer, item string) (cell string, n int) {
	a.lock()
	defer a.unlock()
	return a.auction.Awaits(item)
}
