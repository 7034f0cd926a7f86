package spec

import (
	"fmt"
	"math"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"cantina/action"
)

// command is a program with arguments, or a text for the shell.
type command struct {
	shell string
	args  []string
}

func (c *command) set() bool { return c.shell != "" || len(c.args) > 0 }

func (c *command) decode(d *decoder, at *path, n *yaml.Node) {
	switch {
	case n.Kind == yaml.SequenceNode:
		c.args = words(d, at, n)
	case isText(n) && strings.TrimSpace(n.Value) == "":
		d.problem(at, n, "must not be empty", "")
	case isText(n) && !noNUL(n.Value):
		d.meaning(at, n, "must not contain a NUL byte", "programs cannot receive it")
	case isText(n):
		c.shell = n.Value
	default:
		d.problem(at, n, "must be a list of program and arguments, or a string for the shell, not "+kindOf(n), quoteHint(n))
	}
}

func (*command) form() schema {
	return schema{words: "a command", json: map[string]any{"anyOf": []any{
		map[string]any{"type": "string", "pattern": `[^\s]`}, argvForm(),
	}}}
}

// argv is a program with arguments.
type argv []string

func (a *argv) decode(d *decoder, at *path, n *yaml.Node) {
	if n.Kind != yaml.SequenceNode {
		d.problem(at, n, "must be a list of program and arguments, not "+kindOf(n), "")
		return
	}
	*a = words(d, at, n)
}

func (*argv) form() schema { return schema{words: "a list of program and arguments", json: argvForm()} }

func argvForm() map[string]any {
	return map[string]any{"type": "array", "minItems": 1, "items": refTo(reflect.TypeFor[literal]())}
}

// words parses a non-empty list of texts whose first is a program.
func words(d *decoder, at *path, n *yaml.Node) []string {
	if len(n.Content) == 0 {
		d.problem(at, n, "must not be empty", "")
		return nil
	}
	var list []literal
	d.list(at, n, reflect.ValueOf(&list).Elem(), "")
	out := make([]string, len(list))
	for i, w := range list {
		out[i] = string(w)
	}
	if n.Content[0].Kind == yaml.ScalarNode && strings.TrimSpace(n.Content[0].Value) == "" {
		d.meaning(&path{outer: at}, n.Content[0], "the program name must not be empty", "")
	}
	return out
}

// tree is one step: a mapping with exactly one of the kinds.
type tree struct {
	place
	step
}

// step has the kinds of steps.
type step struct {
	Run          *run          `spec:"run" doc:"run a program"`
	Download     *download     `spec:"download" doc:"fetch a file"`
	Upload       *upload       `spec:"upload" doc:"send a file"`
	Serial       trees         `spec:"serial" doc:"run steps in order; stop at the first error"`
	Parallel     trees         `spec:"parallel" doc:"run steps in parallel; wait for all"`
	Codependent  trees         `spec:"codependent" doc:"run steps in parallel; the first end stops the others"`
	Try          *tree         `spec:"try" doc:"ignore errors of this step"`
	Timeout      *timeout      `spec:"timeout" doc:"stop a step after a duration"`
	EmitProgress *emitProgress `spec:"emit_progress" doc:"write log lines before and after a step"`
}

// trees is a list of steps that is set even when it is empty.
type trees []tree

func (a *tree) decode(d *decoder, at *path, n *yaml.Node) {
	var s struct {
		place
		step
	}
	before := len(d.problems.List) + d.problems.More
	d.object(at, n, reflect.ValueOf(&s).Elem())
	a.place, a.step = s.place, s.step
	if n.Kind == yaml.MappingNode && len(d.problems.List)+d.problems.More == before && len(s.keys) != 1 {
		d.problem(at, n, fmt.Sprintf("a step needs exactly one kind, not %d", len(s.keys)), "put several steps under serial")
	}
}

func (*tree) form() schema {
	f := fieldsOf(reflect.TypeFor[step]())
	var kinds []any
	for _, name := range f.names {
		kinds = append(kinds, map[string]any{
			"type": "object", "required": []any{name}, "additionalProperties": false,
			"properties": map[string]any{name: fieldSchema(f.byName[name])},
		})
	}
	return schema{words: "a step", json: map[string]any{"anyOf": kinds}}
}

type run struct {
	place
	Command   command   `spec:"command,required" doc:"program and arguments, or a string for /bin/sh -c"`
	Dir       string    `spec:"dir" default:"the container's own directory" doc:"working directory; a path with ./ is relative to the spec file"`
	Env       variables `spec:"env" doc:"environment variables; override those of the workload"`
	User      literal   `spec:"user" default:"the workload's" doc:"user name, uid or uid:gid"`
	OpenFiles int       `spec:"open_files" min:"0" default:"the cell's" doc:"maximum number of open files"`
	Quiet     bool      `spec:"suppress_output" default:"false" doc:"discard the program's output"`
}

type download struct {
	place
	From          string `spec:"from,required" minlen:"1" doc:"http, https or file URL"`
	To            string `spec:"to,required" minlen:"1" doc:"target path"`
	Unpack        bool   `spec:"unpack" default:"false" doc:"unpack a tar, tgz or zip"`
	CacheKey      string `spec:"cache_key" default:"from" doc:"key in the cell's cache"`
	SHA256        string `spec:"sha256" doc:"checksum in hexadecimal digits"`
	SHA512        string `spec:"sha512" doc:"checksum in hexadecimal digits"`
	AllowUnpinned bool   `spec:"allow_unpinned" default:"false" doc:"accept any content; otherwise a checksum is required"`
}

type upload struct {
	place
	From string `spec:"from,required" minlen:"1" doc:"file to send"`
	To   string `spec:"to,required" minlen:"1" doc:"URL for a PUT request"`
}

type timeout struct {
	place
	After  duration `spec:"after,required" doc:"maximum duration of the step"`
	Action tree     `spec:"action,required" doc:"the step"`
}

type emitProgress struct {
	place
	Action  tree   `spec:"action,required" doc:"the step"`
	Start   string `spec:"start" doc:"log line before the step"`
	Success string `spec:"success" doc:"log line after success"`
	Failure string `spec:"failure_prefix" doc:"prefix of the error in the log after a failure"`
}

// amount is a whole amount of a named resource.
type amount int

func (a *amount) decode(d *decoder, at *path, n *yaml.Node) {
	d.integer(at, n, reflect.ValueOf(a).Elem(), `min:"0"`)
}

func (*amount) form() schema {
	return schema{words: "a whole number", json: map[string]any{"type": "integer", "minimum": 0, "maximum": 1 << 31}}
}

// manual is a list of nodes, or a mapping of names to children.
type manual []node

func (m *manual) decode(d *decoder, at *path, n *yaml.Node) {
	switch n.Kind {
	case yaml.SequenceNode:
		for i, item := range n.Content {
			var x node
			at := &path{outer: at, index: i}
			if item.Kind == yaml.MappingNode {
				d.object(at, item, reflect.ValueOf(&x).Elem())
			} else {
				d.plain(at, item, reflect.ValueOf(&x.Name).Elem(), `minlen:"1"`)
				x.place = place{at: at, node: item}
			}
			*m = append(*m, x)
		}
	case yaml.MappingNode:
		for _, e := range entries[[]string](d, at, n, func(key string) string {
			if key == "" {
				return "a node name must not be empty"
			}
			return ""
		}) {
			*m = append(*m, node{Name: e.key, Children: e.value, place: place{at: e.at, node: e.node}})
		}
	default:
		d.problem(at, n, "must be a list of nodes, or a mapping of names to children, not "+kindOf(n), "")
	}
}

func (*manual) form() schema {
	return schema{words: "nodes", json: map[string]any{"anyOf": []any{
		map[string]any{"type": "array", "items": map[string]any{"anyOf": []any{
			map[string]any{"type": "string", "minLength": 1}, refTo(reflect.TypeFor[node]()),
		}}},
		mapOf(reflect.TypeFor[[]string](), `.`).json,
	}}}
}

// backoff is a list of pauses and an end.
type backoff struct {
	seconds []int
	repeat  bool
}

func (b *backoff) decode(d *decoder, at *path, n *yaml.Node) {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		d.problem(at, n, "must be a list of pauses like [15s, 30s, repeat]", "")
		return
	}
	for i, item := range n.Content {
		at := &path{outer: at, index: i}
		if isText(item) && (item.Value == "repeat" || item.Value == "fail") {
			b.repeat = item.Value == "repeat"
			if i != len(n.Content)-1 || b.repeat && i == 0 {
				d.meaning(at, item, item.Value+" must be last, after at least one pause", "")
			}
			continue
		}
		var t duration
		before := len(d.problems.List)
		d.scalar(at, item, &t)
		if len(d.problems.List) > before {
			continue
		}
		s := math.Ceil(float64(t) / 1e9)
		if t == 0 || len(b.seconds) > 0 && int(s) <= b.seconds[len(b.seconds)-1] {
			d.meaning(at, item, "each pause must be longer than the one before, in whole seconds", "")
		}
		b.seconds = append(b.seconds, int(s))
	}
}

func (*backoff) form() schema {
	return schema{words: "a list of pauses", json: map[string]any{"type": "array", "minItems": 1,
		"items": map[string]any{"anyOf": []any{
			map[string]any{"enum": []any{"repeat", "fail"}}, refTo(reflect.TypeFor[duration]()),
		}}}}
}

// parentDeath is a signal or "none".
type parentDeath int

func (p *parentDeath) read(n *yaml.Node) (string, string) {
	if n.Value == "none" && n.ShortTag() == "!!str" {
		*p = -1
		return "", ""
	}
	var s signal
	problem, hint := s.read(n)
	*p = parentDeath(s)
	return problem, hint
}

func (*parentDeath) form() schema {
	return schema{words: "the name of a signal, or none",
		json: map[string]any{"enum": append([]any{"none"}, anys(action.SignalNames())...)}}
}
