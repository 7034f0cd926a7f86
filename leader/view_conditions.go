package leader

import (
	"fmt"
	"slices"
	"strings"

	"cantina/batch"
	"cantina/cell"
	"cantina/internal/text"
	"cantina/plan"
	"cantina/worker"
)

// codeHeldUp is the code of the reason that a file system or the kernel holds something up.
const codeHeldUp = "held_up"

// codeStopping is the code of the reason that it is being stopped.
const codeStopping = "stopping"

// codeRemoved is the code of the reason that a removed job of the same name has not ended yet.
const codeRemoved = "removed_job"

// codeStarting is the code of the reason that a start takes long.
const codeStarting = "starting"

// conditions are what cells last reported of delayed containers.
type conditions struct{ *Term }

func (t *Term) reported() conditions { return conditions{t} }

func (k conditions) of(name worker.CellName) []cell.Condition {
	st, _ := k.State(name)
	return st.Conditions
}

// text describes the condition of one container, of those for which is holds.
func (k conditions) text(name string, is func(cell.Condition) bool) string {
	list := k.of(worker.CellName(name))
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i].Words(k.cfg.Clock.Wall())
	}
	return ""
}

// unknownOn describes the work on a cell that the store does not contain.
func (k conditions) unknownOn(name worker.CellName) []string {
	var out []string
	for _, c := range k.of(name) {
		if c.Unknown {
			out = append(out, c.What)
		}
	}
	return out
}

// heldUp adds the delays of the subject on any cell to an explanation.
func (v explainView) heldUp(x *plan.Explanation, is func(cell.Condition) bool) {
	shown, reported := 0, v.reported()
	for _, name := range v.Heard() {
		for _, c := range reported.of(name) {
			if c.Unknown || !is(c) {
				continue
			}
			if shown++; shown > namedThings {
				return
			}
			if reported.ofRemovedJob(&c) {
				if x.Fine {
					x.Fine, x.State, x.Wanted = false, batch.JobWaiting.String(), batch.JobDone.String()
				}
				r := v.stopping(name, &c)
				r.Code, r.Text = codeRemoved, "it "+batch.WaitsForRemoved+": "+r.Text
				x.Reasons = slices.DeleteFunc(x.Reasons, func(r plan.Reason) bool {
					return strings.Contains(r.Text,
						batch.WaitsForRemoved)
				})
				x.Reasons = slices.Insert(x.Reasons, min(shown-1, len(x.Reasons)), r)
				continue
			}
			if c.Stopping {
				if x.Fine {
					x.Fine, x.State, x.Wanted = false, x.State+", being stopped", "stopped"
				}
				// before the other information about it
				x.Reasons = slices.Insert(x.Reasons, min(shown-1, len(x.Reasons)), v.stopping(name, &c))
				continue
			}
			if !c.Since.IsZero() {
				if x.Fine {
					x.Fine, x.State = false, x.State+", starting"
				}
				x.Reasons = slices.DeleteFunc(x.Reasons, func(r plan.Reason) bool { return sameStart(&c, r) })
				x.Reasons = append(x.Reasons, plan.Reason{Code: codeStarting,
					Text: fmt.Sprintf("%s on cell %s is starting: %s", c.What, name, c.Words(v.cfg.Clock.Wall()))})
				continue
			}
			if x.Fine {
				x.Fine, x.State = false, x.State+", held up"
			}
			x.Reasons = append(x.Reasons, plan.Reason{Code: codeHeldUp,
				Text:   fmt.Sprintf("%s on cell %s hangs in the kernel: %s", c.What, name, c.Text),
				Change: "the file system that it waits for answers again, or is unmounted"})
		}
	}
}

// sameStart reports whether a reason is the start that the condition describes in more detail.
func sameStart(c *cell.Condition, r plan.Reason) bool {
	of := strings.TrimPrefix(c.What, "service ") + ": "
	return r.Code == codeStarting && strings.HasPrefix(strings.TrimPrefix(r.Text, of), "starting on cell ")
}

// stopping is the reason that a cell is ending a task or batch task.
func (v explainView) stopping(name worker.CellName, c *cell.Condition) plan.Reason {
	now := v.cfg.Clock.Wall()
	r := plan.Reason{Code: codeStopping, Text: fmt.Sprintf("%s on cell %s is %s", c.What, name, c.Words(now))}
	if !c.StopBy.IsZero() {
		r.Longest = max(0, c.StopBy.Sub(now))
	}
	return r
}

// ofRemovedJob reports whether a condition belongs to a job that was removed, and created again
// under its name: its running work is ended, and the new job waits for that on the same node.
func (k conditions) ofRemovedJob(c *cell.Condition) bool {
	if c.Job == "" || c.UID == "" || c.Unknown {
		return false
	}
	j, err := k.Scheduler.Job(c.Job)
	return err == nil && !j.Removed && j.UID != c.UID
}

// stoppingOf describes the number of a job's batch tasks that are being stopped; empty = none.
func (k conditions) stoppingOf(job string) string {
	n, removed := 0, 0
	for _, name := range k.Heard() {
		for _, c := range k.of(name) {
			switch {
			case c.Job != job:
			case k.ofRemovedJob(&c):
				removed++
			case c.Stopping:
				n++
			}
		}
	}
	var out []string
	if removed > 0 {
		out = append(out, "waits for "+text.Count(removed, "batch task")+" of the removed job of this name")
	}
	if n > 0 {
		out = append(out, text.CountAs(n, "batch task is being stopped", "batch tasks are being stopped"))
	}
	return strings.Join(out, "; ")
}

// heldUpCells warns of delayed work, cell by cell.
func (v operationView) heldUpCells(sessions []worker.SessionView) []string {
	var out []string
	for _, s := range sessions {
		list := slices.Clone(v.reported().of(s.Cell))
		list = slices.DeleteFunc(list, func(c cell.Condition) bool { return c.Unknown || c.Stopping })
		if !s.Holder || len(list) == 0 {
			continue
		}
		text := fmt.Sprintf("cell %s: %s: %s", s.Cell, list[0].What, list[0].Words(v.cfg.Clock.Wall()))
		if more := len(list) - 1; more > 0 {
			text += fmt.Sprintf(", and %d more", more)
		}
		if out = append(out, text); len(out) == namedCells {
			break
		}
	}
	return out
}
