package cron_test

import (
	"testing"
	"time"

	"cantina/cron"
)

func benchItem(b *testing.B, text, zoneName string, opt cron.LineOptions) (*cron.Item, *time.Location) {
	b.Helper()
	loc := load(b, loader(b), zoneName)
	opt.Zone, opt.Now = loc, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if opt.Gap == cron.GapUnset {
		opt.Gap = cron.GapRun
	}
	if opt.Fold == cron.FoldUnset {
		opt.Fold = cron.FoldFirst
	}
	it, _, err := cron.ParseLine(text, opt)
	if err != nil {
		b.Fatal(err)
	}
	return it, loc
}

// BenchmarkNextCommon iterates common lines: the budget is 1 µs each.
func BenchmarkNextCommon(b *testing.B) {
	for _, c := range []struct{ name, line, zone string }{
		{"minute", "* * * * *", "Europe/Berlin"},
		{"five-minutes", "*/5 * * * *", "Europe/Berlin"},
		{"hourly", "17 * * * *", "America/New_York"},
		{"daily", "0 2 * * *", "Europe/Berlin"},
		{"weekdays", "30 9 * * 1-5", "America/Los_Angeles"},
		{"weekly", "0 4 * * 0", "Europe/Berlin"},
		{"monthly", "0 4 1 * *", "Europe/Berlin"},
		{"utc", "0 2 * * *", "UTC"},
	} {
		b.Run(c.name, func(b *testing.B) {
			it, loc := benchItem(b, c.line, c.zone, cron.LineOptions{})
			start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			at := start
			b.ReportAllocs()
			for b.Loop() {
				next, err := it.Next(at, loc)
				if err != nil {
					b.Fatal(err)
				}
				if at = next; at.Year() > 2029 {
					at = start
				}
			}
		})
	}
}

// BenchmarkNextWorst searches the sparsest items that are accepted: the budget
// is 50 µs.
func BenchmarkNextWorst(b *testing.B) {
	zones := loader(b)
	for _, c := range []struct{ name, json, zone string }{
		{"29-february-sunday",
			`{"minute":0,"hour":0,"day_of_month":29,"month":2,"iter_day":{"start":"1970-01-04","period":7},` +
				`"dst_fixes":["skip","repeat_use_both"]}`, "Europe/Berlin"},
		{"far-year", `{"minute":0,"hour":0,"day_of_month":31,"month":12,"year":9999,"dst_fixes":["skip","repeat_use_both"]}`,
			"Europe/Berlin"},
		{"rare-iteration",
			`{"minute":0,"hour":0,"day_of_month":29,"month":2,"iter_day":{"start":"2000-02-29","period":99999},` +
				`"dst_fixes":["skip","repeat_use_both"]}`, "America/New_York"},
		{"always-in-a-gap",
			`{"minute":30,"hour":2,"day_of_week":1,"weekday_of_the_month":2,"month":3,"dst_fixes":["skip","repeat_use_both"]}`,
			"America/New_York"},
		{"over-by-2050",
			`{"minute":30,"hour":2,"day_of_week":1,"weekday_of_the_month":2,"month":3,"year":{"start":2040,"end":2100},` +
				`"dst_fixes":["skip","repeat_use_both"]}`, "America/New_York"},
		{"posix-far",
			`{"minute":30,"hour":1,"day_of_week":1,"weekday_of_the_month":1,"month":11,"dst_fixes":["unskip",` +
				`"repeat_use_only_late"]}`, "EST5EDT,M3.2.0,M11.1.0"},
	} {
		b.Run(c.name, func(b *testing.B) {
			it, err := cron.ParseJSON([]byte(c.json))
			if err != nil {
				b.Fatal(err)
			}
			loc := load(b, zones, c.zone)
			at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			b.ReportAllocs()
			for b.Loop() {
				_, _ = it.Next(at, loc)
			}
		})
	}
}

// BenchmarkScheduleOnce decides one schedule that is due after an outage of
// three hours, misfire "once": a million of them must take less than 3 s.
func BenchmarkScheduleOnce(b *testing.B) {
	for _, c := range []struct{ name, line string }{{"minute", "* * * * *"}, {"daily", "0 2 * * *"},
		{"weekdays", "30 1 * * 1-5"}} {
		b.Run(c.name, func(b *testing.B) {
			it, loc := benchItem(b, c.line, "Europe/Berlin", cron.LineOptions{})
			s := cron.Schedule{Item: it, Zone: loc}
			now := time.Date(2026, 6, 2, 1, 30, 0, 0, time.UTC)
			cursor := now.Add(-3 * time.Hour)
			b.ReportAllocs()
			for b.Loop() {
				if _, _, _, ok, err := s.Once(cursor, now); !ok && c.name == "minute" || err != nil {
					b.Fatal(ok, err)
				}
			}
		})
	}
}

// BenchmarkCount counts a minute item over twenty years.
func BenchmarkCount(b *testing.B) {
	it, loc := benchItem(b, "* * * * *", "Europe/Berlin", cron.LineOptions{})
	from := time.Date(2010, 1, 1, 0, 0, 0, 0, time.UTC)
	to := from.AddDate(20, 0, 0)
	for b.Loop() {
		if it.Count(from, to, loc) != int64(to.Sub(from)/time.Minute) {
			b.Fatal("wrong count")
		}
	}
}

// BenchmarkParse reads a line, with its checks over ten years.
func BenchmarkParse(b *testing.B) {
	loc := load(b, loader(b), "Europe/Berlin")
	opt := cron.LineOptions{Zone: loc, Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Gap: cron.GapRun,
		Fold: cron.FoldFirst}
	for b.Loop() {
		if _, _, err := cron.ParseLine("30 2 * * 1-5", opt); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStatefulPoll polls a nightly item once a minute.
func BenchmarkStatefulPoll(b *testing.B) {
	it, loc := benchItem(b, "0 2 * * *", "Europe/Berlin", cron.LineOptions{})
	wall, boot := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Duration(0)
	clocks := cron.Clocks{System: func() time.Time { return wall }, Monotonic: func() time.Duration { return boot }}
	s, err := cron.NewStateful(it, clocks, cron.StatefulOptions{Zone: loc, MaxShift: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		wall, boot = wall.Add(time.Minute), boot+time.Minute
		if _, err := s.Poll(); err != nil {
			b.Fatal(err)
		}
		for range s.Due() {
		}
	}
}
