package bistro

import (
	"math"
	"slices"
	"strconv"
)

// Settings are bistro_settings.
type Settings struct {
	Enabled               bool
	WorkingWait, IdleWait float64 // seconds; cantina starts work when there is room
	Scheduler             string
	Selector              string
	Backoff               Backoff
	Levels                []string // without instance and worker
	NodeOrder             string
	Sources               []Fetcher
	Resources             map[string]map[string]Limit // by level, instance and worker included
	Overrides             map[string]map[string]int   // of worker resources
	Physical              map[string]Physical
	LevelForTasks         string
	KillOrphans           *float64 // seconds; nil = never
	Subprocess            Subprocess
	Kill                  Kill
	ExitWait              int
}

// Fetcher is one of node_sources.
type Fetcher struct {
	Source string
	Prefs  map[string]any
}

// Limit is one resource of a level.
type Limit struct{ Default, Limit, Weight int }

// Physical is one of physical_resources.
type Physical struct {
	Logical     string
	Multiply    float64
	Enforcement string
	Reserve     int
}

// Backoff is a list of pauses in seconds; Repeat: after the last value again and again, else it fails.
type Backoff struct {
	Seconds []int
	Repeat  bool
}

// Subprocess is task_subprocess.
type Subprocess struct {
	PollMS, MaxLogLines, ParentDeathSignal int
	GroupLeader, Canary                    bool
	Root, Slice                            string
	Subsystems                             []string
	WithoutFreezer                         bool
}

// Kill is kill_subprocess.
type Kill struct {
	Method string
	WaitMS int
}

func schedulers() []string {
	return []string{"roundrobin", "ranked_priority", "randomized_priority", "long_tail"}
}

// levelNames are all levels, from the root down.
func (s *Settings) levelNames() []string {
	return slices.Concat([]string{"instance"}, s.Levels, []string{"worker"})
}

func defaults() Settings {
	return Settings{WorkingWait: 0.5, IdleWait: 5, Scheduler: "roundrobin", Selector: "roundrobin", NodeOrder: "random",
		Backoff:    Backoff{Seconds: []int{15, 30, 60, 300, 900, 3600, 7200, 21600, 86400}, Repeat: true},
		Subprocess: Subprocess{PollMS: 10, MaxLogLines: 50, ParentDeathSignal: 9, Canary: true}, Kill: Kill{Method: "term"}}
}

// readSettings reads bistro_settings.
func readSettings(r reader) Settings {
	s := defaults()
	get(r, "enabled", asBool, &s.Enabled)
	get(r, "working_wait", asFloat, &s.WorkingWait)
	get(r, "idle_wait", asFloat, &s.IdleWait)
	r.choice("scheduler", &s.Scheduler, schedulers()...)
	r.choice("remote_worker_selector", &s.Selector, "roundrobin", "busiest")
	r.backoff(&s.Backoff)
	s.nodes(r)
	s.resources(r)
	s.physical(r)
	s.LevelForTasks = s.levelNames()[len(s.Levels)]
	r.choice("level_for_tasks", &s.LevelForTasks, s.levelNames()...)
	r.killOrphans(&s.KillOrphans)
	r.subprocess(&s.Subprocess)
	r.kill(&s.Kill)
	get(r, "CAUTION_exit_initial_wait_before_timestamp", asInt, &s.ExitWait)
	return s
}

func (s *Settings) nodes(r reader) {
	if _, ok := r.of["nodes"]; !ok {
		r.missing("nodes")
		return
	}
	n := r.object("nodes")
	if n.of == nil {
		return
	}
	if _, ok := n.of["levels"]; !ok {
		n.missing("levels")
	}
	for i, l := range n.texts("levels") {
		if l == "" || slices.Contains(s.levelNames(), l) {
			n.t.at("levels").at(strconv.Itoa(i)).fail(l, "level %q is empty, reserved or duplicate", l)
			continue
		}
		s.Levels = append(s.Levels, l)
	}
	n.choice("node_order", &s.NodeOrder, "random", "original", "lexicographic")
	var list []any
	get(n, "node_sources", asList, &list)
	for i, v := range list {
		t := n.t.at("node_sources").at(strconv.Itoa(i))
		of, err := asObject(v)
		if err != nil {
			t.fail(v, "%v", err)
			continue
		}
		one := reader{of, t}
		x := Fetcher{Prefs: map[string]any{}}
		if must(one, "source", asString, &x.Source) {
			get(one, "prefs", asObject, &x.Prefs)
			s.Sources = append(s.Sources, x)
		}
	}
}

func (s *Settings) resources(r reader) {
	s.Resources, s.Overrides = map[string]map[string]Limit{}, map[string]map[string]int{}
	if _, ok := r.of["resources"]; !ok {
		r.missing("resources")
	}
	all := r.object("resources")
	for _, level := range all.sorted() {
		one := all.object(level)
		if !slices.Contains(s.levelNames(), level) {
			all.t.at(level).fail(all.of[level], "unknown level %q", level)
			continue
		}
		s.Resources[level] = map[string]Limit{}
		for _, name := range one.sorted() {
			if other := s.levelOf(name); other != "" {
				one.t.at(name).fail(one.of[name], "level %s has a resource of this name", other)
				continue
			}
			of := one.object(name)
			var l Limit
			if of.of != nil {
				must(of, "default", asAmount, &l.Default)
				must(of, "limit", asAmount, &l.Limit)
				get(of, "weight", asAmount, &l.Weight)
			}
			s.Resources[level][name] = l
		}
	}
	over := r.object("worker_resources_override")
	for _, worker := range over.sorted() {
		one := over.object(worker)
		s.Overrides[worker] = map[string]int{}
		for _, name := range one.sorted() {
			n := 0
			switch level := s.levelOf(name); {
			case level == "":
				one.t.at(name).fail(one.of[name], "unknown resource %q", name)
			case level != "worker":
				one.t.at(name).fail(one.of[name], "%q is a resource of level %s, not of level worker", name, level)
			case get(one, name, asAmount, &n):
				s.Overrides[worker][name] = n
			}
		}
	}
}

// levelOf is the level of a resource; empty = none.
func (s *Settings) levelOf(name string) string {
	for _, level := range s.levelNames() {
		if _, ok := s.Resources[level][name]; ok {
			return level
		}
	}
	return ""
}

func (s *Settings) physical(r reader) {
	s.Physical = map[string]Physical{}
	all := r.object("physical_resources")
	used := map[string]string{}
	for _, name := range all.sorted() {
		enforcements := map[string][]string{"ram_mb": {"none", "hard"}, "cpu_core": {"none", "soft"},
			"gpu_card": {"none"}}[name]
		if enforcements == nil {
			all.t.at(name).fail(all.of[name], "must be one of ram_mb, cpu_core, gpu_card")
			continue
		}
		one, p := all.object(name), Physical{Multiply: 1, Enforcement: "none"}
		if one.of == nil {
			continue
		}
		if must(one, "logical_resource", asString, &p.Logical) {
			switch level := s.levelOf(p.Logical); {
			case level != "worker":
				one.t.at("logical_resource").fail(p.Logical, "%q is no resource of level worker", p.Logical)
			case used[p.Logical] != "":
				one.t.at("logical_resource").fail(p.Logical, "%q is that of %s, too", p.Logical, used[p.Logical])
			}
			used[p.Logical] = name
		}
		if get(one, "multiply_logical_by", asFloat, &p.Multiply); math.Abs(p.Multiply) < 1e-12 {
			one.t.at("multiply_logical_by").fail(p.Multiply, "must not be 0")
		}
		one.choice("enforcement", &p.Enforcement, enforcements...)
		get(one, "physical_reserve_amount", asInt, &p.Reserve)
		s.Physical[name] = p
	}
}
