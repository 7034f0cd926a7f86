package leader

import (
	"fmt"
	"slices"

	"cantina/cell"
	"cantina/plan"
	"cantina/worker"
)

// codeHeldUp is the code of the reason that a file system or the kernel holds something up.
const codeHeldUp = "held_up"

// codeStarting is the code of the reason that a start takes long.
const codeStarting = "starting"

// conditions are what a cell last said of containers that something holds up.
func (v view) conditions(name string) []cell.Condition {
	st, _ := v.State(worker.CellName(name))
	return st.Conditions
}

// condition is that of one container, of those for which is holds.
func (v view) condition(name string, is func(cell.Condition) bool) string {
	list := v.conditions(name)
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i].Words(v.cfg.Clock.Wall())
	}
	return ""
}

// heldUp adds to an explanation what of the subject is held up on any cell.
func (v view) heldUp(x *plan.Explanation, is func(cell.Condition) bool) {
	shown := 0
	for _, name := range v.Heard() {
		for _, c := range v.conditions(string(name)) {
			if c.Unknown || !is(c) {
				continue
			}
			if shown++; shown > namedThings {
				return
			}
			if !c.Since.IsZero() {
				if x.Fine {
					x.Fine, x.State = false, x.State+", starting"
				}
				x.Reasons = append(x.Reasons, plan.Reason{Code: codeStarting, Text: fmt.Sprintf("%s on cell %s is starting: %s", c.What, name, c.Words(v.cfg.Clock.Wall()))})
				continue
			}
			if x.Fine {
				x.Fine, x.State = false, x.State+", held up"
			}
			x.Reasons = append(x.Reasons, plan.Reason{Code: codeHeldUp, Text: fmt.Sprintf("%s on cell %s hangs in the kernel: %s", c.What, name, c.Text),
				Change: "the file system that it waits for answers again, or is unmounted"})
		}
	}
}

// heldUpCells warns of what is held up, cell by cell.
func (v view) heldUpCells(sessions []worker.SessionView) []string {
	var out []string
	for _, s := range sessions {
		list := slices.DeleteFunc(slices.Clone(v.conditions(string(s.Cell))), func(c cell.Condition) bool { return c.Unknown })
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
