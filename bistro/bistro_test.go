package bistro

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cantina/batch"
	"cantina/placement"
)

// example is the minimal file of the specification, with more of what a file can have.
const example = `{"bistro_settings": {"enabled": true, "scheduler": "ranked_priority",
   "nodes": {"levels": ["host","db"], "node_sources": [{"source":"manual","prefs":{"h1":["h1.a","h1.b"]}}]},
   "resources": {"host": {"iops": {"default": 10, "limit": 100}},
                 "worker": {"slots": {"default": 1, "limit": 4, "weight": 1}}},
   "kill_orphan_tasks_after_sec": 30, "unknown": 1},
 "bistro_job->copy": {"owner":"me", "priority": 2, "filters":{"db":{"whitelist_regex":"a$"}},
   "command":["/bin/copy", "-v"],
   "resources": {"iops": "7"}, "config": {"k": [1, null]}},
 "bistro_job->none": 5, "other": {}}`

func parse(t testing.TB, text string) *File {
	t.Helper()
	c, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// again exports a file and reads it.
func again(t testing.TB, c *File) *File {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(text))
}

func TestAFileOfBistro(t *testing.T) {
	c := parse(t, example)
	jobs, remarks, err := c.Apply("dom")
	if err != nil || len(jobs) != 1 || len(remarks) != 1 || !strings.Contains(remarks[0], "--capacity slots=4") {
		t.Fatalf("%d jobs, %q, %v", len(jobs), remarks, err)
	}
	f, j := jobs[0].Forest, jobs[0].Job
	if f.Policy != batch.RankedPriority || f.Cells != placement.OrderRoundRobin || !f.Backwards || f.Disabled ||
		f.Limits["host"]["iops"].Limit != 100 || f.Limits["worker"]["slots"].Weight != 1 || len(f.Sources[0].Manual) != 1 {
		t.Errorf("%+v", f)
	}
	if j.Name != "copy" || j.Domain != "dom" || j.Forest != f.Name || j.Level != "db" || j.Priority != 2 ||
		j.Retries != -1 ||
		!j.IgnoreExitCode || j.Call != batch.CallBistro || j.Config != `{"k":[1,null]}` || len(j.Errors) > 0 ||
		j.Resources["host"]["iops"] != 7 || j.Resources["worker"]["slots"] != 1 || !j.Backoff.Repeat ||
		j.Workload.Action.Run.Path != "/bin/copy" || j.Workload.Action.Run.Args[0] != "-v" {
		t.Errorf("%+v", j)
	}
	for _, want := range []string{`"kill_orphan_tasks_after_sec":30`, `"resources":{"iops":7,"slots":1}`,
		`"level_for_tasks":"db"`, `86400,"repeat"]`, `"kill_subprocess":{"kill_wait_ms":0,"method":"term"}`} {
		if !strings.Contains(j.Export, want) {
			t.Errorf("the export %s lacks %s", j.Export, want)
		}
	}
}

// TestTheErrorTreeOfAJob is Bistro's test: the good parts are kept, and a save and load does not grow the errors.
func TestTheErrorTreeOfAJob(t *testing.T) {
	c := parse(t, strings.Replace(example, `"bistro_job->none": 5`, `"bistro_job->bad": {"priority": 3,
		"depends_on": ["a", "b", ["c"]], "version_id": "not an int", "command": ["x"]}`, 1))
	for range 3 {
		j := c.Jobs[0]
		e := j.Errors
		if j.Name != "bad" || j.Priority != 3 || fmt.Sprint(j.DependsOn) != "[a b]" || j.Version != -1 || e == nil ||
			e.KeyErrors["owner"] == "" || e.Nested["depends_on"].Nested["2"].Error == "" || e.Nested["version_id"].Error == "" ||
			len(e.Nested) != 2 {
			t.Fatalf("%+v\n%s", j, raw(e))
		}
		c = again(t, c)
	}
	jobs, _, err := c.Apply("dom")
	if err != nil || len(jobs) != 2 || fmt.Sprint(jobs[0].Job.Errors) != "[owner: is missing "+
		"depends_on.2: must be a string, not an array version_id: \"not an int\" is no integer]" ||
		len(jobs[1].Job.Errors) > 0 {
		t.Errorf("%v %q", err, jobs[0].Job.Errors)
	}
	// Further errors are added to the earlier ones.
	more := strings.ReplaceAll(string(raw(c)), `"priority":3`, `"priority":"high"`)
	if e := parse(t, more).Jobs[0].Errors; e.Nested["errors"] == nil || e.Nested["priority"] == nil {
		t.Errorf("%s", raw(e))
	}
}

// TestJobsThatCannotBe are invalid, and stop neither the file nor other jobs.
func TestJobsThatCannotBe(t *testing.T) {
	for fields, want := range map[string]string{
		`"owner": ["x"]`:                                  "owner: must be a string, not an array",
		`"resources": {"no": 1}`:                          `resources.no: unknown resource "no"`,
		`"resources": {"iops": -1}`:                       "resources.iops: -1 is negative",
		`"config": 5`:                                     "config: must be an object, not a number",
		`"filters": {"rack": {}}`:                         `filters.rack: unknown level "rack"`,
		`"filters": {"db": {"whitelist_regex": "("}}`:     "filters.db.whitelist_regex: error parsing regexp",
		`"filters": {"worker": {"tag_whitelist": ["x"]}}`: `filters: level "worker" has no tags`,
		`"backoff": []`:                                   "backoff: must not be empty",
		`"backoff": [1, 1]`:                               "backoff.1: 1 is not greater",
		`"backoff": [2, 1]`:                               "backoff.1: 1 is not greater",
		`"backoff": [0]`:                                  "backoff.0: 0 is not positive",
		`"backoff": ["repeat"]`:                           `backoff.0: "repeat" has nothing to repeat`,
		`"backoff": ["often"]`:                            `backoff.0: must be "repeat" or "fail"`,
		`"backoff": [true]`:                               "backoff.0: must be a number",
		`"backoff": 5`:                                    "backoff: must be an array",
		`"kill_orphan_tasks_after_sec": "x"`:              "kill_orphan_tasks_after_sec: must be a boolean or a number",
		`"task_subprocess": {"poll_ms": 0}`:               "task_subprocess.poll_ms: must be at least 1",
		`"kill_subprocess": {"method": "nuke"}`:           "kill_subprocess.method: must be one of",
		`"level_for_tasks": "rack"`:                       "level_for_tasks: must be one of instance, host, db, worker",
		`"level_for_tasks": "worker"`:                     `level_for_tasks: unknown level "worker"`,
		`"level_for_host_placement": "rack"`:              "level_for_host_placement: must be one of",
		`"priority": 1e300`:                               "priority: ",
		`"priority": null`:                                "priority: must be a number, not null",
		`"errors": "x"`:                                   "errors: already had errors",
		`"command": []`:                                   "command: is missing",
	} {
		text := strings.Replace(example, `"bistro_job->none": 5`,
			`"bistro_job->bad": {"owner": "o", "command": ["x"], `+fields+"}", 1)
		jobs, _, err := parse(t, text).Apply("dom")
		if err != nil || len(jobs) != 2 || len(jobs[1].Job.Errors) > 0 || !strings.Contains(fmt.Sprint(jobs[0].Job.Errors),
			want) {
			t.Errorf("%s: want %q in %q, %v", fields, want, jobs[0].Job.Errors, err)
		}
	}
}

// TestSettingsThatCannotBe: the file is refused, with all errors and their places.
func TestSettingsThatCannotBe(t *testing.T) {
	base := `{"bistro_settings": {"nodes": {"levels": ["host"]},
		"resources": {"worker": {"ram": {"default": 1, "limit": 2}}}, %s}}`
	for _, row := range [][2]string{
		{`"scheduler": "fifo", "idle_wait": []`, "bistro_settings.idle_wait: must be a number, not an array\n" +
			"bistro_settings.scheduler: must be one of roundrobin"},
		{`"remote_worker_selector": "best"`, "must be one of roundrobin, busiest"},
		{`"nodes": {}`, "bistro_settings.nodes.levels: is missing"},
		{`"nodes": {"levels": ["a", "a"]}`, "bistro_settings.nodes.levels.1: level \"a\" is empty, reserved or duplicate"},
		{`"nodes": {"levels": ["worker"]}`, "bistro_settings.nodes.levels.0: "},
		{`"nodes": {"levels": [], "node_order": "up"}`, "bistro_settings.nodes.node_order: must be one of"},
		{`"nodes": {"levels": [], "node_sources": [{}]}`, "bistro_settings.nodes.node_sources.0.source: is missing"},
		{`"resources": {"rack": {}}`, `bistro_settings.resources.rack: unknown level "rack"`},
		{`"resources": {"host": {"io": {"default": 1}}}`, "bistro_settings.resources.host.io.limit: is missing"},
		{`"resources": {"host": {"io": {"default": -1, "limit": "x"}}}`, "io.default: -1 is negative"},
		{`"worker_resources_override": {"w": {"no": 1}}`, `worker_resources_override.w.no: unknown resource "no"`},
		{`"physical_resources": {"disk": {}}`, "physical_resources.disk: must be one of ram_mb"},
		{`"physical_resources": {"ram_mb": {"logical_resource": "ram", "multiply_logical_by": 0}}`, "must not be 0"},
		{`"physical_resources": {"ram_mb": {"logical_resource": "ram", "enforcement": "soft"}}`,
			"must be one of none, hard"},
		{`"nodes": {"levels": ["a"], "node_sources": [{"source": "dns"}]}`, `prefs: unknown source "dns"`},
		{`"nodes": {"levels": ["a"], "node_sources": [{"source": "manual"}]}`, "node_sources.0.prefs: no nodes"},
		{`"nodes": {"levels": ["a"], "node_sources": [{"source": "manual", "prefs": {"x": ["y"]}}]}`,
			"deeper than the 1 levels"},
		{`"nodes": {"levels": ["a"], "node_sources": [{"source": "manual", "prefs": {"x": 5}}]}`,
			"prefs.x: must be a string"},
		{`"nodes": {"levels": ["a"], "node_sources": [{"source": "script", "prefs": {}}]}`, "prefs.script: is missing"},
		{`"nodes": {"levels": ["a"], "node_sources": [{"source": "range_label", "prefs": {"parent_level":` +
			` "b", "start": 1, "end": "x"}}]}`, "prefs.end: \"x\" is no integer"},
		{`"nodes": {"levels": ["a"], "node_sources": [{"source": "range_label", "prefs": {"parent_level":` +
			` "b", "start": 1, "end": 2}}]}`, `unknown level "b"`},
		{`"nodes": {"levels": ["a"], "node_sources": [{"source": "add_time", "prefs": {"parent_level":` +
			` "instance", "schedule": [{"cron": {"hour": 99}}]}}]}`, "schedule.0.lifetime: is missing"},
	} {
		fields, want := row[0], row[1]
		c, err := Parse([]byte(strings.Replace(base, "%s", fields, 1)))
		if err == nil {
			_, _, err = c.Apply("dom")
		}
		var tree *Error
		if !errors.As(err, &tree) || !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want %q in %v", fields, want, err)
		}
	}
	for text, want := range map[string]string{
		"{}": "bistro_settings: is missing", "[]": "must be an object, not an array", "{\n\n{": "line 3: ", "": "EOF",
		`{"bistro_settings": 5}`: "bistro_settings: must be an object", `{"bistro_settings": {}} x`: "more than one value",
	} {
		if _, err := Parse([]byte(text)); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: want %q in %v", text, want, err)
		}
	}
}

// TestSourcesOfBistro: each node fetcher becomes the source of nodes with the same meaning.
func TestSourcesOfBistro(t *testing.T) {
	c := parse(t, `{"bistro_settings": {"resources": {}, "nodes": {"levels": ["a", "b", "c"], "node_sources": [
		{"source": "empty"},
		{"source": "manual", "prefs": {"x": "y", "z": {"children": ["y"], "disabled": false}}},
		{"source": "range_label", "prefs": {"parent_level": "b", "start": "3", "end": 1, "enabled": false}},
		{"source": "script", "prefs": {"parent_level": "instance", "script": "/bin/list"}},
		{"source": "add_time", "prefs": {"parent_level": "b", "schedule": [
			{"cron": {"epoch": {"period": 90}}, "lifetime": 720, "enabled_lifetime": 360, "tags": ["t"]},
			{"cron": {"minute": 0, "dst_fixes": ["skip", "repeat_use_both"]}, "lifetime": 60, "enabled_lifetime": 0}]}}]}},
		"bistro_job->": {}, "bistro_job->j": {"owner": "o"}}`)
	jobs, remarks, err := c.Apply("dom")
	if err != nil || len(jobs) != 1 || len(remarks) != 2 || !strings.Contains(remarks[0], "enabled is false") ||
		!strings.Contains(remarks[1], `job "" is left out`) {
		t.Fatalf("%d jobs, %q, %v", len(jobs), remarks, err)
	}
	s := jobs[0].Forest.Sources
	if !jobs[0].Forest.Disabled || len(s) != 5 || s[0].Kind != batch.SourceEmpty || !s[1].Manual[1].Disabled ||
		s[1].Manual[0].Children[0] != "y" || s[2].First != 3 || !s[2].Disabled || s[2].Format != "{parent}__{i}" ||
		s[3].Script[0] != "/bin/list" || s[4].Zone != "Local" || s[4].Times[0].Enabled.Seconds() != 360 ||
		s[4].Times[1].Enabled >= 0 || s[4].Times[0].Tags[0] != "t" {
		t.Errorf("%+v", s)
	}
	if fmt.Sprint(jobs[0].Job.Errors) != "[command: is missing: cells have no --worker_command; see --command]" {
		t.Errorf("%q", jobs[0].Job.Errors)
	}
	with := parse(t, string(WithCommand([]byte(`{"bistro_settings": {"resources": {}, "nodes": {"levels": []}},
		"bistro_job->j": {"owner": "o"}, "bistro_job->k": {"owner": "o", "command": ["mine"]}}`), []string{"w", "-x"})))
	if fmt.Sprint(with.Jobs[0].Command, with.Jobs[1].Command) != "[w -x] [mine]" {
		t.Errorf("%+v", with.Jobs)
	}
}

// TestJobsInherit from the settings, and overlay a part of it.
func TestJobsInherit(t *testing.T) {
	c := parse(t, `{"bistro_settings": {"resources": {}, "nodes": {"levels": []}, "backoff": [1, 2],
		"kill_orphan_tasks_after_sec": true, "kill_subprocess": {"method": "kill", "kill_wait_ms": 7},
		"task_subprocess": {"poll_ms": 5, "cgroups": {"root": "r", "subsystems": ["cpu", "memory"]}}},
		"bistro_job->j": {"owner": "o", "kill_orphan_tasks_after_sec": -1, "kill_subprocess": {"method": "term_wait_kill"},
			"backoff": ["fail", "ignored"], "task_subprocess": {"cgroups": {"subsystems": ["pids"]}}},
		"bistro_job->k": {"owner": "o"}}`)
	j, k := c.Jobs[0], c.Jobs[1]
	jobs, _, err := c.Apply("d")
	if at := (batch.Orphans{Kill: true}); err != nil || *jobs[0].Forest.Removed != at ||
		jobs[0].Job.Orphans != (batch.Orphans{}) || jobs[1].Job.Orphans != at {
		t.Errorf("%v %+v", err, jobs)
	}
	if j.KillOrphans != nil || *k.KillOrphans != 0 || j.Kill != (Kill{"term_wait_kill", 7}) || k.Kill != (Kill{"kill",
		7}) ||
		j.Subprocess.PollMS != 5 || j.Subprocess.Root != "r" || fmt.Sprint(j.Subprocess.Subsystems,
		k.Subprocess.Subsystems) !=
		"[pids] [cpu memory]" || len(j.Backoff.Seconds) != 0 || len(k.Backoff.Seconds) != 2 || k.Backoff.Repeat {
		t.Errorf("%+v\n%+v", j, k)
	}
	if c2 := again(t, c); !reflect.DeepEqual(c, c2) {
		t.Errorf("%+v\n%+v", c, c2)
	}
}

// anything draws a JSON value, sometimes one that a key may have.
func anything(good ...any) *rapid.Generator[any] {
	return rapid.Custom(func(rt *rapid.T) any {
		if rapid.IntRange(0, 3).Draw(rt, "good") > 0 {
			return rapid.SampledFrom(good).Draw(rt, "value")
		}
		return rapid.SampledFrom([]any{nil, true, false, 0, 1, -1, 2.5, "", "3", "x", []any{}, []any{"a", 1, []any{}},
			map[string]any{}, map[string]any{"a": 1}}).Draw(rt, "odd")
	})
}

type o = map[string]any

func drawJob(rt *rapid.T) o {
	out := o{}
	for key, values := range map[string][]any{
		"enabled": {true, false, "no"}, "owner": {"me", 5}, "level_for_tasks": {"host", "instance"}, "priority": {1, 0, 2.5,
			"7"},
		"resources": {o{"io": 2}, o{"io": "3", "no": 1}, o{}}, "config": {o{"a": o{"b": 1e30}}, o{}},
		"filters": {o{"host": o{"whitelist": []any{"a"}, "fraction_of_nodes": 0.25}},
			o{"db": o{"blacklist_regex": "("}}, o{"x": o{}}},
		"level_for_host_placement": {"host"}, "host_placement": {"h"}, "depends_on": {[]any{"a", "b"}, []any{1, []any{}}},
		"backoff":                     {[]any{1, 5, "repeat"}, []any{"fail"}, []any{3, 2}, []any{1, 2}},
		"kill_orphan_tasks_after_sec": {true, false, 2.5, -3}, "command": {[]any{"a", "b"}},
		"kill_subprocess": {o{"method": "kill"}, o{"kill_wait_ms": 5}, o{"method": "x"}},
		"task_subprocess": {o{"poll_ms": 3, "cgroups": o{"subsystems": []any{"cpu"}}}, o{"use_canary_pipe": false}},
		"create_time":     {5}, "modify_time": {"6"}, "version_id": {3, -1}, "errors": {o{"error": "old"},
			o{"key_errors": o{"x": "y"}}, "text"},
	} {
		if rapid.Bool().Draw(rt, key) {
			out[key] = anything(values...).Draw(rt, key)
		}
	}
	return out
}

// TestAnExportIsReadAsTheSame: parse, export, parse.
func TestAnExportIsReadAsTheSame(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		settings := o{"nodes": o{"levels": []any{"host", "db"}, "node_sources": []any{o{"source": "manual",
			"prefs": o{"h": "d"}}}},
			"resources": o{"host": o{"io": o{"default": 1, "limit": 9, "weight": 2}},
				"worker": o{"slots": o{"default": 1, "limit": "4"}}}}
		for key, values := range map[string][]any{
			"enabled": {true, "yes"}, "working_wait": {0.25}, "scheduler": {"long_tail"}, "remote_worker_selector": {"busiest"},
			"backoff": {[]any{1, "repeat"}, []any{"fail"}}, "level_for_tasks": {"host"}, "kill_orphan_tasks_after_sec": {true,
				1.5, false},
			"worker_resources_override": {o{"w": o{"slots": 3}}}, "kill_subprocess": {o{"method": "kill", "kill_wait_ms": 9}},
			"physical_resources": {o{"ram_mb": o{"logical_resource": "slots", "enforcement": "hard",
				"physical_reserve_amount": -2}}},
			"task_subprocess": {o{"parent_death_signal": 0, "cgroups": o{"slice": "s"}}},
			"CAUTION_exit_initial_wait_before_timestamp": {7},
		} {
			if rapid.Bool().Draw(rt, key) {
				settings[key] = rapid.SampledFrom(values).Draw(rt, key)
			}
		}
		file := o{settingsKey: settings}
		for _, name := range []string{"a", "b", "é ->"} {
			file[jobPrefix+name] = drawJob(rt)
		}
		text, err := json.Marshal(file)
		if err != nil {
			rt.Fatal(err)
		}
		c, err := Parse(text)
		if err != nil {
			rt.Fatal(err)
		}
		exported, err := json.Marshal(c)
		if err != nil {
			rt.Fatal(err)
		}
		c2, err := Parse(exported)
		if err != nil {
			rt.Fatalf("%s: %v", exported, err)
		}
		if second := string(raw(c2)); second != string(exported) {
			rt.Fatalf("exported\n%s\nthen\n%s", exported, second)
		}
		for i := range c.Jobs {
			if c.Jobs[i].Errors.empty() != c2.Jobs[i].Errors.empty() {
				rt.Fatalf("errors of %q: %s, then %s", c.Jobs[i].Name, raw(c.Jobs[i].Errors), raw(c2.Jobs[i].Errors))
			}
		}
		if _, _, err := c2.Apply("dom"); err != nil {
			rt.Fatal(err)
		}
	})
}
