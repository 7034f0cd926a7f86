package batch

import (
	"cmp"
	"fmt"
	"slices"
)

// Group is a node above the level at which a job's batch tasks run, and how many tasks of each state are below it.
type Group struct {
	Node  string
	Level string
	Progress
}

// progressOf counts the tasks of each class.
func progressOf(c *[classes]int) Progress {
	p := Progress{
		Done: c[ClassDone], Failed: c[ClassFailed], Running: c[ClassRunning], Ready: c[ClassReady], Backoff: c[ClassBackoff],
		Blocked: c[ClassBlocked], Stranded: c[ClassStranded], Avoided: c[ClassAvoided], Disabled: c[ClassDisabled],
	}
	p.Total = p.Done + p.Failed + p.Running + p.Ready + p.Backoff + p.Blocked + p.Stranded
	return p
}

// Groups counts the tasks of a job below each node of one level: the level after that of the node below or, without
// one, the highest of the spec. Nodes with failed tasks come first, then those with stranded ones, each in order of
// name. If tasks run on that level, there are none. A task of a node with several parents counts below each.
// The cost is in proportion to the nodes of the job. The error is ErrUnknownJob or ErrUnknownNode.
func (js *jobs) Groups(name, below string) ([]Group, error) {
	j := js.named[name]
	if j == nil {
		return nil, fmt.Errorf("job %q: %w", name, ErrUnknownJob)
	}
	level, under := 1, int32(-1)
	if below != "" {
		at := slices.IndexFunc(js.f.names[:j.level+1], func(n names) bool { _, ok := n.index[below]; return ok })
		if at < 0 {
			return nil, fmt.Errorf("job %q has no node %q: %w", name, below, ErrUnknownNode)
		}
		level, under = at+1, js.f.names[at].index[below]
	}
	if level >= j.level {
		return nil, nil
	}
	list := js.f.names[level].list
	counts := make([][classes]int, len(list))
	for n := range j.records {
		class := j.records[n].class
		if class == ClassAbsent {
			continue
		}
		js.f.placesOf(j.level, int32(n), func(p int32) {
			for range j.level - level {
				p = js.f.places[p].parent
			}
			if under < 0 || js.f.places[js.f.places[p].parent].name == under {
				counts[js.f.places[p].name][class]++
			}
		})
	}
	var out []Group
	for n := range counts {
		if counts[n] != [classes]int{} {
			out = append(out, Group{Node: list[n], Level: js.f.levels[level], Progress: progressOf(&counts[n])})
		}
	}
	slices.SortFunc(out, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Failed, a.Failed), cmp.Compare(b.Stranded, a.Stranded), cmp.Compare(a.Node, b.Node))
	})
	return out, nil
}
