// Package cron computes when recurring events fire, with explicit rules for daylight saving. It is
// pure: no clock, no files, no goroutines, no import of the rest of this module, so it can be used
// as a separate library. The caller passes times, zones and the two clocks of [Stateful].
//
// # Items
//
// An [Item] is a pattern of instants. It is made from JSON with the keys of the Bistro cron notes
// ([ParseJSON], [ParseValue]) or from a crontab line ([ParseLine]), never changes afterwards, and
// may be shared freely.
//
//	item, err := cron.ParseJSON([]byte(`{
//	    "minute": 0, "hour": [10, 20], "day_of_week": "Tue",
//	    "dst_fixes": ["skip", "repeat_use_only_early"]}`))
//	at, err := item.FirstMatch(t, zone) // the first instant >= t
//	at, err = item.Next(at, zone)       // the first instant > at
//
// All selectors of an item compose with AND. An item with the key "epoch" counts seconds since
// 1970 and has no zone.
//
// # How a search works
//
// A zone is a sequence of spans of constant offset. Inside a span, local labels grow with time, so
// the next match is one calendar search (bit masks by month, day and time of day). A policy
// decides only at the border of two spans:
//
//	clock goes forward            clock goes back
//	labels in the gap do not      labels in the fold exist twice
//	exist                         first | last | both
//	skip | unskip | run
//
// A search visits a bounded number of spans: between two borders it jumps to two days before the
// next matching label. An item that no date can match is refused when it is parsed. If every match
// of an item falls into a gap, the search ends with [ErrNeverMatches] after fifty of them.
//
// # With state
//
// [Stateful] wraps an item with the memory that is needed to survive steps of the system clock,
// changes of the zone and suspension. [Schedule] is the memoryless value for a store-backed
// scheduler: it returns the due times between a cursor and now. Package cron/runner, a goroutine
// with a bounded queue, and package cron/hebrew, another calendar, are optional.
package cron
