package worker

import (
	"slices"
	"time"

	"cantina/fence"
)

// cellWork is the work that a process answers for: the batch invocations, and how many other containers
// it has.
type cellWork struct {
	held    map[fence.Invocation]*held
	byWork  map[Work]*held
	unacked map[fence.Invocation]*held // of held, those that have ended
	bound   int                        // other deadline-bound containers
	lasting int                        // of bound and held, those that outlive the process
	kept    int                        // the other work besides those
}

// held is a batch invocation from its RunTask until its status is acknowledged.
type held struct {
	run     Run
	ended   bool
	status  string
	adopted bool
	sent    time.Duration
}

func newCellWork() cellWork {
	return cellWork{held: map[fence.Invocation]*held{}, byWork: map[Work]*held{}, unacked: map[fence.Invocation]*held{}}
}

func (w *cellWork) hold(h *held) {
	w.held[h.run.Invocation] = h
	w.byWork[h.run.Work] = h
	if h.ended {
		w.unacked[h.run.Invocation] = h
	}
}

// end records the end of an invocation, whose status is now due.
func (w *cellWork) end(r Run, status string) {
	h := w.held[r.Invocation]
	if h == nil || h.run != r || h.ended {
		return
	}
	h.ended, h.status, h.sent = true, status, never
	w.unacked[r.Invocation] = h
}

// answered takes the leader's answer to the status of an end: an accepted one is held no longer.
func (w *cellWork) answered(now time.Duration, a StatusAnswer) {
	h := w.held[a.Run.Invocation]
	if h == nil || !h.ended || h.run != a.Run {
		return
	}
	if !a.OK {
		h.sent = min(h.sent, now-statusRetry+refusedWait)
		return
	}
	delete(w.held, a.Run.Invocation)
	delete(w.unacked, a.Run.Invocation)
	if w.byWork[a.Run.Work] == h {
		delete(w.byWork, a.Run.Work)
	}
}

// adopt makes all of it the work of an earlier session.
func (w *cellWork) adopt() {
	for _, h := range w.held {
		h.adopted, h.sent = true, never
	}
}

// resend has every end sent again at once.
func (w *cellWork) resend() {
	for _, h := range w.held {
		h.sent = never
	}
}

// drop forgets the invocations.
func (w *cellWork) drop() {
	clear(w.held)
	clear(w.byWork)
	clear(w.unacked)
}

// live is the number of deadline-bound containers.
func (w *cellWork) live() int { return w.bound + len(w.held) - len(w.unacked) }

// none reports that there is no work, and that none outlives the process.
func (w *cellWork) none() bool { return len(w.held) == 0 && w.bound == 0 && w.kept == 0 }

// allOutlives reports whether there is work, and all of it outlives the process.
func (w *cellWork) allOutlives() bool {
	return w.lasting+w.kept > 0 && len(w.unacked) == 0 && w.bound+len(w.held) == w.lasting
}

// list returns the invocations, sorted.
func (w *cellWork) list() []Held {
	hs := make([]Held, 0, len(w.held))
	for _, h := range w.held {
		hs = append(hs, Held{h.run, h.ended, h.adopted})
	}
	slices.SortFunc(hs, func(a, b Held) int { return a.Run.Compare(b.Run) })
	return hs
}
