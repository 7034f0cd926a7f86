package leader

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cantina/api"
	"cantina/plan"
	"cantina/worker"
)

// drainOf is a cell's drain as the API shows it.
func (t *Term) drainOf(name worker.CellName) *api.Drain {
	d := t.Drains.Of(name)
	if d == nil {
		return nil
	}
	out := &api.Drain{Reason: d.Reason, By: d.By, Since: d.Since, Until: d.Until, StopBatch: d.StopBatch, Ended: d.Ended,
		Waits: d.Waited}
	if !d.Ended.IsZero() {
		return out
	}
	st, _ := t.State(name)
	heard := st.Drain.ID == d.ID()
	if heard {
		out.Waits = st.Drain.Waits
	}
	s, held := t.Registry.Session(name)
	out.Unknown = drainUnknown(s, held, heard)
	return out
}

// drainUnknown returns why the remaining work of a drained cell is unknown: the process that holds
// its name has not reported on this drain, or is silent.
func drainUnknown(s worker.SessionView, held, heard bool) string {
	switch {
	case !held || s.Dead:
		return "no cell of this name is connected"
	case s.State != worker.Healthy:
		return "the cell is " + s.State.String() + ": " + s.Reason
	case !heard:
		return "the cell has not reported since the drain began"
	}
	return ""
}

// sayDrained first adds that cells with a part of a subject are drained, and the consequences for
// it; on describes the part of each cell.
func (v explainView) sayDrained(x *plan.Explanation, on map[string]string) {
	var out []plan.Reason
	for _, name := range slices.Sorted(maps.Keys(on)) {
		d := v.drainOf(worker.CellName(name))
		if d == nil {
			continue
		}
		by := ""
		if d.By != "" {
			by = " by " + d.By
		}
		r := plan.Reason{Code: "draining", Text: fmt.Sprintf("cell %s is drained%s: %s; %s", name, by, d.Reason, on[name]),
			Change: "cantina undrain " + name}
		if left := d.Until.Sub(v.cfg.Clock.Wall()); left > 0 && d.Ended.IsZero() {
			r.Longest = left
		}
		if out = append(out, r); len(out) == namedCells {
			break
		}
	}
	x.Reasons = slices.Concat(out, x.Reasons)
}

// defaultDrain is the duration of a drain if neither operator nor cell sets it.
const defaultDrain = 10 * time.Minute

// DrainCell implements api.Cells.
func (v cellView) DrainCell(ctx context.Context, name worker.CellName, n api.NewDrain, w plan.Write) (api.Cell, error) {
	if _, err := v.present(name); err != nil {
		return api.Cell{}, err
	}
	st, _ := v.State(name)
	normal := st.Drain.Timeout
	if normal <= 0 {
		normal = defaultDrain
	}
	err := v.Drains.Drain(ctx, name, DrainRequest(n), normal, w)
	if err != nil {
		return api.Cell{}, err
	}
	return v.present(name)
}

// UndrainCell implements api.Cells.
func (v cellView) UndrainCell(ctx context.Context, name worker.CellName, w plan.Write) (api.Cell, error) {
	was := v.Drains.Of(name)
	if was != nil && was.Quarantined {
		if err := waited(ctx, func(done func(error)) error { v.Drains.Drop(name, done); return nil }); err != nil {
			return api.Cell{}, err
		}
		return v.undrained(name, true)
	}
	if err := v.Drains.Undrain(ctx, name, w); err != nil {
		return api.Cell{}, err
	}
	return v.undrained(name, was != nil)
}

// undrained is the cell whose drain was deleted; drained: it had one, so the cell need not be
// present.
func (v cellView) undrained(name worker.CellName, drained bool) (api.Cell, error) {
	if _, here := v.Registry.Session(name); !here && drained {
		return api.Cell{Name: name}, nil
	}
	return v.present(name)
}

// drainState adds the progress of a drain to the state of a session.
func drainState(d *api.Drain) string {
	if d.Ended.IsZero() {
		return ", being drained"
	}
	return ", drained"
}

// explainDrain describes that a cell is drained, and its progress.
func explainDrain(d *api.Drain) string {
	text := "it is drained"
	if d.By != "" {
		text += " by " + d.By
	}
	text += ": " + d.Reason
	switch {
	case !d.Ended.IsZero() && len(d.Waits) == 0:
		return text + "; no work is left"
	case !d.Ended.IsZero():
		return text + "; its deadline ended " + strings.Join(d.Waits, ", ")
	case d.Unknown != "" && len(d.Waits) == 0:
		return text + "; the work left is not known: " + d.Unknown
	case d.Unknown != "":
		return text + "; at its last report it waited for " + strings.Join(d.Waits, ", ") +
			"; the work left now is not known: " + d.Unknown
	case len(d.Waits) > 0:
		return text + "; it waits for " + strings.Join(d.Waits, ", ")
	}
	return text
}
