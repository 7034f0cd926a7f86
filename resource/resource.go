// Package resource holds amounts of named integer resources: the capacity of a cell, the needs of
// a piece of work, the limits of a node of a job's forest.
//
// Names are free text; some have a meaning for the executor (see the constants). This package
// never changes an Amounts value: every operation returns a new one. A missing name counts as 0.
package resource

import (
	"fmt"
	"slices"
	"strings"
)

// Names that the executor enforces or the placement counts on its own.
const (
	MemoryMB   = "memory_mb"  // mebibytes of memory
	DiskMB     = "disk_mb"    // mebibytes of disk below the container's directory
	CPUMilli   = "cpu_milli"  // thousandths of a processor
	Containers = "containers" // containers, with any content
)

// Amounts maps a resource's name to a whole amount. Amounts are not negative,
// but for the result of Sub.
type Amounts map[string]int

// Names returns the names in ascending order.
func (a Amounts) Names() []string {
	names := make([]string, 0, len(a))
	for n := range a {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Add returns a + b.
func (a Amounts) Add(b Amounts) Amounts { return a.merge(b, 1) }

// Sub returns a - b; a name that is only in b has a negative result.
func (a Amounts) Sub(b Amounts) Amounts { return a.merge(b, -1) }

func (a Amounts) merge(b Amounts, sign int) Amounts {
	out := make(Amounts, len(a)+len(b))
	for n, v := range a {
		out[n] = v
	}
	for n, v := range b {
		out[n] += sign * v
	}
	return out
}

// Clone returns a copy.
func (a Amounts) Clone() Amounts { return a.merge(nil, 1) }

// Missing is one resource of which there is too little.
type Missing struct {
	Name string
	Need int
	Have int
}

// String returns "memory 512Mi needed, 300Mi free".
func (m Missing) String() string {
	return fmt.Sprintf("%s needed, %s free", Words(m.Name, m.Need), Text(m.Name, m.Have))
}

// Lacking returns the part of need that a cannot give, in order of name; it is empty if need fits
// into a.
func (a Amounts) Lacking(need Amounts) []Missing {
	var out []Missing
	for n, v := range need {
		if v > a[n] && v > 0 {
			out = append(out, Missing{Name: n, Need: v, Have: a[n]})
		}
	}
	slices.SortFunc(out, func(x, y Missing) int { return strings.Compare(x.Name, y.Name) })
	return out
}

// Fits reports whether need fits into a.
func (a Amounts) Fits(need Amounts) bool {
	for n, v := range need {
		if v > 0 && v > a[n] {
			return false
		}
	}
	return true
}

// Equal reports whether a and b hold the same amounts; a name with 0 equals a
// missing one.
func (a Amounts) Equal(b Amounts) bool {
	for n, v := range a {
		if b[n] != v {
			return false
		}
	}
	for n, v := range b {
		if a[n] != v {
			return false
		}
	}
	return true
}

// String prints "cpu_milli=100 memory_mb=64" in order of name.
func (a Amounts) String() string {
	parts := make([]string, 0, len(a))
	for _, n := range a.Names() {
		parts = append(parts, fmt.Sprintf("%s=%d", n, a[n]))
	}
	return strings.Join(parts, " ")
}
