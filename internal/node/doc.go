// Package node assembles the processes: a server (store, election, and during a term the leader),
// a cell, and `cantina dev`, which is both in one process. It has wiring and start order, and
// makes no decisions.
//
//	server: store ── campaign ──▶ leader.Term
//	                    ▲             │ term over: all parts end, memory is discarded
//	                    └─────────────┘
package node
