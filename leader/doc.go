// Package leader is what a server has while it leads: the parts of one term, how they are
// connected, and what the API asks of them. Server and simulator use it alike; what is below
// (store, calls to cells, clocks, goroutines) is given to it.
//
//	cells ──heartbeats, rows, events──► Leader ──► registry, board
//	registry ──changes of sessions──► Leader ──► board, auctioneer, scheduler, timetable, hub
//	board, registry, auctioneer, drains ──calls──► Cells
//	API ──► view ──► board, scheduler, timetable, registry, drains
//
// Everything that a term owns is made after the term is won, from the rows of its load, and is
// gone before the next campaign.
package leader
