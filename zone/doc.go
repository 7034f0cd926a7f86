// Package zone finds time zones by name: the shell around the pure package cron. It has the IANA
// names from a copy of the database inside the binary and from the system's files, of which the
// newer is used. It also accepts POSIX strings such as PST8PDT,M3.2.0,M11.1.0, with the sign that
// POSIX gives them. A name that is neither is refused with a suggestion; no name becomes UTC
// silently (Bistro cron notes, "How to keep timezone info fresh").
//
//	IANA name known? ── yes ─→ system copy if its version is newer, else embedded
//	      │ no
//	POSIX string?    ── yes ─→ its rule, for all years
//	      │ no
//	refused, with the nearest names
//
// A [Loader] is safe for use by many goroutines. [Loader.Refresh] reads the system's files again,
// so that new rules apply without a restart; [Loader.Run] does it regularly.
package zone
