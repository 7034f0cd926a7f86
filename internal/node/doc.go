// Package node puts the parts together: a server (store, election, and in a term
// of its own the leader), a cell, and `cantina dev`, which is both in one
// process. It has wiring and start order and decides nothing.
//
//	server: store ── campaign ──▶ leader.Term
//	                    ▲             │ term over: all end, memory is thrown away
//	                    └─────────────┘
package node
