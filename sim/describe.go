package sim

import (
	"fmt"
	"strings"

	"cantina/lrp"
	"cantina/task"
)

// describe prints the rows of an index on one line.
func describe(x lrp.Index) string {
	if x.Empty() {
		return x.Key.String() + " -"
	}
	var b strings.Builder
	b.WriteString(x.Key.String())
	for _, a := range x.Rows() {
		fmt.Fprintf(&b, " %v %v", a.Presence, a.State)
		if a.Instance != "" {
			fmt.Fprintf(&b, " %s@%s/%s", a.Instance, a.Cell, a.Proc)
		}
		if a.Retiring {
			b.WriteString(" retiring")
		}
		if a.CrashCount > 0 {
			fmt.Fprintf(&b, " crash %d", a.CrashCount)
		}
	}
	return b.String()
}

func describeTask(t *task.Task) string {
	if t == nil {
		return "-"
	}
	s := fmt.Sprintf("%s %v", t.UID, t.State)
	if t.Holder != (task.Holder{}) {
		s += fmt.Sprintf(" %s/%s", t.Holder.Cell, t.Holder.Proc)
	}
	if t.Outcome != task.Open {
		s += " " + t.Outcome.String()
	}
	return s
}
