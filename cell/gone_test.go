package cell

import "testing"

// TestRemovedContainersAreForgotten: the event of a deletion may be lost. So a poll drops the records of missing
// containers, but not of those that are about to be made.
func TestRemovedContainersAreForgotten(t *testing.T) {
	k := &containers{plans: newTable[plan](), endReasons: newTable[string](), unknown: newTable[string]()}
	put := func(id string) {
		k.plans.put(id, plan{})
		k.endReasons.put(id, "for the test")
		k.unknown.put(id, "for the test")
	}
	put("gone")
	put("here")
	here := map[string]bool{"here": true}
	k.keep(here)
	put("soon") // its container is made after the second look
	k.keep(here)
	here["soon"] = true
	k.keep(here)
	k.keep(here)
	for name, m := range map[string]map[string]string{"end reasons": k.endReasons.m, "unknown": k.unknown.m} {
		if len(m) != 2 || m["here"] == "" || m["soon"] == "" {
			t.Errorf("%s: %v", name, m)
		}
	}
	if _, ok := k.plans.get("soon"); !ok || len(k.plans.m) != 2 || len(k.plans.absent) != 0 {
		t.Errorf("plans: %v, absent: %v", k.plans.m, k.plans.absent)
	}
}
