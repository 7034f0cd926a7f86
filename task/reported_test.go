package task

import "testing"

// TestReportedRunsOfAnAppliedTask: they are its name, and its name with a number. Other tasks whose guids begin like
// it are none.
func TestReportedRunsOfAnAppliedTask(t *testing.T) {
	for want, guids := range map[string][]string{
		"":        {"d.q10", "d.q1.x", "d.q1.2.3", "d.q1.-2", "d.q", "e.q1"},
		"d.q1":    {"d.q1.2", "d.q1"},
		"d.q1.12": {"d.q1.x", "d.q1.12", "d.q1.7x", "d.q1.3.2"},
		"d.q1.2":  {"d.q1.3", "d.q1.2"},
	} {
		var r Reported
		if got := r.Applied("d.q1"); got != "" {
			t.Errorf("empty: %q", got)
		}
		for _, g := range guids {
			r.Add(g, Found{UID: g})
		}
		if got := r.Applied("d.q1"); got != want {
			t.Errorf("%v: %q, want %q", guids, got, want)
		}
	}
}
