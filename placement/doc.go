// Package placement decides which cell gets which piece of work. It is the one ledger of the
// capacity and the allocations of every cell (design: one ledger, one owner) and the auction over
// it (Diego dev notes, "Distributing ActualLRPs: Auctioneer").
//
// Three owned values, changed in place, deterministic, unchanged on error:
//
//	Ledger   cells (capacity, attributes, versioned state), holdings by id,
//	         reservations in flight; finds the best cell for one item through an
//	         index; explains a refusal as arithmetic per class of cells
//	Auction  the waiting work: batches, order of work, carried over items,
//	         retries after a change, the head-of-line reservation of work
//	         that waited too long
//
// A holding's life:
//
//	          Round / Reserve            Confirm
//	(none) ────────────────▶ in flight ──────────▶ held
//	   ▲                        │ Refuse, Expire     │ Release
//	   └────────────────────────┴────────────────────┘
//
// An instance that its cell refused waits again; one without a response does not: it may have been
// accepted, and convergence decides (Diego dev notes). The cell's own reservation is final, so a
// stale view costs a refusal and never a double start.
//
// The auctioneer owns one Auction and calls it from one goroutine. The simulator and tests may use
// it too. Nothing here reads a clock: times are offsets of the caller's monotonic clock.
package placement
