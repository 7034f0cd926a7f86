package draw

import (
	"testing"
	"time"
)

// TestEveryValueIsDrawn, and the same ones of the same seed.
func TestEveryValueIsDrawn(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	a, b := From(1, 2, now), From(1, 2, now)
	flags, moments, ones := map[bool]int{}, map[time.Time]int{}, map[string]int{}
	for range 3000 {
		flag, moment, one := a.Flag(), a.Moment(), One(&a, "a", "b", "b")
		if flag != b.Flag() || moment != b.Moment() || one != One(&b, "a", "b", "b") {
			t.Fatal("the same seed gives other values")
		}
		flags[flag]++
		moments[moment]++
		ones[one]++
	}
	if n := flags[true]; n < 900 || n > 1100 {
		t.Errorf("true %d times of 3000", n)
	}
	if n := ones["a"]; n < 900 || n > 1100 || len(ones) != 2 {
		t.Errorf("%v", ones)
	}
	if len(moments) != 6 || moments[now] == 0 || moments[time.Time{}] == 0 {
		t.Errorf("%v", moments)
	}
}
