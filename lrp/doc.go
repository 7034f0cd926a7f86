// Package lrp decides everything about long-running processes: their desired state, the state of
// each index, the restart of crashed instances, the reconciliation of a cell with the leader's
// rows, the drain of a cell, and rollouts. It is pure: the leader's loop (package bbs) and the
// cell's harmoniser call it with a time and the newest rows, and apply its result.
//
// The unit of the machine is an [Index]: one index of one process with its up to three rows, one
// for each [Presence]. [Step] takes an Index and an [Event] and returns the next Index and the
// effects.
//
//	             Create                    Claim                    Start
//	   (no row) ────────► UNCLAIMED ─────────────────► CLAIMED ──────────────► RUNNING
//	      ▲                ▲   ▲  ▲                     │  │                     │  │
//	      │ Remove,        │   │  └─ crash 1-2,         │  │                     │  │
//	      │ Undesire       │   │     cell lost ◄────────┴──│─────────────────────┘  │
//	      │                │   │                           │ Crash                  │ Crash
//	      │                │   └─ RestartCrashed ─ CRASHED ◄────────────────────────┘
//	      └────────────────┴────────────────────────── (Remove from CLAIMED, RUNNING)
//
//	Presence:  ORDINARY ── cell drained ─────► EVACUATING (always RUNNING) ── replacement RUNNING ─► gone
//	           ORDINARY ── cell UNHEALTHY ───► SUSPECT (was RUNNING) ─ replacement RUNNING, MUST_DIE ─► gone
//	           SUSPECT  ── cell HEALTHY again ► ORDINARY (the replacement is withdrawn)
//
// The comment of each field names its writers. Sources: Diego dev notes, LRPs; Diego BBS, LRP
// lifecycle.
package lrp
