package lrp_test

import (
	"fmt"
	"strings"
	"testing"

	"cantina/action"
	"cantina/lrp"
)

// TestWordsOfASpecFile has each value as a spec file writes it, and the meaning of a stored number.
func TestWordsOfASpecFile(t *testing.T) {
	for got, want := range map[fmt.Stringer]string{
		lrp.StartFirst: "start_first", lrp.StopFirst: "stop_first", lrp.Strategy(2): "Strategy(2)",
		lrp.PartitionKeep: "keep", lrp.PartitionStop: "stop", lrp.OnPartition(2): "OnPartition(2)",
		lrp.ReturnOld: "old", lrp.ReturnNew: "new", lrp.OnReturn(2): "OnReturn(2)",
		lrp.RestartAlways: "always", lrp.RestartOnFailure: "on_failure", lrp.RestartNever: "never",
		lrp.RestartMode(3): "RestartMode(3)",
	} {
		if got.String() != want {
			t.Errorf("%T %q, want %q", got, got, want)
		}
	}
	for n, want := range map[int]string{-1: "0", 0: "default (2)", 1: "0", 2: "1", 3: "2"} {
		if got := (lrp.RestartPolicy{Immediate: n}).FieldWord("Immediate"); got != want {
			t.Errorf("immediate %d: %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int]string{-1: "never", 0: "default (200)", 1: ""} {
		if got := (lrp.RestartPolicy{GiveUp: n}).FieldWord("GiveUp"); got != want {
			t.Errorf("give up %d: %q, want %q", n, got, want)
		}
	}
	if got := (lrp.RestartPolicy{Base: 1}).FieldWord("Base"); got != "" {
		t.Errorf("base: %q", got)
	}
	for n, want := range map[int]string{0: "default (a quarter)", 1: ""} {
		if got := (lrp.RolloutPolicy{Batch: n}).FieldWord("Batch"); got != want {
			t.Errorf("batch %d: %q, want %q", n, got, want)
		}
	}
	if got := (lrp.RolloutPolicy{}).FieldWord("Settle"); got != "" {
		t.Errorf("settle: %q", got)
	}
}

// TestTheRemedyOfPortsThatDoNotFit names the service that fixes the port, and the remedy.
func TestTheRemedyOfPortsThatDoNotFit(t *testing.T) {
	web := func(name string, instances int) *lrp.Desired {
		d := &lrp.Desired{Service: lrp.ServiceKey{Domain: "d", Name: name}, Instances: instances}
		d.Workload.Ports = []action.Port{{Name: "web", Fixed: 80}}
		return d
	}
	for name, c := range map[string]struct {
		all      []*lrp.Desired
		machines int
		want     string
	}{
		"alone": {[]*lrp.Desired{web("a", 2)}, 1,
			"(d/a 2), a machine has it once, and 1 machine suits them: leave out fixed, so that the cell chooses a port, " +
				"ask for fewer instances, or"},
		"no machine": {[]*lrp.Desired{web("a", 1)}, 0, "(d/a 1), a machine has it once, and 0 machines suit them: "},
		"two of them": {[]*lrp.Desired{web("a", 2), web("b", 1)}, 2,
			"(d/a 2, d/b 1), a machine has it once, and 2 machines suit them: leave out fixed, so that the cell chooses a " +
				"port, remove one of the services (apply"},
	} {
		err := lrp.PortsFit(c.all[0], c.all, func([]*lrp.Desired) (int, bool) { return c.machines, true })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	uses, n := lrp.PortUses(80, []*lrp.Desired{web("b", 2), web("gone", 0), web("a", 1)})
	if len(uses) != 2 || uses[0].Service.Name != "a" || uses[1].Service.Name != "b" || n != 3 {
		t.Errorf("%d definitions with %d instances", len(uses), n)
	}
}
