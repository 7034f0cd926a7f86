package placement

import (
	"fmt"
	"testing"

	"cantina/resource"
)

// TestShares has the used part of a total; invalid values of a cell count as nothing, or as full.
func TestShares(t *testing.T) {
	for _, c := range []struct{ used, total, want int64 }{
		{0, 100, 0}, {100, 0, 0}, {1, 0, 0}, {0, 0, 0}, {-5, 100, 0}, {5, -100, 0}, {1, 1, unit}, {50, 100, unit / 2},
		{150, 100, unit * 3 / 2},
		{800, 100, 8 * unit}, {801, 100, 8 * unit}, {1 << 62, 1, 8 * unit}, {1 << 40, 1 << 40, unit},
	} {
		if got := share(c.used, c.total); got != c.want {
			t.Errorf("share(%d, %d) = %d, want %d", c.used, c.total, got, c.want)
		}
	}
	half, all := vector{50, 50, 5, 500}, vector{100, 100, 10, 1000}
	for k, want := range map[Kind]int64{KindLRP: 3 * unit / 2, KindTask: 1024*unit + unit/2, KindBatch: 2 * unit} {
		if got := usage(k, half, all); got != want {
			t.Errorf("%v: %d, want %d", k, got, want)
		}
	}
}

// TestVectors: amounts are bounded, and resources that no cell offers are named in order.
func TestVectors(t *testing.T) {
	d := newDimensions()
	v := d.learn(resource.Amounts{resource.MemoryMB: 7, "gpu": 2, resource.DiskMB: -3})
	if got := fmt.Sprint(v, v.at(len(v)), d.amounts(v)); got != fmt.Sprint([]int64{7, 0, 0, 0, 2}, 0,
		resource.Amounts{resource.MemoryMB: 7, "gpu": 2}) {
		t.Error(got)
	}
	if v := d.learn(resource.Amounts{resource.MemoryMB: 1<<32 + 1}); v[0] != 1<<32 {
		t.Errorf("not bounded: %d", v[0])
	}
	_, unknown := d.vector(resource.Amounts{"z": 1, "a": 2, "none": 0, "gpu": 1})
	if len(unknown) != 2 || unknown[0].Name != "a" || unknown[0].Need != 2 || unknown[1].Name != "z" {
		t.Errorf("%+v", unknown)
	}
	if _, unknown := d.vector(resource.Amounts{"none": 0}); len(unknown) != 0 {
		t.Errorf("nothing is needed of it: %+v", unknown)
	}
	for i := range maxDims {
		d.intern(fmt.Sprint("r", i))
	}
	if d.intern("one more"); len(d.names) != maxDims {
		t.Errorf("%d names", len(d.names))
	}
	if i := d.index["gpu"]; i != 4 {
		t.Error("a name that is known stays so")
	}
	if v := withContainer(vector{0, 0, 0, 0}); v[dimContainers] != 1 {
		t.Error("each piece of work is a container")
	}
	if v := withContainer(vector{0, 0, 3, 0}); v[dimContainers] != 3 {
		t.Error("it has no number")
	}
}
