// Package task decides everything about one-off tasks: a task's action starts at most once, ever;
// it ends, and keeps a result. It is pure: the leader's loop (package bbs) and the cell's
// harmoniser call it with a time and the newest row, and apply its result.
//
//	            Start                     Complete, Fail,             Resolve            Delete
//	PENDING ───────────► RUNNING ────────────────────────► COMPLETED ─────────► RESOLVING ──────► (no row)
//	  ▲  │ Cancel, expiry,  │  lost cell, cancel            ▲  │  ▲                │
//	  │  │ final rejection  └───────────────────────────────┘  │  └── demotion ────┘
//	  │  │                                                     │
//	  └──┘ Reject (no cell has room: when_full wait)           └ retention ─► (no row)
//	     └──────────────────────────────────────► COMPLETED
//
// A COMPLETED task with outcome lost is kept until a person resolves it, and a late real result of
// the same uid replaces it. The comment of each field names its writers. Sources: Diego dev notes,
// Tasks; Diego BBS, Task calls.
package task
