package bistro

import (
	"encoding/json"

	"cantina/action"
	"cantina/batch"
)

// Names in Bistro's HTTP API whose words are not those of this project.
const (
	HandlerRetry  = "forgive_jobs"
	AnswerRetried = "forgiven"
)

// Effective returns a job in Bistro's export form: as it was imported, or made from its fields. A
// paused job is not enabled.
func Effective(j *batch.Job, f *batch.ForestSpec) map[string]any {
	out := map[string]any{}
	if j.Export == "" || json.Unmarshal([]byte(j.Export), &out) != nil {
		out = made(j, f).Export()
		if len(j.Errors) > 0 {
			t := &ErrorTree{}
			for _, text := range j.Errors {
				t.at(text).Error = text
			}
			out["errors"] = t
		}
	}
	out["enabled"] = !j.Disabled && !j.Paused
	return out
}

// made converts a job that was not imported.
func made(j *batch.Job, f *batch.ForestSpec) *JobConfig {
	d := defaults()
	out := &JobConfig{Name: j.ShortName(), Owner: j.Owner, LevelForTasks: j.Level, Priority: j.Priority,
		Resources: map[string]int{}, Config: map[string]any{}, Filters: map[string]Filter{}, HostLevel: j.HostLevel,
		Host: j.Host, Backoff: d.Backoff, Subprocess: d.Subprocess, Kill: Kill{Method: map[action.KillMode]string{
			action.KillTerm: "term", action.KillNow: "kill"}[j.Workload.Termination.Mode]}, Version: -1}
	if out.Kill.Method == "" {
		out.Kill = Kill{"term_wait_kill", int(j.Workload.Termination.Grace.Milliseconds())}
	}
	if out.LevelForTasks == "" {
		out.LevelForTasks = "instance"
		if n := len(f.Levels); n > 0 {
			out.LevelForTasks = f.Levels[n-1]
		}
	}
	if len(j.Backoff.Seconds) > 0 || j.Backoff.Fail {
		out.Backoff = Backoff{Seconds: j.Backoff.Seconds, Repeat: j.Backoff.Repeat}
	}
	for _, of := range f.Limits {
		for name, l := range of {
			out.Resources[name] = l.Default
		}
	}
	for _, of := range j.Resources {
		for name, n := range of {
			out.Resources[name] = n
		}
	}
	for level, x := range j.Filters {
		one := Filter{x.Whitelist, x.Blacklist, x.WhitelistRegex, x.BlacklistRegex, x.TagWhitelist, x.Fraction}
		if one.Fraction <= 0 || one.Fraction > 1 {
			one.Fraction = 1
		}
		out.Filters[level] = one
	}
	for _, key := range j.DependsOn {
		_, name := batch.SplitName(key)
		out.DependsOn = append(out.DependsOn, name)
	}
	if run := j.Workload.Action.Run; run != nil {
		out.Command = append([]string{run.Path}, run.Args...)
	}
	_ = json.Unmarshal([]byte(j.Config), &out.Config)
	return out
}
