package bistro

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"cantina/action"
	"cantina/batch"
	"cantina/placement"
	"cantina/plan"
	"cantina/resource"
)

// Nodes is the name of the nodes over which all jobs of a file run.
const Nodes = settingsKey

// Apply converts a file to the jobs of a domain. Remarks are about what has no counterpart. The error
// is *Error: nodes that cannot be.
func (c *File) Apply(domain string) (jobs []plan.NamedJob, remarks []string, err error) {
	forest, t := c.forest()
	if t.prune(); !t.empty() {
		return nil, nil, &Error{t}
	}
	board, err := batch.NewBoard(forest)
	if err != nil {
		t.at(settingsKey).Error = err.Error()
		return nil, nil, &Error{t}
	}
	remarks = c.remarks()
	for i := range c.Jobs {
		j := &c.Jobs[i]
		if err := batch.CheckName(j.Name); err != nil {
			remarks = append(remarks, fmt.Sprintf("job %q is left out: %v", j.Name, err))
			continue
		}
		job := c.job(j, domain)
		if j.Errors.empty() {
			job.Errors = board.Put(job)
			board.Delete(job.Name)
		}
		jobs = append(jobs, plan.NamedJob{Job: job, Forest: forest})
	}
	return jobs, remarks, nil
}

// remarks are about the parts of the settings that have no effect.
func (c *File) remarks() (out []string) {
	s := &c.Settings
	if !s.Enabled {
		out = append(out, "bistro_settings.enabled is false: no job starts anything")
	}
	if names := slices.Sorted(maps.Keys(s.Resources["worker"])); len(names) > 0 {
		example := names[0] + "=" + strconv.Itoa(s.Resources["worker"][names[0]].Limit)
		out = append(out, fmt.Sprintf("cells report their own amounts of %s: start them with --capacity %s, for example",
			strings.Join(names, ", "), example))
	}
	if len(s.Overrides) > 0 {
		out = append(out, "worker_resources_override has no effect: set the amounts of each cell with --capacity")
	}
	if len(s.Physical) > 0 {
		out = append(out, "physical_resources has no effect: tasks take memory_mb and cpu_milli of their cells")
	}
	return out
}

func policyOf(scheduler string) batch.Policy {
	return batch.Policy(slices.Index([]string{"roundrobin", "ranked_priority", "randomized_priority", "long_tail"},
		scheduler))
}

// forest converts the settings; the tree has the errors of the sources.
func (c *File) forest() (batch.ForestSpec, *ErrorTree) {
	s := &c.Settings
	f := batch.ForestSpec{Name: Nodes, Levels: s.Levels, Instance: "instance", Policy: policyOf(s.Scheduler),
		Disabled: !s.Enabled, Backwards: true, Cells: placement.OrderRoundRobin, Removed: new(orphans(s.KillOrphans)),
		Order: map[string]batch.Order{"original": batch.OrderOriginal,
			"lexicographic": batch.OrderLexicographic}[s.NodeOrder],
		Limits: map[string]map[string]batch.Limit{}}
	if s.Selector == "busiest" {
		f.Cells = placement.OrderBusiest
	}
	for level, of := range s.Resources {
		f.Limits[level] = map[string]batch.Limit{}
		for name, l := range of {
			f.Limits[level][name] = batch.Limit{Default: l.Default, Limit: l.Limit, Weight: min(l.Weight, placement.MaxWeight)}
		}
	}
	t := &ErrorTree{}
	sources := t.at(settingsKey).at("nodes").at("node_sources")
	for i, x := range s.Sources {
		at := sources.at(strconv.Itoa(i))
		r := reader{x.Prefs, at.at("prefs")}
		src := s.source(x.Source, r)
		if err := src.Check(s.Levels); err != nil && at.lines("", nil) == nil {
			at.fail(x.Source, "%v", err)
		}
		f.Sources = append(f.Sources, src)
	}
	return f, t
}

// source converts the prefs of a node fetcher.
func (s *Settings) source(name string, r reader) batch.Source {
	src := batch.Source{Kind: batch.SourceEmpty}
	parent := func(kind batch.SourceKind) {
		src.Kind = kind
		must(r, "parent_level", asString, &src.ParentLevel)
	}
	switch name {
	case "empty":
	case "manual":
		src.Kind, src.Manual = batch.SourceManual, r.manual()
		if _, err := batch.ManualNodes(s.Levels, src.Manual); err != nil {
			r.t.fail(r.of, "%v", err)
		} else if len(src.Manual) == 0 {
			r.t.fail(r.of, "no nodes")
		}
	case "range_label":
		parent(batch.SourceRange)
		must(r, "start", asInt, &src.First)
		must(r, "end", asInt, &src.Last)
		src.Format = "{parent}__{i}"
		get(r, "format", asString, &src.Format)
		enabled := true
		get(r, "enabled", asBool, &enabled)
		src.Disabled = !enabled
	case "script":
		parent(batch.SourceScript)
		script := ""
		if must(r, "script", asString, &script) {
			src.Script = []string{script}
		}
	case "add_time":
		parent(batch.SourceTime)
		src.Format, src.Zone = batch.TimeFormat, "Local"
		get(r, "format", asString, &src.Format)
		src.Times = r.times()
	default:
		r.t.fail(name, "unknown source %q", name)
	}
	return src
}

// manual reads the forms of Bistro's manual source.
func (r reader) manual() (out []batch.ManualNode) {
	for _, name := range r.sorted() {
		n := batch.ManualNode{Name: name}
		switch v := r.of[name].(type) {
		case string:
			n.Children = []string{v}
		case []any:
			n.Children = r.texts(name)
		case map[string]any:
			one := r.object(name)
			n.Children = one.texts("children")
			_, n.Disabled = v["disabled"] // whatever its value
		default:
			r.t.at(name).fail(v, "must be a string, an array or an object, not %s", kindOf(v))
		}
		out = append(out, n)
	}
	return out
}

// times reads the schedule of add_time.
func (r reader) times() (out []batch.Times) {
	var list []any
	must(r, "schedule", asList, &list)
	for i, v := range list {
		t := r.t.at("schedule").at(strconv.Itoa(i))
		of, err := asObject(v)
		if err != nil {
			t.fail(v, "%v", err)
			continue
		}
		one, x := reader{of, t}, batch.Times{}
		var calendar map[string]any
		if must(one, "cron", asObject, &calendar) {
			x.JSON = string(raw(calendar))
			if _, _, err := x.Item(time.UTC, time.Time{}); err != nil {
				t.at("cron").fail(calendar, "%v", err)
			}
		}
		seconds := 0
		if must(one, "lifetime", asInt, &seconds) {
			x.Lifetime = time.Duration(min(seconds, 1<<31)) * time.Second
			if seconds <= 0 {
				t.at("lifetime").fail(seconds, "must be greater than 0")
			}
		}
		if get(one, "enabled_lifetime", asInt, &seconds) {
			if x.Enabled = time.Duration(min(seconds, 1<<31)) * time.Second; seconds <= 0 {
				x.Enabled = -1
			}
		}
		x.Tags = one.texts("tags")
		out = append(out, x)
	}
	return out
}

// job converts a job. An invalid one keeps its errors, and runs nothing.
func (c *File) job(j *JobConfig, domain string) batch.Job {
	out := batch.Job{
		Name: j.Name, Domain: domain, Owner: j.Owner, Forest: Nodes, Disabled: !j.Enabled, Level: j.LevelForTasks,
		Priority: j.Priority, DependsOn: j.DependsOn, Retries: -1, Call: batch.CallBistro, Config: string(raw(j.Config)),
		IgnoreExitCode: true, HostLevel: j.HostLevel, Host: j.Host, Export: string(raw(j.Export())),
		Orphans: orphans(j.KillOrphans),
		Backoff: batch.Backoff{Seconds: j.Backoff.Seconds, Repeat: j.Backoff.Repeat, Fail: len(j.Backoff.Seconds) == 0},
	}
	for _, l := range j.Errors.Lines() {
		out.Errors = append(out.Errors, l.String())
	}
	command := j.Command
	if len(command) == 0 {
		out.Errors = append(out.Errors, "command: is missing: cells have no --worker_command; see --command")
		command = []string{"false"}
	}
	out.Workload.Action.Run = &action.Run{Path: command[0], Args: command[1:]}
	out.Workload.Termination = action.Termination{Mode: map[string]action.KillMode{"term": action.KillTerm,
		"kill": action.KillNow, "term_wait_kill": action.KillTermWaitKill}[j.Kill.Method],
		Grace:       max(time.Duration(min(j.Kill.WaitMS, 1<<31))*time.Millisecond, time.Millisecond),
		ParentDeath: cmp.Or(j.Subprocess.ParentDeathSignal, -1)}
	for level, f := range j.Filters {
		if out.Filters == nil {
			out.Filters = map[string]batch.Filter{}
		}
		out.Filters[level] = batch.Filter{Whitelist: f.Whitelist, WhitelistRegex: f.WhitelistRegex, Blacklist: f.Blacklist,
			BlacklistRegex: f.BlacklistRegex, TagWhitelist: f.Tags, Fraction: f.Fraction}
	}
	for name, n := range j.Resources {
		level := c.Settings.levelOf(name)
		if out.Resources == nil {
			out.Resources = map[string]resource.Amounts{}
		}
		if out.Resources[level] == nil {
			out.Resources[level] = resource.Amounts{}
		}
		out.Resources[level][name] = n
	}
	return out
}

// orphans converts kill_orphan_tasks_after_sec.
func orphans(after *float64) batch.Orphans {
	if after == nil {
		return batch.Orphans{}
	}
	return batch.Orphans{Kill: true, After: time.Duration(min(*after, maxOrphans) * float64(time.Second))}
}

// maxOrphans bounds the seconds until orphans are ended: longer is never.
const maxOrphans = 1 << 31

// WithCommand gives a command to the jobs of a file that have none: Bistro's --worker_command. A file
// that cannot be read is returned as it is.
func WithCommand(data []byte, command []string) []byte {
	top, err := decode(data)
	if err != nil || len(command) == 0 {
		return data
	}
	for key, v := range top {
		if of, ok := v.(map[string]any); ok && strings.HasPrefix(key, jobPrefix) && of["command"] == nil {
			of["command"] = command
		}
	}
	out, err := json.Marshal(top)
	if err != nil {
		return data
	}
	return out
}
