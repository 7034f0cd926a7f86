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
		i := Invocation{Term{rapid.Int64().Draw(rt, "epoch"), rapid.Int64().Draw(rt, "revision")},
			rapid.Int64().Draw(rt, "counter")}
		got, err := ParseInvocation(i.String())
		if err != nil || got != i {
			rt.Fatalf("%v: got %v, %v", i, got, err)
		}
	})
}

func TestMalformedText(t *testing.T) {
	for _, s := range []string{"", "1", "12", "a", ".1", "1.2", "a.b.c", "1.2.x", "1.x.3", "x.2.3", "1.2.3.4"} {
		if _, err := ParseInvocation(s); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// TestBelievable has both bounds of each number, from the term in force and from the clock.
func TestBelievable(t *testing.T) {
	const year, now = 366 * 24 * 3600, 1_000_000_000
	for name, c := range map[string]struct {
		t, own Term
		want   bool
	}{
		"none":                                 {Term{}, Term{}, true},
		"negative epoch":                       {Term{-1, 5}, Term{now, 5}, false},
		"negative revision":                    {Term{now, -1}, Term{now, 5}, false},
		"lower":                                {Term{3, 9}, Term{now, 5}, true},
		"a year ahead of the clock":            {Term{now + year, 5}, Term{}, true},
		"more than a year ahead of it":         {Term{now + year + 1, 5}, Term{}, false},
		"a year ahead of its own epoch":        {Term{now + 2*year, 5}, Term{now + year, 5}, true},
		"more than a year ahead of that":       {Term{now + 2*year + 1, 5}, Term{now + year, 5}, false},
		"an own epoch that lies behind":        {Term{now + year, 5}, Term{3, 5}, true},
		"all revisions of an epoch":            {Term{now, 1 << 42}, Term{}, true},
		"one more":                             {Term{now, 1<<42 + 1}, Term{}, false},
		"all of an epoch after its own":        {Term{now, 1<<42 + 7}, Term{now, 7}, true},
		"one more after its own":               {Term{now, 1<<42 + 8}, Term{now, 7}, false},
		"after an own revision that cannot be": {Term{now, 1 << 42}, Term{now, -9}, true},
	} {
		if got := Believable(c.t, c.own, now); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
