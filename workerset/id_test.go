package workerset

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestEarlierOnTheCircle has the vectors of the version comparator.
func TestEarlierOnTheCircle(t *testing.T) {
	const half = uint64(1) << 63
	for _, c := range []struct {
		a, b uint64
		want bool
	}{
		{0, 0, false}, {1, 0, false}, {half - 1, 0, false}, {half + 1, 0, true}, {math.MaxUint64, 0, true},
		{0, 1, true}, {half, 1, false}, {half + 2, 1, true}, {math.MaxUint64, half - 2, true},
		{half - 3, half - 2, true}, {math.MaxUint64 - 3, half - 2, false}, {math.MaxUint64 - 2, half - 2, false},
	} {
		if got, err := Earlier(c.a, c.b); err != nil || got != c.want {
			t.Errorf("Earlier(%d, %d) = %v, %v", c.a, c.b, got, err)
		}
	}
	for _, c := range [][2]uint64{{half, 0}, {half - 1, math.MaxUint64}, {0, half}} {
		if got, err := Earlier(c[0], c[1]); got || !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d and %d are half the circle apart: %v", c[0], c[1], err)
		}
	}
}

// TestHashIsASet: order does not matter, removing is the inverse of adding, and
// the sums wrap around.
func TestHashIsASet(t *testing.T) {
	ab, ba := Hash{}.Add("a").Add("b"), Hash{}.Add("b").Add("a")
	if ab != ba || ab.Count != 2 || ab == (Hash{}.Add("a").Add("c")) {
		t.Fatal("a hash of a set")
	}
	onlyB, err := ab.Remove("a")
	if err != nil || onlyB != (Hash{}.Add("b")) {
		t.Fatalf("%+v %v", onlyB, err)
	}
	if none, err := onlyB.Remove("b"); err != nil || none != (Hash{}) {
		t.Fatalf("%+v %v", none, err)
	}
	if _, err := (Hash{}).Remove("a"); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("removing from the empty set: %v", err)
	}
	top := Hash{Count: 1, Sum1: math.MaxUint64}
	if h := top.Add("x"); h.Sum1 >= top.Sum1 {
		t.Fatal("sums wrap")
	}
}

// TestHashOfEveryVersion: the hash that a leader of an earlier version made is compared with one of
// this version.
func TestHashOfEveryVersion(t *testing.T) {
	want := Hash{Count: 2, Sum1: 0x8b9045dea90ccfb1, Xor1: 0x646f35de46c22f2d, Sum2: 0xce08f97608559e18,
		Xor2: 0xc9f48565f7025d14}
	if got := (Hash{}).Add("w1").Add("w2"); got != want {
		t.Errorf("%#v, want %#v", got, want)
	}
}

func TestHashOfAnyOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringN(1, 8, 8), 1, 12, rapid.ID).Draw(rt, "procs")
		out := rapid.Permutation(names).Draw(rt, "order")
		h := Hash{}
		for _, n := range names {
			h = h.Add(n)
		}
		for _, n := range out {
			var err error
			if h, err = h.Remove(n); err != nil {
				rt.Fatal(err)
			}
		}
		if h != (Hash{}) {
			rt.Fatalf("%+v", h)
		}
	})
}

func TestCompareOrdersEveryField(t *testing.T) {
	base := ID{Version: 5, Hash: Hash{1, 2, 3, 4, 5}}
	for _, bigger := range []ID{{Version: 6, Hash: base.Hash}, {Version: 5, Hash: Hash{2, 2, 3, 4, 5}},
		{Version: 5, Hash: Hash{1, 2, 3, 4, 6}}} {
		if base.Compare(bigger) >= 0 || bigger.Compare(base) <= 0 {
			t.Errorf("%+v", bigger)
		}
	}
	if base.Compare(base) != 0 || base.IsZero() || !(ID{}).IsZero() {
		t.Fatal("equality")
	}
}
