package cron_test

import (
	"fmt"
	"strings"
	"time"

	"cantina/cron"
)

// A schedule at 10 and 20 o'clock every Tuesday, as in the Bistro cron notes.
func ExampleParseJSON() {
	item, err := cron.ParseJSON([]byte(`{
		"day_of_week": "Tue",
		"hour": [10, 20],
		"minute": 0,
		"dst_fixes": ["skip", "repeat_use_only_early"]
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	at := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for range 3 {
		if at, err = item.Next(at, time.UTC); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("next event at", at.Format(time.RFC1123))
	}
	// Output:
	// next event at Tue, 05 May 2026 10:00:00 UTC
	// next event at Tue, 05 May 2026 20:00:00 UTC
	// next event at Tue, 12 May 2026 10:00:00 UTC
}

func ExampleLint() {
	report := cron.Lint("* 0 13 * 5", cron.LineOptions{Zone: time.UTC, Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)},
		2)
	fmt.Println(report.Words)
	for _, w := range report.Warnings {
		fmt.Println("warning:", strings.ReplaceAll(w.String(), "; ", ";\n  "))
	}
	for _, o := range report.Next {
		fmt.Println(o)
	}
	// Output:
	// every minute, in hour 0 on day 13 of the month or on Friday
	// warning: minute: fires 60 times on each matching day;
	//   did you mean `0 0 13 * 5`?
	// warning: day of week: a day matches if day of month OR day of week does;
	//   next: Fri 2026-01-02 00:00, Fri 2026-01-02 00:01, Fri 2026-01-02 00:02
	// 2026-01-02 00:00:00 +00:00 Fri
	// 2026-01-02 00:01:00 +00:00 Fri
}

func ExampleParseLine_impossible() {
	_, _, err := cron.ParseLine("0 0 30 2 *", cron.LineOptions{Zone: time.UTC, Now: time.Unix(0, 0)})
	fmt.Println(err)
	// Output: day of month (column 5): day 30 never occurs in month 2
}

// A scheduler keeps one cursor per schedule and asks for the due times.
func ExampleSchedule_Latest() {
	item, _, err := cron.ParseLine("0 * * * *", cron.LineOptions{Zone: time.UTC, Now: time.Unix(0, 0)})
	if err != nil {
		fmt.Println(err)
		return
	}
	s := cron.Schedule{Item: item, Zone: time.UTC}
	cursor := time.Date(2026, 1, 1, 0, 30, 0, 0, time.UTC)
	due, err := s.Latest(cursor, cursor.Add(5*time.Hour), 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(due.Fire[0].Label, "and", due.Rest, "earlier; then", due.Next.Format("15:04"))
	// Output: 2026-01-01 05:00 and 4 earlier; then 06:00
}

// Stateful cron on clocks that the caller hands in.
func ExampleStateful() {
	item, err := cron.ParseJSON([]byte(`{"minute": [0, 30], "dst_fixes": ["skip", "repeat_use_both"],
		"max_shift_seconds_for_unskip_and_do_not_repeat": 3600}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	wall, boot := time.Date(2026, 1, 1, 12, 10, 0, 0, time.UTC), time.Duration(0)
	clocks := cron.Clocks{System: func() time.Time { return wall }, Monotonic: func() time.Duration { return boot }}
	s, err := cron.NewStateful(item, clocks, cron.StatefulOptions{Zone: time.UTC})
	if err != nil {
		fmt.Println(err)
		return
	}
	boot += 90 * time.Minute // the machine was suspended for an hour and a half ...
	wall = wall.Add(90*time.Minute - 20*time.Minute)
	found, err := s.Poll() // ... and its clock was set back by twenty minutes
	fmt.Println("step", found.Step, "net", found.Net, err)
	for e := range s.Due() {
		fmt.Println(e.At.Format("15:04"), e.Label)
	}
	// Output:
	// step -20m0s net 1h10m0s <nil>
	// 12:30 skipped
	// 13:00 skipped
}
