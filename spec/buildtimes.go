package spec

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"cantina/batch"
	"cantina/cron"
	"cantina/plan"
	"cantina/schedule"
)

// calendars is the part of the builder that reads calendars.
type calendars struct{ *builder }

// timed reads nodes that come and go with calendars.
func (b calendars) timed(s *source, levels []string) batch.Source {
	t := s.AddTime
	out := batch.Source{Kind: batch.SourceTime, ParentLevel: b.parentLevel(s, levels), Zone: t.Zone,
		Format: cmp.Or(t.Format, batch.TimeFormat)}
	if !strings.Contains(out.Format, "{time}") {
		b.field(&t.place, "format", "needs {time}, the time of the node", "")
	}
	loc, ok := b.zone(&t.place, t.Zone)
	for i := range t.Schedule {
		x := &t.Schedule[i]
		one := batch.Times{Line: x.Cron.line, JSON: x.Cron.json, Lifetime: time.Duration(x.Lifetime), Tags: x.Tags}
		if one.Lifetime < time.Second || one.Lifetime > batch.MaxLifetime {
			b.field(&x.place, "lifetime", "must be at least 1s, and at most 100 years", "")
		}
		if x.Enabled != nil {
			if one.Enabled = time.Duration(*x.Enabled); one.Enabled == 0 {
				one.Enabled = -1
			}
			if one.Enabled > one.Lifetime {
				b.field(&x.place, "enabled_lifetime", "must not exceed lifetime", "")
			}
		}
		if t.has("gap") {
			one.Gap = [...]cron.Gap{cron.GapRun, cron.GapSkip}[t.Gap.index]
		}
		if t.has("fold") {
			one.Fold = [...]cron.Fold{cron.FoldFirst, cron.FoldLast, cron.FoldBoth}[t.Fold.index]
		}
		if ok {
			b.timedItem(x, &one, loc)
		}
		out.Times = append(out.Times, one)
	}
	return out
}

// timedItem checks a calendar of nodes, and keeps the choices that it came to.
func (b calendars) timedItem(x *timedItem, one *batch.Times, loc *time.Location) {
	it, warnings, err := one.Item(loc, b.times.Now)
	if !b.calendar(&x.place, err) {
		return
	}
	if one.Gap, one.Fold = 0, 0; one.Line != "" && it.TimezoneDependent() {
		one.Gap, one.Fold = it.Gap(), it.Fold()
	}
	for _, w := range warnings {
		b.notes = append(b.notes, fmt.Sprintf("%s: %s", x.at, w))
	}
}

// zone finds the time zone of a field timezone; nil for none.
func (b calendars) zone(p *place, name string) (loc *time.Location, ok bool) {
	if name == "" {
		return nil, true
	}
	if b.times.Zone == nil {
		b.field(p, "timezone", "no time zone database available", "")
		return nil, false
	}
	loc, err := b.times.Zone(name)
	if err != nil {
		b.field(p, "timezone", err.Error(), "")
	}
	return loc, err == nil
}

// calendar reports whether a calendar can be, and the problem of its field cron.
func (b calendars) calendar(p *place, err error) bool {
	var parse *cron.ParseError
	switch {
	case errors.Is(err, cron.ErrNoZone):
		b.field(p, "cron", "field timezone is missing", "for example Europe/Berlin or UTC")
	case errors.As(err, &parse):
		b.field(p, "cron", parse.Error(), "")
	case err != nil:
		b.field(p, "cron", err.Error(), "")
	}
	return err == nil
}

// scheduleCalendar reads the calendar, and keeps the choices that it came to.
func (b calendars) scheduleCalendar(k schedule.Key, s *scheduled, out *plan.NamedSchedule) {
	d := &out.Definition
	loc, ok := b.zone(&s.place, d.Zone)
	if !ok {
		return
	}
	if d.JSON != "" && (s.has("gap") || s.has("fold")) {
		b.field(&s.place, "cron", "in a mapping, dst_fixes replaces gap and fold", "remove gap and fold")
		return
	}
	it, warnings, err := d.Item(k, loc, b.times.Now, b.times.Now)
	if b.calendar(&s.place, err) {
		if d.Line != "" && it.TimezoneDependent() {
			d.Gap, d.Fold = it.Gap(), it.Fold()
		}
		for _, w := range warnings {
			out.Warnings = append(out.Warnings, fmt.Sprintf("schedule %s: %s", k.Name, w))
		}
	}
}
