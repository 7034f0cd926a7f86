package spec

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"cantina/cron"
	"cantina/internal/text"
	"cantina/lrp"
	"cantina/plan"
	"cantina/schedule"
)

// Times has the data for calendars that the parser needs: it has no clock and no zones.
type Times struct {
	Now time.Time
	// BistroDomain is the domain of jobs of Bistro configuration files; empty = the default.
	BistroDomain string
	// Zone finds a time zone by its name; nil refuses all names.
	Zone func(name string) (*time.Location, error)
}

type scheduled struct {
	place
	Cron     calendar        `spec:"cron,required" doc:"a crontab line ('0 2 * * *', with seconds first if six fields, '@daily', '@every 90s'), or a mapping of calendar keys (see docs/cron.md)"`
	Zone     string          `spec:"timezone" doc:"IANA name or POSIX string; required except for @every and epoch"`
	Gap      enum[gaps]      `spec:"gap" default:"required if it applies within ten years" doc:"handling of a time that does not exist because the clock moves forward: run it once right after, or skip it"`
	Fold     enum[folds]     `spec:"fold" default:"required if it applies within ten years" doc:"handling of a time that comes twice because the clock moves back: run the first, the last or both"`
	Jitter   duration        `spec:"jitter" default:"none" doc:"maximum delay of each firing, derived from the name of the schedule; the logical time does not change"`
	Overlap  enum[overlaps]  `spec:"overlap" default:"forbid" doc:"handling of a firing while an earlier run may still run: forbid skips it, allow starts it in parallel, replace ends the earlier run first"`
	Max      int             `spec:"overlap_max" min:"1" max:"1000" doc:"with overlap allow: maximum number of parallel runs"`
	Misfire  enum[misfires]  `spec:"misfire" default:"once" doc:"handling of times that passed without a leader: once runs the newest, skip drops those older than misfire_deadline, all runs up to misfire_max. skip and all run in order, within the overlap policy"`
	Missed   int             `spec:"misfire_max" min:"1" max:"1000" default:"100" doc:"with misfire all: maximum number of missed times to run, newest first"`
	Deadline duration        `spec:"misfire_deadline" default:"none; 1m with misfire skip" doc:"do not run times older than this"`
	Task     *oneTask        `spec:"task" doc:"task to start; exactly one of task, job and signal is required. The program gets the logical time as CANTINA_SCHEDULED_AT"`
	Job      *job            `spec:"job" doc:"job to run from the start on all its nodes; it has the name of the schedule"`
	Signal   *scheduleSignal `spec:"signal" doc:"signal to send to each running instance of a service of this domain, at most once; failed deliveries are in the history and not retried"`
}

type scheduleSignal struct {
	place
	Service string `spec:"service,required" minlen:"1" doc:"name of the service"`
	Signal  signal `spec:"signal,required" doc:"signal sent to the main process of each instance"`
}

type gaps struct{}
type folds struct{}
type overlaps struct{}
type misfires struct{}

// The first of the choices of gap and fold means "not chosen" and cannot be written: see chosen.
func (gaps) choices() []string     { return []string{"run", "skip"} }
func (folds) choices() []string    { return []string{"first", "last", "both"} }
func (overlaps) choices() []string { return []string{"forbid", "allow", "replace"} }
func (misfires) choices() []string { return []string{"once", "skip", "all"} }

// calendar is a crontab line, or an object as JSON.
type calendar struct {
	line, json string
}

func (c *calendar) decode(d *decoder, at *path, n *yaml.Node) {
	switch n.Kind {
	case yaml.ScalarNode:
		if !isText(n) {
			d.problem(at, n, "must be a crontab line or a mapping, not "+kindOf(n), quoteHint(n))
			return
		}
		c.line = n.Value
		if c.line == "" || len(c.line) > maxLine {
			d.problem(at, n, fmt.Sprintf("a crontab line has 1 to %d characters", maxLine), "")
		}
	case yaml.MappingNode:
		before := len(d.problems.List)
		v := d.anything(at, n)
		text, err := json.Marshal(v)
		if len(d.problems.List) > before {
			return
		}
		if err != nil {
			d.meaning(at, n, "cannot be written as JSON", "")
			return
		}
		c.json = string(text)
	default:
		d.problem(at, n, "must be a crontab line or a mapping, not "+kindOf(n), "")
	}
}

// maxLine bounds a crontab line.
const maxLine = 1000

func (*calendar) form() schema {
	return schema{words: "a crontab line or a mapping", json: map[string]any{"anyOf": []any{
		map[string]any{"type": "string", "minLength": 1, "maxLength": maxLine}, map[string]any{"type": "object"},
	}}}
}

// anyMapping is a mapping with any content, as JSON.
type anyMapping struct{ json string }

func (o *anyMapping) decode(d *decoder, at *path, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		d.problem(at, n, "must be a mapping, not "+kindOf(n), "")
		return
	}
	v := d.anything(at, n)
	text, err := json.Marshal(v)
	if err != nil {
		d.meaning(at, n, "cannot be written as JSON", "")
		return
	}
	o.json = string(text)
}

func (*anyMapping) form() schema {
	return schema{words: "a mapping", json: map[string]any{"type": "object"}}
}

// anything turns a node into the values of JSON; whole numbers stay exact.
func (d *decoder) anything(at *path, n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		out := map[string]any{}
		d.pairs(at, n, func(key, val *yaml.Node) {
			out[key.Value] = d.anything(&path{outer: at, name: text.Shorten(key.Value, 60)}, val)
		})
		return out
	case yaml.SequenceNode:
		out := make([]any, len(n.Content))
		for i, x := range n.Content {
			out[i] = d.anything(&path{outer: at, index: i}, x)
		}
		return out
	case yaml.ScalarNode:
		switch n.ShortTag() {
		case "!!null":
			return nil
		case "!!bool":
			return n.Value == "true"
		case "!!int":
			if v, err := strconv.ParseInt(n.Value, 10, 64); err == nil {
				return v
			}
		case "!!float":
			if v, err := strconv.ParseFloat(n.Value, 64); err == nil && v-v == 0 {
				return v
			}
		}
	}
	return n.Value
}

func (b *builder) schedule(domain, name string, s *scheduled) plan.NamedSchedule {
	out := plan.NamedSchedule{Name: name}
	d := &out.Definition
	d.Line, d.JSON, d.Zone = s.Cron.line, s.Cron.json, s.Zone
	if s.has("gap") {
		d.Gap = [...]cron.Gap{cron.GapRun, cron.GapSkip}[s.Gap.index]
	}
	if s.has("fold") {
		d.Fold = [...]cron.Fold{cron.FoldFirst, cron.FoldLast, cron.FoldBoth}[s.Fold.index]
	}
	d.Policy = schedule.Policy{
		Overlap: schedule.Overlap(s.Overlap.index), Max: s.Max, Misfire: schedule.Misfire(s.Misfire.index),
		MisfireMax: s.Missed,
		Deadline:   time.Duration(s.Deadline), Jitter: time.Duration(s.Jitter),
	}
	if s.has("misfire_deadline") {
		b.longer(&s.place, "misfire_deadline", s.Deadline, "without it, no time is too old")
	}
	b.scheduleTarget(domain, name, s, d)
	b.schedulePolicy(s, d)
	calendars{b}.scheduleCalendar(schedule.Key{Domain: domain, Name: name}, s, &out)
	return out
}

func (b *builder) scheduleTarget(domain, name string, s *scheduled, d *schedule.Definition) {
	kinds := 0
	if s.Task != nil {
		kinds++
		t := b.task(s.Task)
		d.Task = &t
	}
	if s.Job != nil {
		kinds++
		if s.Job.NodesOf != "" || len(s.Job.DependsOn)+len(s.Job.After) > 0 {
			b.field(&s.place, "job", "a scheduled job needs its own nodes and cannot depend on other jobs", "")
		}
		j := b.job(domain, name, s.Job, jobIndex{})
		d.Job = &schedule.Job{Job: j.Job, Forest: j.Forest}
	}
	if s.Signal != nil {
		kinds++
		if !lrp.ValidName(s.Signal.Service) {
			b.field(&s.Signal.place, "service", lrp.NameRule, "use the name of a service of domain "+domain)
		}
		d.Signal = &schedule.Signal{Service: s.Signal.Service, Number: int(s.Signal.Signal)}
	}
	if kinds != 1 {
		b.meaning(s.at, s.node, "a schedule needs exactly one of task, job and signal", "")
	}
}

func (b *builder) schedulePolicy(s *scheduled, d *schedule.Definition) {
	switch {
	case d.Overlap == schedule.OverlapAllow && d.Max == 0:
		b.field(&s.place, "overlap", "overlap: allow needs overlap_max", "add overlap_max: 3")
	case d.Overlap != schedule.OverlapAllow && d.Max != 0:
		b.field(&s.place, "overlap_max", "only valid with overlap: allow", "")
	case d.Job != nil && d.Overlap == schedule.OverlapAllow:
		b.field(&s.place, "overlap", "a job cannot run twice at once: it runs at most once on each node",
			"use forbid or replace, or a task instead of a job")
	}
	if d.Signal != nil && s.has("overlap") && d.Overlap != schedule.OverlapForbid {
		b.field(&s.place, "overlap", "only valid for tasks and jobs; a signal does not keep running", "remove it")
	}
	if d.Signal != nil && d.Misfire == schedule.MisfireAll {
		b.field(&s.place, "misfire", "missed signals are sent at most once", "use once or skip")
	}
	if d.Misfire != schedule.MisfireAll && d.MisfireMax != 0 {
		b.field(&s.place, "misfire_max", "only valid with misfire: all", "")
	}
}
