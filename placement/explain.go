package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cantina/internal/text"
	"cantina/resource"
)

// Explain returns why similar work gets no cell now, or nil if one has room.
func (l *Ledger) Explain(it Item) *Refusal {
	s := l.shapeOf(&it)
	if l.find(s, l.groups[it.Group]) != nil {
		return nil
	}
	return l.explain(s)
}

// reason is why a cell cannot get a shape, apart from resources.
type reason struct {
	cause  Cause
	detail string
	ok     bool // nothing does
}

// shortfall sums up the cells that are short of the same resources.
type shortfall struct {
	cells     int
	free, all []int64 // largest, by dimension
	ports     []int   // that are taken
	first     *cell   // of the cells, by name
}

// lack is the missing resources of the cells of a shortfall: dimensions, and ports.
type lack struct {
	mask  uint64
	ports string
}

// explain counts the cells by the reason why they cannot get the shape. Reasons that a class of
// cells shares are checked once.
func (l *Ledger) explain(s *shape) *Refusal {
	counts := make(map[reason]int)
	short := make(map[lack]*shortfall)
	classes := make([]*reason, len(l.classes))
	suits, could, unheard := false, false, false
	r := &Refusal{}
	for _, c := range l.cells {
		if c == nil || !c.known && !c.session {
			continue
		}
		why := s.personal(c)
		if c.known {
			if classes[c.class] == nil {
				classes[c.class] = compatibility(&l.classes[c.class].attrs, s)
			}
			amount := classes[c.class].cause == CauseOpenFiles // the last that is tested: all else suits
			if (classes[c.class].ok || amount) && s.lists(c) {
				suits = suits || c.admitted
				could = could || !amount && l.couldHold(s, c)
			}
			if why.ok {
				why = *classes[c.class]
			}
		}
		if why.ok {
			why = l.distance(s, c)
		}
		unheard = unheard || !c.known
		if !why.ok {
			counts[why]++
			continue
		}
		if c.earmarkFor != "" && r.Kept == "" {
			r.Kept = fmt.Sprintf("cell %s is reserved for %s", c.name, c.earmarkText)
		}
		l.fallShort(s, c, short)
	}
	r.Code, r.Never = NoCompatibleCells, suits && !could && !unheard
	for why, n := range counts {
		r.Classes = append(r.Classes, Class{Cause: why.cause, Cells: n, Detail: why.detail})
	}
	for of, f := range short {
		r.Code = InsufficientResources
		r.Classes = append(r.Classes, l.classOf(s, of.mask, f))
	}
	slices.SortFunc(r.Classes, func(a, b Class) int {
		return cmp.Or(cmp.Compare(a.Cause, b.Cause), cmp.Compare(b.Cells, a.Cells), strings.Compare(a.String(), b.String()))
	})
	return r
}

// compatibility is the common result of all cells of a class for a shape.
func compatibility(attrs *State, s *shape) *reason {
	free := s.constraint
	free.Host = "" // not part of a class
	cause, detail, ok := compatible(attrs, &free)
	return &reason{cause, detail, ok}
}

// personal is why one cell cannot get a shape, independent of its class.
func (s *shape) personal(c *cell) reason {
	switch {
	case !c.admitted && strings.HasPrefix(c.blocked, Drained):
		return reason{cause: CauseDraining, detail: c.blocked}
	case !c.admitted:
		return reason{cause: CauseNotAdmitted, detail: c.blocked}
	case !c.known:
		return reason{cause: CauseNotAdmitted, detail: c.reason()}
	case c.state.Draining:
		return reason{cause: CauseDraining}
	case c.state.Unavailable != "":
		return reason{cause: CauseUnavailable, detail: c.state.Unavailable}
	case s.constraint.Host != "" && c.state.Host != s.constraint.Host:
		return reason{cause: CauseHost}
	case !s.passes(c):
		return reason{cause: CauseAvoided, detail: "excluded by a filter of the job"}
	case !s.lists(c):
		return reason{cause: CauseAvoided}
	case c.resting:
		return reason{cause: CauseUnavailable, detail: c.reason()}
	}
	return reason{ok: true}
}

// passes reports whether the filter of host names lets a cell pass.
func (s *shape) passes(c *cell) bool { return s.hosts == nil || s.hosts.Pass(c.state.Host) }

// lists reports whether the request allows this cell by name and host.
func (s *shape) lists(c *cell) bool {
	return !slices.Contains(s.avoid, c.name) && s.passes(c) &&
		(s.constraint.Host == "" || c.state.Host == s.constraint.Host)
}

// fallShort adds a compatible cell to those that are short of the same resources.
func (l *Ledger) fallShort(s *shape, c *cell, short map[lack]*shortfall) {
	var mask uint64
	for _, d := range s.where {
		if l.left(c, s.kind, d) < s.need[d] {
			mask |= 1 << d
		}
	}
	busy := l.hosts.busy(s.constraint.Ports, c)
	of := lack{mask, portsKey(busy)}
	f := short[of]
	if f == nil {
		f = &shortfall{free: make([]int64, len(s.need)), all: make([]int64, len(s.need)), ports: busy, first: c}
		short[of] = f
	}
	if c.name < f.first.name {
		f.first = c
	}
	f.cells++
	for _, d := range s.where {
		f.free[d] = max(f.free[d], l.left(c, s.kind, d))
		f.all[d] = max(f.all[d], c.capacity.at(d))
	}
}

func (l *Ledger) classOf(s *shape, mask uint64, f *shortfall) Class {
	cl := Class{Cause: CauseResources, Cells: f.cells}
	for _, d := range s.where {
		if mask&(1<<d) != 0 {
			cl.Short = append(cl.Short, Shortage{Name: l.dims.names[d], Need: int(s.need[d]), LargestFree: int(f.free[d]),
				LargestAll: int(f.all[d])})
		}
	}
	cl.Short = append(cl.Short, l.hosts.shortages(f)...)
	for _, m := range s.unknown {
		cl.Short = append(cl.Short, Shortage{Name: m.Name, Need: m.Need})
	}
	slices.SortFunc(cl.Short, func(a, b Shortage) int { return strings.Compare(a.Name, b.Name) })
	return cl
}

// couldHold reports whether an empty cell would have room, without the part reserved for batch.
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

// String returns "insufficient resources: 312 cells: other stack; 40 cells: memory 512Mi needed,
// largest free 300Mi".
func (r *Refusal) String() string {
	parts := make([]string, 0, len(r.Classes))
	for i := range r.Classes {
		parts = append(parts, r.Classes[i].String())
	}
	if len(parts) == 0 {
		parts = append(parts, "no cells registered")
	}
	if r.Kept != "" {
		parts = append(parts, r.Kept)
	}
	return r.Code.String() + ": " + strings.Join(parts, "; ")
}

// String returns "40 cells: memory 512Mi needed, largest free 300Mi".
func (c *Class) String() string {
	return fmt.Sprintf("%s: %s", text.Count(c.Cells, "cell"), c.why())
}

func (c *Class) why() string {
	switch c.Cause {
	case CauseNotAdmitted, CauseUnavailable, CauseTags, CauseOpenFiles, CauseIsolation, CauseVolumes, CauseLabels,
		CauseLimit, CauseApart:
		return c.Detail
	case CauseDraining:
		return cmp.Or(c.Detail, "evacuating")
	case CauseHost:
		return "other host"
	case CauseAvoided:
		return cmp.Or(c.Detail, "not asked for")
	case CauseStack:
		return "other stack"
	case CauseTaint:
		return "taint " + c.Detail
	case CauseResources:
		if len(c.Short) == 0 { // it refused this work recently
			return "has room; retrying soon"
		}
		return shortages(c.Short)
	}
	return "unknown cause"
}

func shortages(list []Shortage) string {
	parts := make([]string, len(list))
	for i, s := range list {
		parts[i] = fmt.Sprintf("%s needed, largest free %s", resource.Words(s.Name, s.Need),
			resource.Text(s.Name, s.LargestFree))
		if s.LargestAll < s.Need {
			parts[i] += fmt.Sprintf(" (largest cell %s)", resource.Text(s.Name, s.LargestAll))
		}
		if s.Holder != "" {
			parts[i] += " (" + s.Holder + " has it)"
		}
	}
	return strings.Join(parts, ", ")
}

// Missing returns the resources that are short on every compatible cell, as need and largest free:
// an explanation offers them as the cheapest change.
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
	return &Refusal{Code: InsufficientResources, Cell: cell,
		Classes: []Class{{Cause: CauseUnavailable, Cells: 1, Detail: cell + " refused: " + reason}}}
}
