package cron_test

import (
	"errors"
	"testing"
	"time"

	"cantina/cron"
)

// sane checks the invariants of any item that a parser accepts.
func sane(t *testing.T, it *cron.Item, loc *time.Location, text string) {
	if it.Words() == "" || it.String() == "" {
		t.Errorf("%q has no words", text)
	}
	last := time.Unix(1767225600, 0)
	for range 5 {
		next, err := it.Next(last, loc)
		if errors.Is(err, cron.ErrNoMoreMatches) || errors.Is(err, cron.ErrNeverMatches) {
			return
		}
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if !next.After(last) {
			t.Fatalf("%q: next(%v) = %v", text, last, next)
		}
		if again, err := it.FirstMatch(next, loc); it.TimezoneDependent() && (err != nil || !again.Equal(next)) {
			t.Fatalf("%q: FirstMatch(%v) = %v, %v", text, next, again, err)
		}
		if n := it.Count(last, next, loc); it.TimezoneDependent() && n != 1 {
			t.Fatalf("%q: %d matches between neighbours", text, n)
		}
		last = next
	}
}

func FuzzParseJSON(f *testing.F) {
	for _, s := range []string{
		`{"minute":0,"hour":[10,20],"day_of_week":"Tue","dst_fixes":["skip","repeat_use_only_early"]}`,
		`{"epoch":{"period":300,"start":1300003260}}`, `{"epoch":[1,2]}`, `{"epoch":{"start":5,"end":3}}`,
		`{"minute":{"period":7},"seconds":[],"year":{"start":2030,"end":2033},"dst_fixes":["unskip","repeat_use_both"]}`,
		`{"minute":0,"day_of_week":6,"weekday_of_the_month":-1,"dst_fixes":["vixie"]}`,
		`{"minute":0,"iter_day":{"start":"2024-01-02","period":3},"iter_month":{"start":"Jan 2024","period":5},` +
			`"dst_fixes":["vixie"]}`,
		`{"minute":[[1]]}`, `{"minute":1e3,"dst_fixes":[]}`, `{`,
	} {
		f.Add(s)
	}
	loc := load(f, loader(f), "America/New_York")
	f.Fuzz(func(t *testing.T, s string) {
		it, err := cron.ParseJSON([]byte(s))
		if err != nil {
			if !errors.Is(err, cron.ErrSyntax) && !errors.Is(err, cron.ErrImpossible) {
				t.Errorf("%q: %v is no error of this package", s, err)
			}
			return
		}
		sane(t, it, loc, s)
	})
}

func FuzzParseLine(f *testing.F) {
	for _, s := range []string{
		"*/5 * * * *", "0 2 * * mon-fri", "0 0 L * *", "0 0 L-3,1 * *", "H H(1-4) H/7 * *", "0 0 * * 5#3,1L", "0 0 1-31 2 1",
		"@every 90s", "@daily", "30 2 29 2 *", "*/7 59 23 31 12 ?", "0 0 */2 * 7",
	} {
		f.Add(s)
	}
	loc := load(f, loader(f), "Australia/Lord_Howe")
	opt := cron.LineOptions{Name: "fuzz", Zone: loc, Now: time.Unix(1767225600, 0), Gap: cron.GapRun, Fold: cron.FoldLast}
	f.Fuzz(func(t *testing.T, s string) {
		it, _, err := cron.ParseLine(s, opt)
		if err != nil {
			if !errors.Is(err, cron.ErrSyntax) && !errors.Is(err, cron.ErrImpossible) && !errors.Is(err, cron.ErrNeverMatches) {
				t.Errorf("%q: %v is no error of this package", s, err)
			}
			return
		}
		sane(t, it, loc, s)
	})
}
