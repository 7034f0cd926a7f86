// Package node puts the parts together: a server (store, election, and in a term
// of its own the leader's loops), a cell, and `cantina dev`, which is both in one
// process. It has wiring and start order and decides nothing.
//
//	server: store ── campaign ──▶ term: registry, bbs, auctioneer, scheduler, hub
//	                    ▲             │ term over: all end, memory is thrown away
//	                    └─────────────┘
//
// Everything that a term owns is made after the term is won, from the rows of its
// load, and is gone before the next campaign.
package node
