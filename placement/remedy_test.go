package placement

import (
	"strings"
	"testing"

	"cantina/resource"
)

// TestEveryRefusalHasARemedy: each cause has a remedy, except those that pass by themselves.
func TestEveryRefusalHasARemedy(t *testing.T) {
	short := func(s ...Shortage) *Refusal {
		return &Refusal{Classes: []Class{{Cause: CauseTaint, Cells: 1}, {Cause: CauseResources, Cells: 1, Short: s}}}
	}
	memory := Shortage{Name: resource.MemoryMB, Need: 921600, LargestFree: 361, LargestAll: 24105}
	for name, c := range map[string]struct {
		r    *Refusal
		want string
	}{
		"no cell":   {&Refusal{}, "start a cell: cantina cell"},
		"refused":   {RefusedByCell("c", "why"), ""},
		"too large": {short(memory), "ask for memory 361Mi at most, or add a cell with memory 900Gi free"},
		"full": {short(Shortage{Name: resource.CPUMilli, Need: 500, LargestFree: 250, LargestAll: 2000}),
			"ask for cpu 250m at most, or end other work, or add a cell with cpu 500m free"},
		"has room again": {short(), ""},
		"a port": {short(Shortage{Name: resource.Port(80), Need: 1, LargestAll: 1}),
			"end other work, or add a cell with port 80 free"},
		"nothing free": {short(Shortage{Name: "gpu", Need: 1, LargestAll: 1}),
			"end other work, or add a cell with gpu 1 free"},
		"unknown": {short(Shortage{Name: "gpu", Need: 1}), "add a cell with gpu 1 free"},
		"two":     {short(memory, Shortage{Name: "gpu", Need: 1, LargestAll: 1}), "add a cell with memory 900Gi, gpu 1 free"},
	} {
		if got := c.r.Remedy(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	for cause, part := range map[Cause]string{CauseNotAdmitted: "cantina cells", CauseUnavailable: "cantina cells",
		CauseDraining: "cantina undrain",
		CauseHost:     "a cell that matches", CauseStack: "a cell that matches", CauseTags: "a cell that matches",
		CauseLabels: "a cell that matches", CauseTaint: "a cell that matches", CauseOpenFiles: "open files",
		CauseVolumes: "cantina cell --volumes", CauseLimit: "another value", CauseApart: "remove apart_from"} {
		if got := (&Refusal{Classes: []Class{{Cause: CauseAvoided},
			{Cause: cause, Cells: 2}}}).Remedy(); !strings.Contains(got, part) {
			t.Errorf("cause %d: %q", cause, got)
		}
	}
	if got := (&Refusal{Classes: []Class{{Cause: CauseAvoided}}}).Remedy(); got != "" {
		t.Errorf("avoided: %q", got)
	}
}

// TestADrainedCellIsUndrained: while an operator drains the only cell, the drain is the cause, before and after the
// cell has reported it. The end of the drain is the remedy.
func TestADrainedCellIsUndrained(t *testing.T) {
	l := NewLedger(Config{})
	l.Admit("a", "p", Drained+"kernel")
	for _, reported := range []bool{false, true} {
		room := resource.Amounts{resource.Containers: 1}
		l.Push(State{Cell: "a", Process: "p", Version: 1, Draining: reported, Capacity: room})
		r := l.Explain(Item{ID: "x", Hold: "h", Kind: KindTask, Need: room})
		if r == nil || !strings.Contains(r.String(), "being drained: kernel") ||
			!strings.Contains(r.Remedy(), "cantina undrain") {
			t.Errorf("reported %v: %v: %v", reported, r, r.Remedy())
		}
	}
}
