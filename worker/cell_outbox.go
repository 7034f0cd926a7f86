package worker

import (
	"slices"
	"time"
)

// outbox holds the statuses besides those of ends that the leader has not acknowledged, and the
// probe whose result will be one.
type outbox struct {
	notes     []note
	probing   int64 // number of the probe that runs; 0 = none
	probeBeat int64
}

// note is "was not running", or the answer to a probe, until acknowledged.
type note struct {
	item StatusItem
	beat int64 // of a probe: the heartbeat that dates it
	sent time.Duration
}

// due returns the statuses to send now: those that the leader stores before it answers, ended ones
// first, in order; and separately the result of a probe, which must not wait for that.
func (o *outbox) due(now time.Duration, w *cellWork) (notes, probes []StatusItem) {
	var hs []*held
	for _, h := range w.unacked {
		if now >= h.sent+statusRetry {
			hs = append(hs, h)
		}
	}
	slices.SortFunc(hs, func(a, b *held) int { return a.run.Compare(b.run) })
	for _, h := range hs {
		h.sent = now
		notes = append(notes, StatusItem{Kind: StatusEnded, Run: h.run, Status: h.status})
	}
	for i := range o.notes {
		n := &o.notes[i]
		if now < n.sent+statusRetry {
			continue
		}
		n.sent = now
		if n.item.Kind == StatusProbe {
			probes = append(probes, n.item)
		} else {
			notes = append(notes, n.item)
		}
	}
	return notes, probes
}

// next returns when some status is due.
func (o *outbox) next(w *cellWork) time.Duration {
	next := forever
	for _, h := range w.unacked {
		next = min(next, h.sent+statusRetry)
	}
	for i := range o.notes {
		next = min(next, o.notes[i].sent+statusRetry)
	}
	return next
}

// probeEnded puts the result of the probe that runs in the place of an earlier one.
func (o *outbox) probeEnded(e ProbeEnded) {
	if o.probing != e.Probe {
		return
	}
	o.probing = 0
	o.notes = slices.DeleteFunc(o.notes, func(n note) bool { return n.item.Kind == StatusProbe })
	o.notes = append(o.notes, note{StatusItem{Kind: StatusProbe, Probe: e.Probe, OK: e.OK, Reason: e.Reason}, o.probeBeat,
		never})
}

// failed makes the items of a call without a response due again soon.
func (o *outbox) failed(w *cellWork) {
	for _, h := range w.unacked {
		h.sent -= statusRetry - refusedWait
	}
	for i := range o.notes {
		o.notes[i].sent -= statusRetry - refusedWait
	}
}

// notRunning notes, once each, those of the invocations that the process does not hold.
func (o *outbox) notRunning(runs []Run, w *cellWork) {
	known := map[Run]bool{}
	for i := range o.notes {
		if it := &o.notes[i].item; it.Kind == StatusNotRunning {
			known[it.Run] = true
		}
	}
	for _, r := range runs {
		if w.held[r.Invocation] == nil && !known[r] {
			known[r] = true
			o.notes = append(o.notes, note{item: StatusItem{Kind: StatusNotRunning, Run: r}, sent: never})
		}
	}
}

// answered takes the leader's answer to a note, and returns the note when it was accepted.
func (o *outbox) answered(now time.Duration, a StatusAnswer) (note, bool) {
	i := slices.IndexFunc(o.notes, func(n note) bool {
		return n.item.Kind == a.Kind && n.item.Run == a.Run && n.item.Probe == a.Probe
	})
	if i < 0 {
		return note{}, false
	}
	if n := &o.notes[i]; !a.OK {
		n.sent = min(n.sent, now-statusRetry+refusedWait)
		return note{}, false
	}
	n := o.notes[i]
	o.notes = slices.Delete(o.notes, i, i+1)
	return n, true
}
