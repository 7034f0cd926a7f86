package placement

import (
	"testing"
	"time"
)

// round is Round, and the calls to the cells begin at once.
func round(a *Auction, now time.Duration) Result {
	r := a.Round(now)
	for i := range r.Placed {
		a.Send(&r.Placed[i], now)
	}
	return r
}

// TestPlacedWorkWaitsForItsCall: the time to confirm begins with the call, not with the placement. Work whose call
// has not begun is not placed elsewhere, however long that takes, unless its cell goes away.
func TestPlacedWorkWaitsForItsCall(t *testing.T) {
	a := NewAuction(Config{})
	join(a, plainState("c1", 1, 100, 10))
	submit(t, a, 0, lrpItem("x", 0, 40), lrpItem("y", 0, 40))
	r := a.Round(0)
	if len(r.Placed) != 2 {
		t.Fatalf("%+v", r)
	}
	if late := a.Round(time.Hour); len(late.Expired) > 0 || len(late.Placed) > 0 {
		t.Fatalf("without a call: %+v", late)
	}
	if _, due := a.Next(); due {
		t.Error("a deadline without a call")
	}
	if !a.Send(&r.Placed[0], time.Hour) || !a.Send(&r.Placed[0], time.Hour+20*time.Second) {
		t.Error("work in flight is not sent")
	}
	if at, due := a.Next(); !due || at != time.Hour+30*time.Second {
		t.Errorf("its time ends at %v, %v: a repeated call gives no more", at, due)
	}
	if late := a.Round(time.Hour + 30*time.Second); len(late.Expired) != 1 || late.Expired[0].ID != r.Placed[0].Item.ID {
		t.Errorf("no answer: %+v", late)
	}
	if a.Send(&r.Placed[0], time.Hour+31*time.Second) {
		t.Error("work that is not in flight any more is sent")
	}
	a.Remove("c1")
	if gone := a.Round(2 * time.Hour); len(gone.Expired) != 1 || gone.Expired[0].ID != r.Placed[1].Item.ID {
		t.Errorf("its cell went away before the call: %+v", gone)
	}
	if a.Send(&r.Placed[1], 2*time.Hour) {
		t.Error("work is sent to a cell that went away")
	}
}

// TestOldPlacementsAreNotSent: work was placed, withdrawn and placed again on the same cell. Only the second
// placement is sent.
func TestOldPlacementsAreNotSent(t *testing.T) {
	a := NewAuction(Config{})
	join(a, plainState("c1", 1, 100, 10))
	submit(t, a, 0, lrpItem("x", 0, 40))
	first := a.Round(0).Placed[0]
	a.Release(first.Item.Hold)
	submit(t, a, 0, lrpItem("x", 0, 40))
	second := a.Round(0).Placed[0]
	if a.Send(&first, 0) || !a.Send(&second, 0) {
		t.Errorf("%+v, %+v", first, second)
	}
}

// TestUnsentWorkOfASuccessor: a cell has another process before the call to the first has begun. The work is free
// again at once; work that was sent has its time.
func TestUnsentWorkOfASuccessor(t *testing.T) {
	for name, succeed := range map[string]func(a *Auction){
		"admitted": func(a *Auction) { a.Admit("c1", "its successor", "") },
		"reports": func(a *Auction) {
			s := plainState("c1", 2, 100, 10)
			s.Process = "its successor"
			a.Push(s)
		},
	} {
		a := NewAuction(Config{})
		join(a, plainState("c1", 1, 100, 10))
		submit(t, a, 0, lrpItem("sent", 0, 40), lrpItem("unsent", 0, 40))
		for _, p := range a.Round(0).Placed {
			if p.Item.ID == "sent.0" && !a.Send(&p, 0) {
				t.Fatal("not sent")
			}
		}
		succeed(a)
		if r := a.Round(0); len(r.Expired) != 1 || r.Expired[0].ID != "unsent.0" {
			t.Errorf("%s, at once: %+v", name, r.Expired)
		}
		if r := a.Round(30 * time.Second); len(r.Expired) != 1 || r.Expired[0].ID != "sent.0" {
			t.Errorf("%s, later: %+v", name, r.Expired)
		}
	}
}
