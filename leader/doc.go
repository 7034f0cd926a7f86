// Package leader has the parts of one term of a leading server, their connections, and the calls
// of the API to them. Server and simulator use it alike; they provide its environment (store,
// calls to cells, clocks, goroutines).
//
//	cells ──heartbeats, rows, events──► Leader ──► registry, board
//	registry ──changes of sessions──► Leader ──► board, auctioneer, scheduler, timetable, hub
//	board, registry, auctioneer, drains ──calls──► Cells
//	API ──► view ──► board, scheduler, timetable, registry, drains
//
// All parts of a term are made after the term is won, from the rows of its load, and have ended
// before the next campaign.
package leader
