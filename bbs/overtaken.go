package bbs

import (
	"fmt"
	"slices"

	"cantina/lrp"
	"cantina/store"
	"cantina/task"
)

// endedProc is a process that a row names and that ended while the row was unreadable.
type endedProc struct {
	cell, proc string
	successor  string // the process of the cell that may have its work; empty when there is none
}

// overtaken lists the processes in a row to be read again that are certainly dead by now. Their
// work that survives the restart of a cell may be with a later process of it; their death was not
// applied, because the row could not be read. The error is the reason why that process is not
// certain.
func (ld *loader) overtaken(row store.Row) ([]endedProc, error) {
	var out []endedProc
	for _, h := range ld.named(row) {
		live, joining := ld.cfg.Sessions.MayLive(h.cell)
		if slices.Contains(live, h.proc) || slices.Contains(out, h) {
			continue
		}
		switch {
		case ld.cfg.Sessions.Stale():
			return nil,
				fmt.Errorf("row refers to process %s of cell %s, which has not registered since the store was restored; "+
					"restore the row after the initial wait", h.proc, h.cell)
		case joining != "":
			return nil,
				fmt.Errorf("row refers to process %s of cell %s, which has ended; process %s, which has not registered yet, may "+
					"have its work; restore the row when it has registered", h.proc, h.cell, joining)
		case len(live) > 1:
			return nil,
				fmt.Errorf("row refers to process %s of cell %s, which has ended; any of %v may have its work; "+
					"restore the row when one of them is left", h.proc, h.cell, live)
		case len(live) == 1:
			h.successor = live[0]
		}
		out = append(out, h)
	}
	return out, nil
}

// named lists the processes that a row names; with a service those of its instances, which were
// not known to survive a restart.
func (ld *loader) named(row store.Row) []endedProc {
	var out []endedProc
	add := func(x lrp.Index) {
		for _, a := range x.Rows() {
			if a.Proc != "" {
				out = append(out, endedProc{cell: a.Cell, proc: a.Proc})
			}
		}
	}
	v, err := Decode(row)
	if err != nil {
		return nil
	}
	switch v := v.(type) {
	case *lrp.Service:
		ld.view.mu.RLock()
		keys := ld.view.instancesOf(v.Key)
		ld.view.mu.RUnlock()
		for _, k := range keys {
			add(ld.services.Index(k.key))
		}
	case lrp.Index:
		add(v)
	case *task.Task:
		if v.Holder.Proc != "" {
			out = append(out, endedProc{cell: v.Holder.Cell, proc: v.Holder.Proc})
		}
	case reportedTask:
		out = append(out, endedProc{cell: v.by.By.Cell, proc: v.by.By.Proc})
	case reportedIndex:
		for _, by := range v.all {
			out = append(out, endedProc{cell: by.Cell, proc: by.Proc})
		}
	}
	return out
}

// handOverAll moves the work of processes that ended unnoticed to their successors, whose
// harmonisers confirm it, and treats the rest as dead.
func (ld *loader) handOverAll(gone []endedProc) {
	t := ld.begin(ld.now())
	for _, h := range gone {
		if h.successor != "" {
			t.handOver(h.cell, h.proc, h.successor, true)
		}
		ld.services.ProcDied(h.proc)
		ld.tasks.ProcDied(h.proc)
	}
	if !t.empty() {
		ld.submit(t, nil)
	}
}
