package placement

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"cantina/action"
)

// class is the set of cells that no constraint can distinguish: same zone, stacks, tags, labels,
// taints, volumes and open files. Capacity is not part of it.
type class struct {
	key   string
	attrs State // of any member; only the attributes that make the class
	// values has the value of each tracked label (domains), the zone first.
	values []int
	slots  []int32
	spare  []int
	live   int
	// largest capacity that any member ever had, per scored dimension: the bound for
	// the least rise.
	largest vector
	trees   [len(weights)]tree
	ordered map[string]*tree // of other orders than OrderSpread
}

// classKey encodes the attributes that constraints use.
func classKey(s *State) string {
	var b strings.Builder
	b.WriteString(strconv.Quote(s.Zone))
	for _, list := range [][]string{s.Stacks, s.RequiredTags, s.OptionalTags, s.Taints, s.Volumes} {
		b.WriteByte('|')
		writeList(&b, list)
	}
	b.WriteByte('|')
	writeMap(&b, s.Labels)
	b.WriteByte('|')
	b.WriteString(strconv.Itoa(s.OpenFiles))
	b.WriteByte('|')
	writeMap(&b, s.Withdrawn)
	return b.String()
}

func writeList(b *strings.Builder, list []string) {
	if len(list) == 0 {
		return
	}
	list = slices.Clone(list)
	slices.Sort(list)
	for _, x := range slices.Compact(list) {
		b.WriteString(strconv.Quote(x))
	}
}

func writeMap(b *strings.Builder, m map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		b.WriteString(strconv.Quote(k))
		b.WriteString(strconv.Quote(m[k]))
	}
}

// compatible reports whether cells with these attributes may get work with this constraint; if
// not, the first cause and its detail.
func compatible(s *State, c *Constraint) (Cause, string, bool) {
	if c.Host != "" && s.Host != c.Host {
		return CauseHost, "", false
	}
	if c.Stack != "" && !slices.Contains(s.Stacks, c.Stack) {
		return CauseStack, "", false
	}
	if d := tagMismatch(s, c.Tags); d != "" {
		return CauseTags, d, false
	}
	for _, k := range slices.Sorted(maps.Keys(c.Labels)) {
		if v, ok := s.Labels[k]; !ok || v != c.Labels[k] {
			return CauseLabels, "label " + k + "=" + c.Labels[k] + " missing", false
		}
	}
	for i := range c.Conditions {
		x := &c.Conditions[i]
		if v, has := s.label(x.Name); !x.Holds(v, has) {
			return CauseLabels, x.String() + " does not hold", false // without the value: each cell may have another
		}
	}
	for _, t := range s.Taints {
		if !slices.Contains(c.Tolerates, t) {
			return CauseTaint, t, false
		}
	}
	for _, kind := range c.Isolation {
		if why, withdrawn := s.Withdrawn[kind]; withdrawn {
			return CauseIsolation, fmt.Sprintf("isolation %s is unavailable: %s", kind, why), false
		}
	}
	for _, path := range c.Volumes {
		if !action.VolumeAllowed(s.Volumes, path) {
			return CauseVolumes, fmt.Sprintf("volume %s needed, the cell allows %s", path, allowed(s.Volumes)), false
		}
	}
	if s.OpenFiles > 0 && c.OpenFiles > s.OpenFiles {
		return CauseOpenFiles, fmt.Sprintf("open_files %d needed, the cell allows %d", c.OpenFiles, s.OpenFiles), false
	}
	return 0, "", true
}

// allowed lists the directories that a cell allows.
func allowed(dirs []string) string {
	const most = 3
	switch {
	case len(dirs) == 0:
		return "none"
	case len(dirs) > most:
		return fmt.Sprintf("%s and %d more", strings.Join(dirs[:most], ", "), len(dirs)-most)
	}
	return strings.Join(dirs, ", ")
}

// tagMismatch describes a violation of the rule required ⊆ wanted ⊆ required ∪ optional; empty =
// none.
func tagMismatch(s *State, wanted []string) string {
	for _, t := range s.RequiredTags {
		if !slices.Contains(wanted, t) {
			return "only for work with tag " + strconv.Quote(t)
		}
	}
	for _, t := range wanted {
		if !slices.Contains(s.RequiredTags, t) && !slices.Contains(s.OptionalTags, t) {
			return "tag " + strconv.Quote(t) + " not offered"
		}
	}
	return ""
}

// join puts a cell into a class and returns its slot.
func (cl *class) join(cell int32) int {
	cl.live++
	if n := len(cl.spare); n > 0 {
		slot := cl.spare[n-1]
		cl.spare = cl.spare[:n-1]
		cl.slots[slot] = cell
		return slot
	}
	cl.slots = append(cl.slots, cell)
	return len(cl.slots) - 1
}

func (cl *class) leave(slot int) {
	cl.live--
	cl.slots[slot] = -1
	cl.spare = append(cl.spare, slot)
}

func (cl *class) mark(slot int) {
	for k := range cl.trees {
		cl.trees[k].mark(slot)
	}
	for _, t := range cl.ordered {
		t.mark(slot)
	}
}

// maxOrdered bounds the trees of other orders; they are dropped when there are more.
const maxOrdered = 16

// tree returns the index for the kind and the order of a shape.
func (cl *class) tree(s *shape) *tree {
	if s.order == "" {
		return &cl.trees[s.kind]
	}
	t := cl.ordered[s.order]
	if t == nil {
		if cl.ordered == nil || len(cl.ordered) >= maxOrdered {
			cl.ordered = make(map[string]*tree)
		}
		t = &tree{}
		cl.ordered[s.order] = t
	}
	return t
}
