package placement

import (
	"cantina/resource"
)

// The dimensions used by scores are first in every vector.
const (
	dimMemory = iota
	dimDisk
	dimContainers
	dimCPU
	scored // how many dimensions a score may look at
)

// maxDims limits the resource names of the ledger; names beyond it count as offered by no cell.
const maxDims = 64

// maxAmount limits one amount, so that sums of the cells' claims never overflow.
const maxAmount = 1 << 32

// vector holds amounts by dimension. It may be shorter than the number of known dimensions;
// missing ones are 0.
type vector []int64

func (v vector) at(i int) int64 {
	if i < len(v) {
		return v[i]
	}
	return 0
}

// dimensions maps resource names to places in vectors; it only grows.
type dimensions struct {
	names []string
	index map[string]int
}

func newDimensions() dimensions {
	d := dimensions{index: make(map[string]int)}
	for _, n := range []string{resource.MemoryMB, resource.DiskMB, resource.Containers, resource.CPUMilli} {
		d.intern(n)
	}
	return d
}

// intern learns a name if there is room.
func (d *dimensions) intern(name string) {
	if _, ok := d.index[name]; ok || len(d.names) >= maxDims {
		return
	}
	d.index[name] = len(d.names)
	d.names = append(d.names, name)
}

// learn interns all names of a and returns its vector; amounts are clamped to
// [0, maxAmount].
func (d *dimensions) learn(a resource.Amounts) vector {
	for _, n := range a.Names() {
		d.intern(n)
	}
	v, _ := d.vector(a)
	return v
}

// vector returns the vector of a without adding names, and the amounts in a of unknown resources,
// in order of name.
func (d *dimensions) vector(a resource.Amounts) (vector, []resource.Missing) {
	v := make(vector, len(d.names))
	var unknown []resource.Missing
	for n, x := range a {
		if i, ok := d.index[n]; ok {
			v[i] = min(max(int64(x), 0), maxAmount)
		} else if x > 0 {
			unknown = append(unknown, resource.Missing{Name: n, Need: x})
		}
	}
	if len(unknown) > 1 {
		unknown = resource.Amounts{}.Lacking(asAmounts(unknown))
	}
	return v, unknown
}

func asAmounts(m []resource.Missing) resource.Amounts {
	a := make(resource.Amounts, len(m))
	for _, x := range m {
		a[x.Name] = x.Need
	}
	return a
}

// amounts is the inverse of vector; zeros are left out.
func (d *dimensions) amounts(v vector) resource.Amounts {
	a := make(resource.Amounts)
	for i, x := range v {
		if x != 0 {
			a[d.names[i]] = int(x)
		}
	}
	return a
}

// withContainer adds the one container that every piece of work takes.
func withContainer(v vector) vector {
	v[dimContainers] = max(v[dimContainers], 1)
	return v
}
