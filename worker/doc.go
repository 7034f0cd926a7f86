// Package worker is the session between a cell process and the leader: one
// protocol, two ends. Leader holds every session, the member list, the model of
// running batch tasks and the initial wait; Cell holds one process's side.
//
// A Leader is made of parts, each with its own state: term (the Output being made, the clocks),
// roster (who is known), members (the list in the store), sessions (how a session moves), batch
// (what may run) and waiting (the initial wait). A part uses those before it; Leader decides what an
// event does to which.
//
// Both are owned values: pointer methods change them in place, deterministically,
// and leave them unchanged on error. Time is CLOCK_BOOTTIME handed in as a
// time.Duration; the two ends never compare their clocks. Neither performs
// anything: Leader.Step returns an Output (rows to commit in one transition and
// the effects released after that commit), Cell.Step returns effects.
//
// The state of a session, at both ends (Bistro worker protocol, "Worker state
// transitions"):
//
//	NEW ──► UNHEALTHY ──► MUST_DIE
//	 │       ▲    │          ▲
//	 │       │    ▼          │  lost, or suicide requested
//	 │      HEALTHY          │
//	 └───────────────────────┘
//
// How a leader uses it: the shell (package registry) holds a mutex, hands in
// events, submits each Output to the store in order, performs its effects when
// the commit is done and then hands in Committed. The batch scheduler calls
// MayStart, RunBatch, Kill and StatusCommitted through the registry; the
// bulletin board reads SessionChanged and Dead. The simulator runs the very same
// methods. docs/design/safety.md has the rules, docs/design/worker-protocol.md
// the calls and their interactions.
package worker
