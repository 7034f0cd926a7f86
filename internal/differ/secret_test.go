package differ

import (
	"fmt"
	"strings"
	"testing"

	"cantina/action"
)

// TestPlanPrintsNoSecrets: a plan shows that a variable changes, is added or is removed, not its value.
func TestPlanPrintsNoSecrets(t *testing.T) {
	was := action.Workload{Env: []action.Variable{{Name: "A", Value: "hunter1"}, {Name: "B", Value: "same"}}}
	is := action.Workload{Env: []action.Variable{{Name: "A", Value: "hunter2"}, {Name: "B", Value: "same"},
		{Name: "C", Value: "hunter3"}}}
	changes := Fields("", was, is)
	want := []Field{{"env[A]", "A=[secret]", "A=[another secret]"}, {"env[C]", "", "C=[secret]"}}
	if fmt.Sprint(changes) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", changes, want)
	}
	if back := fmt.Sprint(Fields("", is, was)); strings.Contains(back, "hunter") {
		t.Error(back)
	}
}
