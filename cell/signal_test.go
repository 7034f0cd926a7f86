package cell

import (
	"errors"
	"testing"

	"cantina/executor"
	"cantina/fence"
	"cantina/lrp"
)

// TestASignalIsForOneInstanceOfOneTerm: a leader that was deposed, another process of
// this cell, and another instance than it was meant for get nothing.
func TestASignalIsForOneInstanceOfOneTerm(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		key := w.desire()
		w.perform(Work{LRPs: []LRPWork{{Key: key, Service: w.leader.desired.Service, Instance: "i1",
			Workload: sleeper("forever")}}})
		send := func(term fence.Term, proc string, k lrp.Key, instance string) error {
			p := w.proc()
			if proc != "" {
				p = "another"
			}
			return w.cell.SignalInstance(t.Context(), term, p, k, instance, 1)
		}
		if err := send(w.leader.term, "", key, "i1"); err != nil {
			t.Fatal(err)
		}
		if err := send(fence.Term{Epoch: 1, Revision: 6}, "", key, "i1"); !errors.Is(err, ErrTerm) {
			t.Error(err)
		}
		if err := send(w.leader.term, "another", key, "i1"); !errors.Is(err, ErrProc) {
			t.Error(err)
		}
		if err := send(w.leader.term, "", lrp.Key{Process: "p2"}, "i1"); !errors.Is(err, ErrUnknownContainer) {
			t.Error(err)
		}
		if err := send(w.leader.term, "", key, "i2"); !errors.Is(err, ErrUnknownContainer) {
			t.Error(err)
		}
		w.exec.Exit("i1", 3)
		if err := send(w.leader.term, "", key, "i1"); !errors.Is(err, executor.ErrState) &&
			!errors.Is(err, ErrUnknownContainer) {
			t.Error(err)
		}
	})
}
