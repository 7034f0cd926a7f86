package event

import (
	"sync"
	"testing"
	"time"
)

// TestAnEventIsEncodedOnce: for any number of readers, and again when its uncommitted parts may
// have changed; forms of old events are not kept.
func TestAnEventIsEncodedOnce(t *testing.T) {
	now := time.Unix(1000, 0)
	h := New(3*newestForms, 0, func() time.Time { return now })
	h.Publish(1, Event{Subject: "first"})
	made := 0
	read := func() {
		b, err := h.Since(Position{}).Next(t.Context(), time.Minute)
		if err != nil || len(b.Events) == 0 {
			t.Error(b, err)
			return
		}
		e := &b.Events[0]
		if got := Form(e.Forms, "key", func() string { made++; return e.Subject }); got != "first" {
			t.Error(got)
		}
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(read)
	}
	all.Wait()
	if made != 1 {
		t.Errorf("made %d times", made)
	}
	now = now.Add(formAge)
	if read(); made != 2 {
		t.Errorf("after a while made %d times", made)
	}
	for range newestForms - 1 {
		h.Publish(2, Event{})
	}
	if read(); made != 2 {
		t.Errorf("among the newest made %d times", made)
	}
	h.Publish(2, Event{})
	if h.ring[0].Forms != nil || h.ring[1].Forms == nil {
		t.Error("what of old events is kept")
	}
	if read(); made != 3 {
		t.Errorf("made %d times", made)
	}
}
