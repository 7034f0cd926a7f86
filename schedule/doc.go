// Package schedule is the machine of schedules: cron items that start a task or a
// job, or signal a service. It decides and does nothing; package timetable is its
// shell.
//
//	          Tick: a logical time has come
//	                   │
//	     ┌─────────────┼──────────────────┐
//	     ▼             ▼                  ▼
//	  started      undecided ──────▶   skipped, with the reason
//	Start, Live     Pending   Tick      History, Open
//
// All state of a schedule is a [State]: the cursor, up to which every logical time
// is decided; what is due and undecided because nobody knows yet whether an earlier
// run still runs; the runs that may still run; the spans of time in which nothing
// was fired, from which a person may fill in; and a short history. [Step] takes it
// from one to the next. The next state and what its moves start become durable in
// one transaction; that, and a cursor that never goes back, is why each logical time
// fires at most once (design, I12).
//
// The wall clock is a value in [Env]. The logical time of a firing is the time that
// its calendar names; with jitter it happens later, and stays the same.
package schedule
