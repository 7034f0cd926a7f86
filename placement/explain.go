package placement

import (
	"fmt"
	"slices"
	"strings"

	"cantina/resource"
)

// Explain says why work like this gets no cell now, or nil when one has room.
func (l *Ledger) Explain(it Item) *Refusal {
	s := l.shape(it.Kind, it.Need, &it.Constraint, it.Avoid, nil)
	if l.find(s, l.groups[it.Group]) != nil {
		return nil
	}
	return l.explain(s)
}

// explain counts the cells by what keeps the shape away.
func (l *Ledger) explain(s *shape) *Refusal {
	type key struct {
		cause  Cause
		detail string
	}
	counts := make(map[key]*Class)
	r := &Refusal{Code: NoCompatibleCells}
	known, could := 0, 0
	for _, c := range l.cells {
		if c == nil || !c.known && len(c.holds) > 0 && c.process == "" {
			continue
		}
		cause, detail, short := l.cause(s, c)
		if c.known {
			known++
			if l.allowed(s, c) && l.couldHold(s, c) {
				could++
			}
		}
		if cause == CauseResources {
			r.Code = InsufficientResources
		}
		k := key{cause, detail}
		cl := counts[k]
		if cl == nil {
			cl = &Class{Cause: cause, Detail: detail}
			counts[k] = cl
		}
		cl.Cells++
		cl.Short = widen(cl.Short, short)
	}
	r.Never = known > 0 && could == 0
	for _, cl := range counts {
		if cl.Cause == CauseResources {
			cl.Detail = ""
		}
		r.Classes = append(r.Classes, *cl)
	}
	slices.SortFunc(r.Classes, func(a, b Class) int {
		if a.Cause != b.Cause {
			return int(a.Cause) - int(b.Cause)
		}
		if a.Cells != b.Cells {
			return b.Cells - a.Cells
		}
		return strings.Compare(a.String(), b.String())
	})
	return r
}

// cause is the first reason why a cell does not get the shape; for resources the
// detail is the list of what is short, so that cells short of the same are one
// class.
func (l *Ledger) cause(s *shape, c *cell) (Cause, string, []Shortage) {
	switch {
	case !c.admitted:
		return CauseNotAdmitted, c.blocked, nil
	case !c.known:
		return CauseNotAdmitted, c.reason(), nil
	case c.state.Evacuating:
		return CauseEvacuating, "", nil
	case c.state.Unavailable != "":
		return CauseUnavailable, c.state.Unavailable, nil
	case !slices.Contains(s.among, c.name) && len(s.among) > 0 || slices.Contains(s.avoid, c.name):
		return CauseAvoided, "", nil
	}
	if cause, detail, ok := compatible(&c.state, &s.constraint); !ok {
		return cause, detail, nil
	}
	short := l.short(s, c)
	names := make([]string, len(short))
	for i := range short {
		names[i] = short[i].Name
	}
	if len(short) == 0 && c.resting {
		return CauseUnavailable, c.reason(), nil
	}
	return CauseResources, strings.Join(names, ","), short
}

func (l *Ledger) short(s *shape, c *cell) []Shortage {
	var out []Shortage
	for _, d := range s.where {
		if left := l.left(c, s.kind, d); left < s.need[d] {
			out = append(out, Shortage{Name: l.dims.names[d], Need: int(s.need[d]), LargestFree: int(max(left, 0)), LargestAll: int(c.capacity.at(d))})
		}
	}
	for _, m := range s.unknown {
		out = append(out, Shortage{Name: m.Name, Need: m.Need})
	}
	slices.SortFunc(out, func(a, b Shortage) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// couldHold reports whether an empty cell would have room, leaving to batch what
// is batch's.
func (l *Ledger) couldHold(s *shape, c *cell) bool {
	if len(s.unknown) > 0 {
		return false
	}
	for _, d := range s.where {
		all := c.capacity.at(d)
		if s.kind != KindBatch {
			all -= all * int64(l.cfg.BatchReserve) / 100
		}
		if all < s.need[d] {
			return false
		}
	}
	return true
}

// widen keeps the largest free amounts of two lists with the same names.
func widen(a, b []Shortage) []Shortage {
	if a == nil {
		return b
	}
	for i := range b {
		a[i].LargestFree = max(a[i].LargestFree, b[i].LargestFree)
		a[i].LargestAll = max(a[i].LargestAll, b[i].LargestAll)
	}
	return a
}

// String says "insufficient resources: 312 cells: other stack; 40 cells: memory_mb
// 512 needed, largest free 300".
func (r *Refusal) String() string {
	parts := make([]string, 0, len(r.Classes))
	for i := range r.Classes {
		parts = append(parts, r.Classes[i].String())
	}
	if len(parts) == 0 {
		parts = append(parts, "no cell is known")
	}
	return r.Code.String() + ": " + strings.Join(parts, "; ")
}

// String says "40 cells: memory_mb 512 needed, largest free 300".
func (c *Class) String() string {
	return fmt.Sprintf("%d %s: %s", c.Cells, plural(c.Cells, "cell", "cells"), c.why())
}

func (c *Class) why() string {
	switch c.Cause {
	case CauseNotAdmitted, CauseUnavailable, CauseTags:
		return c.Detail
	case CauseEvacuating:
		return "evacuating"
	case CauseHost:
		return "other host"
	case CauseAvoided:
		return "not asked for"
	case CauseStack:
		return "other stack"
	case CauseLabels:
		return "label " + c.Detail + " missing"
	case CauseTaint:
		return "taint " + c.Detail
	case CauseResources:
		return shortages(c.Short)
	}
	return "unknown cause"
}

func shortages(list []Shortage) string {
	parts := make([]string, len(list))
	for i, s := range list {
		parts[i] = fmt.Sprintf("%s %d needed, largest free %d", s.Name, s.Need, s.LargestFree)
		if s.LargestAll < s.Need {
			parts[i] += fmt.Sprintf(" (largest cell %d)", s.LargestAll)
		}
	}
	return strings.Join(parts, ", ")
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Missing returns what is short on every cell that is compatible, as need and
// largest free: what an explanation offers as the cheapest change.
func (r *Refusal) Missing() []resource.Missing {
	var out []resource.Missing
	for i := range r.Classes {
		for _, s := range r.Classes[i].Short {
			at := slices.IndexFunc(out, func(m resource.Missing) bool { return m.Name == s.Name })
			if at < 0 {
				out = append(out, resource.Missing{Name: s.Name, Need: s.Need, Have: s.LargestFree})
				continue
			}
			out[at].Have = max(out[at].Have, s.LargestFree)
		}
	}
	return out
}

// RefusedByCell is the refusal of an item that was placed on a cell which did not
// take it.
func RefusedByCell(cell, reason string) *Refusal {
	if reason == "" {
		reason = "no reason given"
	}
	return &Refusal{Code: InsufficientResources, Classes: []Class{{Cause: CauseUnavailable, Cells: 1, Detail: cell + " refused: " + reason}}}
}
