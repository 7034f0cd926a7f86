package fence

import (
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func TestOrder(t *testing.T) {
	low, high := Term{1, 9}, Term{2, 1}
	if !low.Less(high) || high.Less(low) || low.Less(low) {
		t.Fatal("the epoch rules, then the revision")
	}
	if (Invocation{low, 99}).Compare(Invocation{high, 1}) >= 0 || (Invocation{high, 1}).Compare(Invocation{high, 2}) >= 0 {
		t.Fatal("the term rules, then the counter")
	}
	if !(Term{}).IsZero() || !(Invocation{}).IsZero() || low.IsZero() {
		t.Fatal("zero means none")
	}
}

func TestTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		i := Invocation{Term{rapid.Int64().Draw(rt, "epoch"), rapid.Int64().Draw(rt, "revision")}, rapid.Int64().Draw(rt, "counter")}
		got, err := ParseInvocation(i.String())
		if err != nil || got != i {
			rt.Fatalf("%v: got %v, %v", i, got, err)
		}
	})
}

func TestMalformedText(t *testing.T) {
	for _, s := range []string{"", "1", "1.2", "a.b.c", "1.2.x", "1.x.3", "x.2.3", "1.2.3.4"} {
		if _, err := ParseInvocation(s); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v", s, err)
		}
	}
}
