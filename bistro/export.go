package bistro

import "encoding/json"

// MarshalJSON returns the file with all effective values. Parse reads it as the same File.
func (c *File) MarshalJSON() ([]byte, error) {
	out := map[string]any{settingsKey: c.Settings.export()}
	for i := range c.Jobs {
		out[jobPrefix+c.Jobs[i].Name] = c.Jobs[i].Export()
	}
	return json.Marshal(out)
}

func (s *Settings) export() map[string]any {
	sources := make([]any, len(s.Sources))
	for i, x := range s.Sources {
		sources[i] = map[string]any{"source": x.Source, "prefs": x.Prefs}
	}
	resources := map[string]any{}
	for level, of := range s.Resources {
		one := map[string]any{}
		for name, l := range of {
			one[name] = map[string]any{"default": l.Default, "limit": l.Limit, "weight": l.Weight}
		}
		resources[level] = one
	}
	physical := map[string]any{}
	for name, p := range s.Physical {
		physical[name] = map[string]any{"logical_resource": p.Logical, "multiply_logical_by": p.Multiply,
			"enforcement": p.Enforcement, "physical_reserve_amount": p.Reserve}
	}
	return map[string]any{
		"enabled": s.Enabled, "working_wait": s.WorkingWait, "idle_wait": s.IdleWait, "scheduler": s.Scheduler,
		"remote_worker_selector": s.Selector, "backoff": s.Backoff.export(), "level_for_tasks": s.LevelForTasks,
		"nodes":     map[string]any{"levels": list(s.Levels), "node_order": s.NodeOrder, "node_sources": sources},
		"resources": resources, "worker_resources_override": s.Overrides, "physical_resources": physical,
		"kill_orphan_tasks_after_sec": exportOrphans(s.KillOrphans), "task_subprocess": s.Subprocess.export(),
		"kill_subprocess": s.Kill.export(), "CAUTION_exit_initial_wait_before_timestamp": s.ExitWait,
	}
}

// Export returns the job in Bistro's export form: inherited values are explicit, and other
// fields are there only if they mean something.
func (j *JobConfig) Export() map[string]any {
	out := map[string]any{
		"enabled": j.Enabled, "owner": j.Owner, "level_for_tasks": j.LevelForTasks, "priority": j.Priority,
		"config": j.Config, "backoff": j.Backoff.export(), "kill_orphan_tasks_after_sec": exportOrphans(j.KillOrphans),
		"task_subprocess": j.Subprocess.export(), "kill_subprocess": j.Kill.export(),
	}
	set := func(key string, value any, there bool) {
		if there {
			out[key] = value
		}
	}
	filters := map[string]any{}
	for level, f := range j.Filters {
		filters[level] = f.export()
	}
	set("resources", j.Resources, len(j.Resources) > 0)
	set("filters", filters, len(filters) > 0)
	set("level_for_host_placement", j.HostLevel, j.HostLevel != "")
	set("host_placement", j.Host, j.Host != "")
	set("depends_on", j.DependsOn, len(j.DependsOn) > 0)
	set("command", j.Command, len(j.Command) > 0)
	set("create_time", j.Created, j.Created > 0)
	set("modify_time", j.Modified, j.Modified > 0)
	set("version_id", j.Version, j.Version != -1)
	set("errors", j.Errors, !j.Errors.empty())
	return out
}

func (f Filter) export() map[string]any {
	out := map[string]any{}
	for key, list := range map[string][]string{"whitelist": f.Whitelist, "blacklist": f.Blacklist,
		"tag_whitelist": f.Tags} {
		if len(list) > 0 {
			out[key] = list
		}
	}
	for key, re := range map[string]string{"whitelist_regex": f.WhitelistRegex, "blacklist_regex": f.BlacklistRegex} {
		if re != "" {
			out[key] = re
		}
	}
	if f.Fraction != 1 {
		out["fraction_of_nodes"] = f.Fraction
	}
	return out
}

func (b Backoff) export() (out []any) {
	for _, s := range b.Seconds {
		out = append(out, s)
	}
	if b.Repeat {
		return append(out, "repeat")
	}
	return append(out, "fail")
}

func exportOrphans(after *float64) any {
	if after == nil {
		return false
	}
	return *after
}

func (p Subprocess) export() map[string]any {
	return map[string]any{"poll_ms": p.PollMS, "max_log_lines_per_poll_interval": p.MaxLogLines,
		"parent_death_signal": p.ParentDeathSignal, "process_group_leader": p.GroupLeader, "use_canary_pipe": p.Canary,
		"cgroups": map[string]any{"root": p.Root, "slice": p.Slice, "subsystems": list(p.Subsystems),
			"kill_without_freezer": p.WithoutFreezer}}
}

func (k Kill) export() map[string]any {
	return map[string]any{"method": k.Method, "kill_wait_ms": k.WaitMS}
}

// list is a list that is never null in JSON.
func list(of []string) []string {
	if of == nil {
		return []string{}
	}
	return of
}
