package batch

import (
	"fmt"
	"slices"
	"strings"

	"cantina/resource"
)

// Why is one reason why a batch task does not run.
type Why struct {
	Class Class
	// Level and Node are where something is short or switched off.
	Level, Node string
	// Short is the resource of which there is too little.
	Short resource.Missing
	// Holders are batch tasks that draw on it, at most ten.
	Holders []Key
	Text    string
	// Change is the smallest change that would take this reason away.
	Change string
}

// String returns the reason and the change.
func (w Why) String() string {
	if w.Change == "" {
		return w.Text
	}
	return w.Text + "; " + w.Change
}

// Explain says why a batch task is as it is: every reason that keeps it from
// starting, none when it may start now. It returns ErrUnknownJob or
// ErrUnknownNode.
func (b *Board) Explain(k Key) ([]Why, error) {
	j, n, err := b.lookup(k)
	if err != nil {
		return nil, err
	}
	x := b.pair(j, n)
	var out []Why
	say := func(w Why) {
		w.Class = x.class
		out = append(out, w)
	}
	if b.spec.Disabled {
		say(Why{Text: "the forest is disabled"})
	}
	for _, p := range slices.Concat(j.Errors, j.problems) {
		say(Why{Text: "the job is invalid: " + p})
	}
	if j.Disabled || j.Paused {
		say(Why{Text: "the job is " + map[bool]string{true: "disabled", false: "paused"}[j.Disabled]})
	}
	switch x.class {
	case ClassAbsent:
		say(Why{Text: "the node is not in the forest"})
	case ClassRunning:
		r := b.runs[k]
		say(Why{Text: fmt.Sprintf("runs on cell %s as %s", r.cell, r.inv)})
	case ClassDone, ClassFailed:
		say(Why{Text: "ended: " + x.class.String(), Change: map[bool]string{true: "forgive it to run it again"}[x.class == ClassFailed]})
	case ClassBackoff:
		say(Why{Text: fmt.Sprintf("waits %d ms more after an error", b.dueAt(x)-b.now), Change: "forgive it to run it now"})
	case ClassBlocked:
		b.explainDependencies(j, n, say)
	case ClassAvoided, ClassDisabled:
		b.explainPlaces(j, n, say)
	case ClassReady:
		b.explainRoom(j, n, say)
	}
	return out, nil
}

func (b *Board) explainDependencies(j *job, n int32, say func(Why)) {
	for _, name := range j.DependsOn {
		d := b.jobs[name]
		switch {
		case d == nil:
			say(Why{Text: fmt.Sprintf("depends on job %q, which does not exist", name)})
		case !b.doneOn(d, j, n):
			say(Why{Text: fmt.Sprintf("depends on job %q, which is not done on this node", name)})
		}
	}
}

// explainPlaces names the switch or filter on every path of the node.
func (b *Board) explainPlaces(j *job, n int32, say func(Why)) {
	b.f.placesOf(j.level, n, func(p int32) {
		for q, level := p, j.level; q >= 0; q, level = b.f.places[q].parent, level-1 {
			at := &b.f.places[q]
			name := b.f.names[level].list[at.name]
			if !at.own {
				say(Why{Level: b.f.levels[level], Node: name, Text: fmt.Sprintf("node %s on level %s is disabled", name, b.f.levels[level])})
			}
			if !j.filters[level].pass(name, at.tags) {
				say(Why{Level: b.f.levels[level], Node: name, Text: fmt.Sprintf("the job's filter on level %s avoids node %s", b.f.levels[level], name)})
			}
		}
	})
}

// explainRoom names what is short on every path of the node, and what the shell
// was refused.
func (b *Board) explainRoom(j *job, n int32, say func(Why)) {
	if j.blocked != "" {
		say(Why{Text: j.blocked})
	}
	b.f.placesOf(j.level, n, func(p int32) {
		for q, level := p, j.level; q >= 0; q, level = b.f.places[q].parent, level-1 {
			if t := j.shut[q]; t != "" {
				say(Why{Level: b.f.levels[level], Node: b.f.names[level].list[b.f.places[q].name], Text: t})
			}
			b.explainNode(j, level, b.f.places[q].name, say)
		}
	})
}

func (b *Board) explainNode(j *job, level int, node int32, say func(Why)) {
	need := j.needs[level]
	for i, x := range need {
		left := b.f.limits[level][i] - b.f.used[level][int(node)*len(need)+i]
		if x == 0 || x <= left {
			continue
		}
		name := b.f.names[level].list[node]
		w := Why{Level: b.f.levels[level], Node: name, Short: resource.Missing{Name: b.f.resources[level][i], Need: x, Have: left}}
		w.Holders = b.holders(level, node)
		w.Text = fmt.Sprintf("%s %s: %s", w.Level, name, w.Short)
		if len(w.Holders) > 0 {
			keys := make([]string, len(w.Holders))
			for k, h := range w.Holders {
				keys[k] = h.Job + "/" + h.Node
			}
			w.Text += ", held by " + strings.Join(keys, ", ")
			w.Change = "it starts when one of them ends"
		} else {
			w.Change = fmt.Sprintf("raise the limit of %s on level %s to %d", w.Short.Name, w.Level, x)
		}
		say(w)
	}
}

// holders returns up to ten batch tasks that draw on a node, in order.
func (b *Board) holders(level int, node int32) []Key {
	var out []Key
	for k, r := range b.runs {
		if slices.ContainsFunc(r.draws, func(d draw) bool { return d.level == level && d.node == node }) {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, c Key) int { return strings.Compare(a.Job+"\x00"+a.Node, c.Job+"\x00"+c.Node) })
	return out[:min(len(out), 10)]
}
