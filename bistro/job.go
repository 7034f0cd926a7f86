package bistro

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// File is a configuration file, with all defaults and inheritance applied.
type File struct {
	Settings Settings
	Jobs     []JobConfig // in order of name
}

// JobConfig is "bistro_job->NAME".
type JobConfig struct {
	Name          string
	Enabled       bool
	Owner         string
	LevelForTasks string
	Priority      float64
	Resources     map[string]int // of all levels
	Config        map[string]any
	Filters       map[string]Filter
	HostLevel     string // level_for_host_placement
	Host          string // host_placement
	Backoff       Backoff
	DependsOn     []string
	KillOrphans   *float64
	Subprocess    Subprocess
	Kill          Kill
	Command       []string
	Created       int
	Modified      int
	Version       int
	Errors        *ErrorTree // nil = none; else it is invalid
}

// Filter selects nodes of a level.
type Filter struct {
	Whitelist, Blacklist           []string
	WhitelistRegex, BlacklistRegex string
	Tags                           []string
	Fraction                       float64
}

const (
	settingsKey = "bistro_settings"
	jobPrefix   = "bistro_job->"
)

// Is reports whether a text is meant as a configuration file of Bistro: a JSON object with its settings.
func Is(data []byte) bool {
	text := strings.TrimSpace(string(data[:min(len(data), 1<<20)]))
	return strings.HasPrefix(text, "{") && strings.Contains(text, `"`+settingsKey+`"`)
}

// Parse reads a configuration file. Other keys are ignored. Errors in the settings are *Error, with
// all of them; those of a job are in the job.
func Parse(data []byte) (*File, error) {
	top, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	r := reader{top, &ErrorTree{}}
	if _, ok := top[settingsKey]; !ok {
		r.missing(settingsKey)
		r.t.Value = nil // the whole file
		return nil, &Error{r.t}
	}
	c := &File{Settings: readSettings(r.object(settingsKey))}
	if r.t.prune(); !r.t.empty() {
		return nil, &Error{r.t}
	}
	for _, key := range r.sorted() {
		of, isObject := top[key].(map[string]any)
		if name, isJob := strings.CutPrefix(key, jobPrefix); isJob && isObject {
			c.Jobs = append(c.Jobs, c.Settings.job(name, of))
		}
	}
	slices.SortFunc(c.Jobs, func(a, b JobConfig) int { return strings.Compare(a.Name, b.Name) })
	return c, nil
}

// job reads a job. Fields with errors keep their defaults.
func (s *Settings) job(name string, of map[string]any) JobConfig {
	r := reader{of, &ErrorTree{}}
	j := JobConfig{Name: name, Enabled: true, LevelForTasks: s.LevelForTasks, Priority: 1, Config: map[string]any{},
		Resources: map[string]int{}, Filters: map[string]Filter{}, Backoff: s.Backoff, KillOrphans: s.KillOrphans,
		Subprocess: s.Subprocess, Kill: s.Kill, Version: -1}
	get(r, "enabled", asBool, &j.Enabled)
	must(r, "owner", asString, &j.Owner)
	r.choice("level_for_tasks", &j.LevelForTasks, s.levelNames()...)
	get(r, "priority", asFloat, &j.Priority)
	s.amounts(r, &j)
	get(r, "config", asObject, &j.Config)
	filters := r.object("filters")
	for _, level := range filters.sorted() {
		if !slices.Contains(s.levelNames(), level) {
			filters.t.at(level).fail(filters.of[level], "unknown level %q", level)
			continue
		}
		if f := filters.filter(level); !f.passesAll() {
			j.Filters[level] = f
		}
	}
	r.choice("level_for_host_placement", &j.HostLevel, s.levelNames()...)
	get(r, "host_placement", asString, &j.Host)
	r.backoff(&j.Backoff)
	j.DependsOn = r.texts("depends_on")
	r.killOrphans(&j.KillOrphans)
	r.subprocess(&j.Subprocess)
	r.kill(&j.Kill)
	j.Command = r.texts("command")
	get(r, "create_time", asInt, &j.Created)
	get(r, "modify_time", asInt, &j.Modified)
	get(r, "version_id", asInt, &j.Version)
	r.t.prune()
	j.Errors = earlier(of["errors"], r.t)
	return j
}

// passesAll reports whether a filter has no condition.
func (f *Filter) passesAll() bool {
	return len(f.Whitelist)+len(f.Blacklist)+len(f.Tags) == 0 && f.WhitelistRegex+f.BlacklistRegex == "" &&
		f.Fraction == 1
}

// amounts reads the resources, with the defaults of those that are not set.
func (s *Settings) amounts(r reader, j *JobConfig) {
	for _, level := range s.levelNames() {
		for name, l := range s.Resources[level] {
			j.Resources[name] = l.Default
		}
	}
	all := r.object("resources")
	for _, name := range all.sorted() {
		n := 0
		if s.levelOf(name) == "" {
			all.t.at(name).fail(all.of[name], "unknown resource %q", name)
		} else if get(all, name, asAmount, &n) {
			j.Resources[name] = n
		}
	}
}

// filter reads the filter of a level.
func (r reader) filter(level string) Filter {
	one, f := r.object(level), Filter{Fraction: 1}
	f.Whitelist, f.Blacklist, f.Tags = one.texts("whitelist"), one.texts("blacklist"), one.texts("tag_whitelist")
	for key, to := range map[string]*string{"whitelist_regex": &f.WhitelistRegex, "blacklist_regex": &f.BlacklistRegex} {
		if get(one, key, asString, to) {
			if _, err := regexp.Compile(*to); err != nil {
				one.t.at(key).fail(*to, "%v", err)
				*to = ""
			}
		}
	}
	if get(one, "fraction_of_nodes", asFloat, &f.Fraction); f.Fraction <= 0 || f.Fraction > 1 {
		f.Fraction = 1
	}
	return f
}

// earlier adds the errors that a job had when it was exported. If it has no others, they are taken as
// they were, so that they do not grow when a job is saved and loaded again.
func earlier(had any, now *ErrorTree) *ErrorTree {
	switch v := had.(type) {
	case nil:
		had = nil
	case map[string]any:
		if len(v) == 0 {
			had = nil
		}
	case []any:
		if len(v) == 0 {
			had = nil
		}
	case string:
		if v == "" {
			had = nil
		}
	}
	if had == nil {
		if now.empty() {
			return nil
		}
		return now
	}
	if now.empty() {
		var t ErrorTree
		if json.Unmarshal(raw(had), &t) == nil && !t.empty() {
			return &t
		}
	}
	now.at("errors").fail(had, "already had errors")
	return now
}
