// Package worker is the session between a cell process and the leader: one protocol, two ends.
// Leader holds every session, the member list, the model of running batch tasks and the initial
// wait; Cell holds one process's side.
//
// A Leader has parts, each with its own state: term (the Output being made, the clocks), roster
// (the known processes), members (the list in the store), sessions (how a session changes), batch
// (running batch tasks) and waiting (the initial wait). Each part uses only the parts before it; Leader
// decides which parts handle an event, and how.
//
// Both are owned values: pointer methods change them in place, deterministically, and leave them
// unchanged on error. Time is CLOCK_BOOTTIME passed in as a time.Duration; the two ends never
// compare their clocks. Neither performs any effect: Leader.Step returns an Output (rows to commit
// in one transition and the effects released after that commit), Cell.Step returns effects.
//
// The state of a session, at both ends (Bistro worker protocol, "Worker state transitions"):
//
//	NEW ──► UNHEALTHY ──► MUST_DIE
//	 │       ▲    │          ▲
//	 │       │    ▼          │  lost, or suicide requested
//	 │      HEALTHY          │
//	 └───────────────────────┘
//
// How a leader uses it: the shell (package registry) holds a mutex, passes in events, submits each
// Output to the store in order, performs its effects when the commit is done and then passes in
// Committed. The batch scheduler calls MayStart, RunBatch, Kill and StatusCommitted through the
// registry; the board reads SessionChanged and Dead. The simulator runs the very same methods.
// docs/design/safety.md has the rules, docs/design/worker-protocol.md the calls and their
// interactions.
package worker
