package sim

import (
	"slices"

	"cantina/bbs"
	"cantina/lrp"
	"cantina/placement"
	"cantina/resource"
	"cantina/scheduler"
)

// need is the amount that a piece of work takes from its cell.
func need(r resource.Amounts) resource.Amounts {
	return r.Add(resource.Amounts{resource.Containers: 1})
}

// wants is between board and placement: the process may die before each of its effects.
type wants struct {
	r  *leadership
	to bbs.Auctioneer
}

// Request implements bbs.Auctioneer.
func (x wants) Request(lrps []bbs.LRPWant, tasks []bbs.TaskWant) {
	if !x.r.stops() {
		x.to.Request(lrps, tasks)
	}
}

// Withdraw implements bbs.Auctioneer.
func (x wants) Withdraw(lrps []lrp.Key, tasks []bbs.TaskID) {
	if !x.r.stops() {
		x.to.Withdraw(lrps, tasks)
	}
}

// ledger is the one ledger as the scheduler sees it.
type ledger struct {
	scheduler.Auctioneer
	r *leadership
}

// Reserve checks the grants.
func (l ledger) Reserve(wants []placement.Want) []placement.Grant {
	grants := l.Auctioneer.Reserve(wants)
	if slices.ContainsFunc(grants, func(g placement.Grant) bool { return g.Refusal == nil }) {
		l.r.fit(func(cell string) bool {
			return slices.ContainsFunc(grants, func(g placement.Grant) bool { return g.Refusal == nil && g.Cell == cell })
		})
	}
	return grants
}

// fit: I4, no cell is given work above its capacity.
func (r *leadership) fit(given func(cell string) bool) {
	for _, v := range r.leads.Auctioneer.Cells() {
		if given(v.Name) && len(v.Capacity.Sub(v.Foreign).Lacking(v.Used)) > 0 {
			r.s.w.fail("I4", "%s is given work: %v of %v", v.Name, v.Used, v.Capacity)
		}
	}
}
