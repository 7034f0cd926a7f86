// Package lrp decides everything about long-running processes: what is desired,
// what each index of it is doing, when a crashed instance is restarted, how a
// cell and the leader's rows are brought into harmony, how a cell is emptied and
// how one version of a service replaces another. It is pure: the leader's loop
// (package bbs) and the cell's harmoniser call it with a time and the newest
// rows, and do what it answers.
//
// The unit of the machine is an [Index]: one index of one process with its up to
// three rows, one for each [Presence]. [Step] takes an Index and an [Event] and
// returns the next Index and the effects.
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
// Who writes which field stands in the comment of the field. Sources: Diego dev
// notes, LRPs; Diego BBS, LRP lifecycle.
package lrp
