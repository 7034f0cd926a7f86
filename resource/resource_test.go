package resource

import (
	"testing"

	"pgregory.net/rapid"
)

func draw(rt *rapid.T, label string) Amounts {
	return rapid.MapOf(rapid.SampledFrom([]string{MemoryMB, DiskMB, CPUMilli, Containers, "gpu"}),
		rapid.IntRange(0, 50)).Draw(rt, label)
}

func TestFitsAgreesWithLacking(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		have, need := Amounts(draw(rt, "have")), Amounts(draw(rt, "need"))
		if have.Fits(need) != (len(have.Lacking(need)) == 0) {
			rt.Fatalf("have %v need %v: fits %v, lacking %v", have, need, have.Fits(need), have.Lacking(need))
		}
	})
}

func TestAddSubAreInverse(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a, b := Amounts(draw(rt, "a")), Amounts(draw(rt, "b"))
		before := a.Clone()
		if got := a.Add(b).Sub(b); !got.Equal(a) {
			rt.Fatalf("%v + %v - itself = %v", a, b, got)
		}
		if !a.Equal(before) {
			rt.Fatalf("operand changed: %v, was %v", a, before)
		}
	})
}

func TestText(t *testing.T) {
	have := Amounts{MemoryMB: 300, "gpu": 1}
	lack := have.Lacking(Amounts{MemoryMB: 512, "gpu": 1, DiskMB: 1})
	if len(lack) != 2 || lack[0].String() != "disk 1Mi needed, 0 free" ||
		lack[1].String() != "memory 512Mi needed, 300Mi free" {
		t.Fatalf("got %v", lack)
	}
	if got := have.String(); got != "gpu=1 memory_mb=300" {
		t.Fatalf("got %q", got)
	}
}
