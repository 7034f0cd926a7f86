package batch

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"cantina/cron"
)

// TimeFormat is the default name of a node of SourceTime; {time} is in Unix seconds.
const TimeFormat = "{parent}:{time}"

// MaxLifetime bounds Times.Lifetime.
const MaxLifetime = 100 * 365 * 24 * time.Hour

// Item returns the calendar in a zone. now is for the policies at the next changes of the clock. Its
// errors are those of package cron.
func (x *Times) Item(zone *time.Location, now time.Time) (*cron.Item, []cron.Warning, error) {
	if x.Line != "" {
		return cron.ParseLine(x.Line, cron.LineOptions{Zone: zone, Gap: x.Gap, Fold: x.Fold, Now: now,
			Anchor: time.Unix(0, 0)})
	}
	it, err := cron.ParseJSON([]byte(x.JSON))
	if err == nil && it.TimezoneDependent() && zone == nil {
		err = cron.ErrNoZone
	}
	return it, nil, err
}

// enabled is how long a node is enabled.
func (x *Times) enabled() time.Duration {
	if x.Enabled == 0 {
		return x.Lifetime
	}
	return x.Enabled
}

// checkTimes returns ErrNodes for calendars that cannot be, apart from their syntax.
func (s *Source) checkTimes() error {
	if !strings.Contains(s.Format, "{time}") {
		return fmt.Errorf("format %q: no {time}: %w", s.Format, ErrNodes)
	}
	if len(s.Times) == 0 {
		return fmt.Errorf("no schedule: %w", ErrNodes)
	}
	for i, x := range s.Times {
		switch {
		case (x.Line == "") == (x.JSON == ""):
			return fmt.Errorf("schedule %d: no cron: %w", i, ErrNodes)
		case x.Lifetime < time.Second || x.Lifetime > MaxLifetime:
			return fmt.Errorf("schedule %d: lifetime %v, must be 1s to %v: %w", i, x.Lifetime, MaxLifetime, ErrNodes)
		case x.Enabled > MaxLifetime:
			return fmt.Errorf("schedule %d: enabled_lifetime %v, at most %v: %w", i, x.Enabled, MaxLifetime, ErrNodes)
		}
	}
	return nil
}

// TimeNodes returns the nodes of the times of the calendars that are not over, below each parent,
// in order of time. Of one time in two calendars the tags are united, and any of them disables it.
// next is when the nodes change; zero = never. It returns ErrNodes for too many nodes, a calendar
// that cannot be, or a name that cannot be.
func TimeNodes(levels []string, s *Source, parents []string, zone *time.Location, now time.Time) (nodes []NodeSpec,
	next time.Time, err error) {
	level, err := below(levels, s.ParentLevel)
	if err != nil {
		return nil, next, err
	}
	at := make(map[int64]*NodeSpec)
	for i := range s.Times {
		change, err := s.Times[i].add(at, zone, now, MaxNodes/max(len(parents), 1))
		if err != nil {
			return nil, next, fmt.Errorf("schedule %d: %w", i, err)
		}
		if next.IsZero() || !change.IsZero() && change.Before(next) {
			next = change
		}
	}
	for _, parent := range parents {
		up := parent
		if s.ParentLevel == LevelInstance || s.ParentLevel == "" {
			up = ""
		}
		for _, t := range slices.Sorted(maps.Keys(at)) {
			n := *at[t]
			n.Name = strings.NewReplacer("{parent}", parent, "{time}", strconv.FormatInt(t, 10)).Replace(s.Format)
			n.Level, n.Parent = level, up
			if err := CheckName(n.Name); err != nil {
				return nil, next, fmt.Errorf("time %d below %q: %w", t, parent, err)
			}
			nodes = append(nodes, n)
		}
	}
	return nodes, next, nil
}

// add adds the times of one calendar that are not over, at most so many. It returns when they change.
func (x *Times) add(to map[int64]*NodeSpec, zone *time.Location, now time.Time, most int) (next time.Time, err error) {
	it, _, err := x.Item(zone, now)
	if err != nil {
		return next, fmt.Errorf("%w: %w", err, ErrNodes)
	}
	now = now.Truncate(time.Second)
	after := now.Add(-x.Lifetime.Truncate(time.Second))
	if n := it.Count(after, now, zone); n > int64(most) {
		return next, fmt.Errorf("%d times in %v, at most %d: %w", n, x.Lifetime, most, ErrNodes)
	}
	earlier := func(t time.Time) {
		if t.After(now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for e := after; ; {
		e, err = it.Next(e, zone)
		switch {
		case errors.Is(err, cron.ErrNoMoreMatches):
			return next, nil
		case err != nil:
			return next, fmt.Errorf("%w: %w", err, ErrNodes)
		case e.After(now):
			earlier(e)
			return next, nil
		}
		n := to[e.Unix()]
		if n == nil {
			n = &NodeSpec{}
			to[e.Unix()] = n
		}
		n.Tags = union(n.Tags, x.Tags)
		n.Disabled = n.Disabled || now.Sub(e) >= x.enabled()
		earlier(e.Add(x.enabled()))
		earlier(e.Add(x.Lifetime))
	}
}
