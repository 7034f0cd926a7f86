// Package schedule is the machine of schedules: cron items that start a task or a job, or signal a
// service. It decides without side effects; package timetable is its shell.
//
//	          Tick: a logical time has come
//	                   │
//	     ┌─────────────┼──────────────────┐
//	     ▼             ▼                  ▼
//	  started      undecided ──────▶   skipped, with the reason
//	Start, Live     Pending   Tick      History, Open
//
// All state of a schedule is a [State]: the cursor, up to which every logical time is decided; due
// times that are undecided because it is unknown whether an earlier run still runs; the runs that
// may still run; the spans of time without firings, for backfills; and a short history. [Step]
// takes it from one to the next. The next state and the work that its moves start become durable
// in one transaction. Therefore, and because a cursor never goes back, each logical time fires at
// most once (design, I12).
//
// The wall clock is a value in [Env]. The logical time of a firing is the time of its calendar;
// jitter delays the firing without changing it.
package schedule
