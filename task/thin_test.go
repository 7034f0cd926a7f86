package task

import (
	"fmt"
	"testing"
	"time"
)

// TestPrunedTasksLeaveNoPlan: tasks that come and go, faster than their retention ends, leave no
// more behind than those that are there.
func TestPrunedTasksLeaveNoPlan(t *testing.T) {
	w := &world{t: t, b: NewBoard(Policy{KeepPerDomain: 20}), now: time.Unix(1_000_000, 0)}
	left := func(n int) int {
		for i := range n {
			guid := fmt.Sprint("t", w.now.Unix(), "-", i)
			w.desire(guid, Definition{})
			by := Holder{Cell: "c", Proc: "p"}
			for _, e := range []Event{Start{UID: "u" + guid, By: by, Reservation: "r"}, Complete{UID: "u" + guid, By: by}} {
				if err := w.step(guid, e); err != nil {
					t.Fatal(err)
				}
				w.quiesce()
			}
			w.now = w.now.Add(time.Second)
		}
		return w.b.due.Len()
	}
	few, many := left(100), left(1000)
	if w.b.Len() > 21 || many > few+2*21+64 || many > 2*21+64+2 {
		t.Fatalf("%d tasks, %d and then %d plans", w.b.Len(), few, many)
	}
}
