package spec

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"cantina/batch"
	"cantina/internal/text"
	"cantina/placement"
	"cantina/plan"
	"cantina/resource"
)

// levelCell is the spec file's name of batch.LevelWorker.
const levelCell = "cell"

func (b *builder) job(domain, name string, j *job, all jobIndex) plan.NamedJob {
	levels := j.levelNames()
	out := plan.NamedJob{Job: batch.Job{
		Name: name, Domain: domain, Owner: j.Owner, Forest: name, Level: j.Level,
		Priority: 1, Retries: 3, DependsOn: j.DependsOn, After: j.After, IgnoreExitCode: j.IgnoreExit,
		HostLevel: j.HostLevel, Host: j.Host,
		Stack: j.Stack, Tags: j.Placement, Labels: literals(j.CellLabels), Tolerates: j.Tolerations,
		Conditions: conditions(b, &j.place, j.CellMatch),
		Workload:   b.workload(&j.place, &j.workload, nil),
	}}
	if j.NodesOf != "" {
		out.Job.Forest = j.NodesOf
		levels = b.borrowed(name, j, all)
	} else {
		out.Forest = b.forest(name, j)
	}
	b.numbers(j, &out.Job)
	b.call(j, &out.Job)
	b.level(&j.place, "level", j.Level, levels, batch.LevelInstance)
	b.level(&j.place, "host_level", j.HostLevel, levels)
	b.resources(j, &out, levels)
	b.filters(j, &out.Job, levels)
	b.dependencies(name, j, all)
	b.shellBraces(j)
	return out
}

func (b *builder) numbers(j *job, out *batch.Job) {
	if j.Priority != nil {
		if out.Priority = *j.Priority; !(out.Priority > 0 && out.Priority <= 1e9) {
			b.field(&j.place, "priority", "must be greater than 0 and at most 1e9", "use enabled: false to switch a job off")
		}
	}
	if j.Enabled != nil {
		out.Disabled = !*j.Enabled
	}
	if j.Orphans != nil {
		out.Orphans = batch.Orphans{Kill: true, After: time.Duration(*j.Orphans)}
	}
	if j.Retries != nil {
		out.Retries = *j.Retries
	}
	if j.Backoff != nil {
		out.Backoff = batch.Backoff{Seconds: j.Backoff.seconds, Repeat: j.Backoff.repeat}
		if len(j.Backoff.seconds) == 0 {
			out.Retries = 0 // [fail]: the first error is the last
			out.Backoff = batch.Backoff{}
		}
	}
}

// maxConfig bounds the config of a job, in bytes: the kernel refuses an argument over 128 KiB.
const maxConfig = 64 << 10

// call reads how the command gets its node.
func (b *builder) call(j *job, out *batch.Job) {
	out.Call = batch.Call(j.Call.index)
	switch {
	case out.Call == batch.CallBistro && j.Command.shell != "":
		b.field(&j.place, "command", "call: bistro appends arguments and needs a list",
			"use [sh, -c, SCRIPT, sh]; $1 is the node, $2 the status pipe, $3 the JSON object")
	case out.Call == batch.CallBistro && len(j.Command.args) == 0:
		b.field(&j.place, "call", "call: bistro needs command", "")
	case out.Call != batch.CallBistro && j.Config != nil:
		b.field(&j.place, "config", "only valid with call: bistro", "")
	case j.Config != nil && len(j.Config.json) > maxConfig:
		b.field(&j.place, "config", fmt.Sprintf("%d bytes as JSON, at most %d: it is an argument of the program",
			len(j.Config.json), maxConfig), "pass the name of a file instead")
	case j.Config != nil:
		out.Config = j.Config.json
	}
}

// borrowed returns the levels of the job whose nodes are used.
func (b *builder) borrowed(name string, j *job, all jobIndex) []string {
	for _, f := range []string{"levels", "nodes", "node_order", "policy", "cell_order"} {
		if j.has(f) {
			b.field(&j.place, f, "must be set in the job named by nodes_of", "")
		}
	}
	other, ok := all.byName[j.NodesOf]
	switch {
	case !ok:
		b.field(&j.place, "nodes_of", fmt.Sprintf("no job %q in this file", text.Shorten(j.NodesOf, 60)),
			b.guess(j.NodesOf, all.names))
	case j.NodesOf == name:
		b.field(&j.place, "nodes_of", "refers to this job itself", "")
	case other.NodesOf != "":
		b.field(&j.place, "nodes_of", j.NodesOf+" has no nodes of its own", "use "+other.NodesOf)
	}
	return other.levelNames()
}

func (b *builder) forest(name string, j *job) batch.ForestSpec {
	f := batch.ForestSpec{Name: name, Levels: j.levelNames(), Instance: name, Order: batch.Order(j.NodeOrder.index),
		Policy: batch.Policy(j.Policy.index), Cells: placement.Order(j.CellOrder.index)}
	seen := map[string]bool{batch.LevelInstance: true, batch.LevelWorker: true, levelCell: true, "": true}
	for i, l := range j.Levels {
		if seen[l] {
			b.meaning(&path{outer: &path{outer: j.at, name: "levels"}, index: i}, j.keys["levels"].Content[i],
				fmt.Sprintf("%q is taken or reserved", l), "")
		}
		seen[l] = true
	}
	if len(j.Levels) > 0 && len(j.Nodes) == 0 {
		b.field(&j.place, "nodes", "a job with levels needs nodes", "")
	}
	for i := range j.Nodes {
		f.Sources = append(f.Sources, b.source(&j.Nodes[i], f.Levels))
	}
	return f
}

// levelNames are the levels of a job; nodes without a name for their level are on level node.
func (j *job) levelNames() []string {
	if len(j.Levels) == 0 && len(j.Nodes) > 0 {
		return []string{"node"}
	}
	return j.Levels
}

// sourceKinds are the fields of which a source of nodes has one.
func sourceKinds() []string { return []string{"manual", "script", "range", "file", "add_time"} }

func (b *builder) source(s *source, levels []string) batch.Source {
	kind := ""
	for _, k := range sourceKinds() {
		if !s.has(k) {
			continue
		}
		if kind != "" {
			b.meaning(s.at, s.node, "a source of nodes needs exactly one of "+oneOf(sourceKinds()), "")
			return batch.Source{Kind: batch.SourceEmpty}
		}
		kind = k
	}
	if s.has("timeout") && kind != "script" {
		b.field(&s.place, "timeout", "only valid with script", "")
	}
	if s.has("parent_level") && (kind == "manual" || kind == "file") {
		b.field(&s.place, "parent_level", "only valid with script, range and add_time", "")
	}
	switch kind {
	case "manual":
		return b.manual(s, levels)
	case "script":
		return b.script(s, levels)
	case "range":
		return b.numbered(s, levels)
	case "add_time":
		return calendars{b}.timed(s, levels)
	case "file":
		if s.File == "" {
			b.field(&s.place, "file", "must not be empty", "")
		}
		file := b.relative(&s.place, "file", s.File)
		if file != "" && !filepath.IsAbs(file) {
			b.field(&s.place, "file", fmt.Sprintf("%q is relative", text.Shorten(file, 60)),
				"use an absolute path, or ./ for the directory of this file")
		}
		return batch.Source{Kind: batch.SourceFile, File: file}
	}
	b.meaning(s.at, s.node, "a source of nodes needs exactly one of "+oneOf(sourceKinds()), "")
	return batch.Source{Kind: batch.SourceEmpty}
}

// parentLevel is the level whose nodes get children.
func (b *builder) parentLevel(s *source, levels []string) string {
	b.level(&s.place, "parent_level", s.Parent, levels, batch.LevelInstance)
	if n := len(levels); n > 0 && s.Parent == levels[n-1] {
		b.field(&s.place, "parent_level", s.Parent+" is on the last level and cannot have children", "")
	}
	return cmp.Or(s.Parent, batch.LevelInstance)
}

func (b *builder) script(s *source, levels []string) batch.Source {
	if s.has("timeout") {
		b.longer(&s.place, "timeout", s.Timeout, "remove it: the default is 30s")
	}
	out := batch.Source{
		Kind: batch.SourceScript, ParentLevel: b.parentLevel(s, levels), Script: slices.Clone([]string(s.Script)),
		Timeout: time.Duration(s.Timeout),
	}
	if len(out.Script) > 0 {
		out.Script[0] = b.relative(&s.place, "script", out.Script[0])
	}
	return out
}

// numbers reads a range of numbered nodes.
func (b *builder) numbered(s *source, levels []string) batch.Source {
	r := s.Range
	out := batch.Source{
		Kind: batch.SourceRange, ParentLevel: b.parentLevel(s, levels), First: r.First, Last: r.Last, Step: r.Step,
		Format: r.Format, Disabled: r.Enabled != nil && !*r.Enabled,
	}
	out.Format = cmp.Or(out.Format, batch.RangeFormat(s.Parent))
	switch {
	case r.Last < r.First:
		b.field(&r.place, "last", "must not be below first", "")
	case (r.Last-r.First)/max(r.Step, 1) >= batch.MaxNodes:
		b.field(&r.place, "last", fmt.Sprintf("more than %d nodes", batch.MaxNodes), "")
	case !strings.Contains(out.Format, "{i}"):
		b.field(&r.place, "format", "needs {i}, the number of the node", "")
	case s.Parent != "" && s.Parent != batch.LevelInstance && !strings.Contains(out.Format, "{parent}"):
		b.notes = append(b.notes, fmt.Sprintf("%s: the same node below each parent: it runs once; use {parent} in "+
			"format for one each", s.at))
	}
	return out
}

// manual reads listed nodes, and checks that they make a tree of the levels.
func (b *builder) manual(s *source, levels []string) batch.Source {
	first, twice := map[string]int{}, false
	for _, n := range *s.Manual {
		if line, again := first[n.Name]; again {
			twice = true
			b.meaning(n.at, n.node, fmt.Sprintf("duplicate node %q", text.Shorten(n.Name, 60)),
				fmt.Sprintf("it is in line %d, too", line))
			continue
		}
		first[n.Name] = n.node.Line
	}
	out := batch.Source{Kind: batch.SourceManual, Manual: manualNodes(*s.Manual)}
	if _, err := batch.ManualNodes(levels, out.Manual); err != nil && !twice && len(levels) > 0 {
		b.field(&s.place, "manual", reasonOf(err, batch.ErrNodes), "")
	}
	return out
}

// reasonOf is the text of an error that ends with its kind.
func reasonOf(err, kind error) string { return strings.TrimSuffix(err.Error(), ": "+kind.Error()) }

func manualNodes(m manual) []batch.ManualNode {
	var out []batch.ManualNode
	for _, n := range m {
		out = append(out, batch.ManualNode{Name: n.Name, Children: n.Children, Tags: n.Tags, Disabled: n.Enabled != nil &&
			!*n.Enabled})
	}
	return out
}

// level checks that a level exists; empty means the default.
func (b *builder) level(p *place, field, level string, levels []string, also ...string) {
	known := append(slices.Clone(levels), also...)
	if level != "" && !slices.Contains(known, level) {
		b.field(p, field, fmt.Sprintf("no level %q", text.Shorten(level, 60)), b.guess(level, known))
	}
}

func (b *builder) resources(j *job, out *plan.NamedJob, levels []string) {
	known := append(slices.Clone(levels), batch.LevelInstance, levelCell)
	takes := map[string]resource.Amounts{}
	if len(out.Job.Workload.Resources) > 0 {
		takes[batch.LevelWorker] = out.Job.Workload.Resources
	}
	limits := map[string]map[string]batch.Limit{}
	for _, l := range j.Resources {
		if !slices.Contains(known, l.key) {
			b.meaning(l.at, l.node, fmt.Sprintf("no level %q", text.Shorten(l.key, 60)), b.guess(l.key, known))
			continue
		}
		level := l.key
		if level == levelCell {
			level = batch.LevelWorker
		}
		if takes[level] == nil {
			takes[level] = resource.Amounts{}
		}
		for _, r := range l.value {
			take := 1
			if r.value.Take != nil {
				take = *r.value.Take
			}
			takes[level][r.key] = take
			b.limit(j, level, r, take, limits)
		}
	}
	if len(takes) > 0 {
		out.Job.Resources = takes
	}
	if len(limits) > 0 {
		out.Forest.Limits = limits
	}
	if j.NodesOf == "" {
		if j.CellOrder.index == int(placement.OrderBusiest) && len(limits[batch.LevelWorker]) == 0 {
			b.field(&j.place, "cell_order", "busiest needs the weight of a resource",
				"set it as resources: {cell: {NAME: {weight: 1}}}")
		}
		return
	}
	for _, level := range slices.Sorted(maps.Keys(limits)) {
		b.field(&j.place, "resources", "limits and weights on level "+level+" must be set in the job named by nodes_of",
			"use only take")
	}
}

func (b *builder) limit(j *job, level string, r entry[limit], take int, limits map[string]map[string]batch.Limit) {
	if r.value.Weight != nil && level != batch.LevelWorker {
		b.field(&r.value.place, "weight", "only valid on level cell", "")
	}
	switch {
	case level == batch.LevelWorker:
		if r.value.Weight != nil {
			if limits[level] == nil {
				limits[level] = map[string]batch.Limit{}
			}
			limits[level][r.key] = batch.Limit{Weight: *r.value.Weight}
		}
		if r.value.Limit != nil {
			b.field(&r.value.place, "limit", "cells report their own capacity; set only take", "")
		}
		if f := ownField(r.key); f != "" {
			b.meaning(r.at, r.node, "this resource has its own field", "use "+f)
		}
	case r.value.Limit == nil && j.NodesOf == "":
		b.meaning(r.at, r.node, "field limit is missing", "it is the amount that each node of the level has")
	case r.value.Limit != nil:
		if take > *r.value.Limit {
			b.field(&r.value.place, "take", "must not exceed limit, or the job could never run", "")
		}
		if limits[level] == nil {
			limits[level] = map[string]batch.Limit{}
		}
		limits[level][r.key] = batch.Limit{Limit: *r.value.Limit}
	}
}

func (b *builder) filters(j *job, out *batch.Job, levels []string) {
	known := append(slices.Clone(levels), batch.LevelInstance, levelCell)
	for _, e := range j.Filters {
		if !slices.Contains(known, e.key) {
			b.meaning(e.at, e.node, fmt.Sprintf("no level %q", text.Shorten(e.key, 60)), b.guess(e.key, known))
			continue
		}
		f := e.value
		for field, re := range map[string]string{"include_regex": f.IncludeRegex, "exclude_regex": f.ExcludeRegex} {
			if _, err := regexp.Compile(re); err != nil {
				b.field(&f.place, field, strings.TrimPrefix(err.Error(), "error parsing regexp: "), "")
			}
		}
		x := batch.Filter{
			Whitelist: f.Include, WhitelistRegex: f.IncludeRegex, Blacklist: f.Exclude, BlacklistRegex: f.ExcludeRegex,
			TagWhitelist: f.Tags,
		}
		if e.key == levelCell && len(f.Tags) > 0 {
			b.field(&f.place, "tags", "cells have no tags for filters", "use placement_tags of the job")
		}
		if f.Fraction != nil {
			if x.Fraction = *f.Fraction; x.Fraction <= 0 || x.Fraction > 1 {
				b.field(&f.place, "fraction", "must be greater than 0 and at most 1", "")
			}
		}
		level := e.key
		if level == levelCell {
			level = batch.LevelWorker
		}
		if out.Filters == nil {
			out.Filters = map[string]batch.Filter{}
		}
		out.Filters[level] = x
	}
}

// dependencies checks the dependencies within the file.
func (b *builder) dependencies(name string, j *job, all jobIndex) {
	check := func(field string, deps []string, of func(at *path, n *yaml.Node, dep string)) {
		for i, dep := range deps {
			at := &path{outer: &path{outer: j.at, name: field}, index: i}
			n := j.keys[field].Content[i]
			if _, ok := all.byName[dep]; !ok {
				b.meaning(at, n, fmt.Sprintf("no job %q in this file", text.Shorten(dep, 60)), b.guess(dep, all.names))
				continue
			}
			of(at, n, dep)
			if all.circle[name] != 0 && all.circle[name] == all.circle[dep] {
				b.meaning(at, n, "dependency cycle: "+dep+" depends on "+name, "")
			}
		}
	}
	check("depends_on", j.DependsOn, func(at *path, n *yaml.Node, dep string) {
		if forestOf(dep, all.byName[dep]) != forestOf(name, *j) {
			b.meaning(at, n, dep+" runs on other nodes", "use nodes_of to share the nodes of a job, or after")
		}
	})
	check("after", j.After, func(*path, *yaml.Node, string) {})
}

func forestOf(name string, j job) string {
	if j.NodesOf != "" {
		return j.NodesOf
	}
	return name
}

// shellBraces refuses "{}" in a text for the shell: a node's name would become
// part of the program.
func (b *builder) shellBraces(j *job) {
	if strings.Contains(j.Command.shell, "{}") || strings.Contains(j.Command.shell, "{/}") {
		b.field(&j.place, "command", "{} in a shell command would run the node's name as program text",
			`use "$CANTINA_NODE", or write command as a list`)
	}
}
