package bbs

import (
	"testing"
	"testing/synctest"
	"time"

	"cantina/event"
)

// TestARestoredRowIsAnnounced: a reader of the events did not know an unreadable row, and gets an event when an
// operator has restored it. A service is announced with its instances.
func TestARestoredRowIsAnnounced(t *testing.T) {
	for _, c := range []struct {
		kind string
		want map[event.Kind]int
	}{
		{kindService, map[event.Kind]int{event.Service: 1, event.Instance: 2}},
		{kindIndex, map[event.Kind]int{event.Instance: 1}},
		{kindTask, map[event.Kind]int{event.Task: 1}},
		{kindDomain, nil},
	} {
		inBubble(t, func(t *testing.T, r *rig) {
			r.kept()
			key := r.rowsOfEveryKind()[c.kind]
			good := r.value(key)
			r.overwrite(key, []byte("garbage"))
			r.reelect()
			r.serveLRPs()
			sub := r.hub.Tail()
			if err := r.b.Release(key, true, good, nil); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			got := map[event.Kind]int{}
			if len(c.want) > 0 {
				b, err := sub.Next(t.Context(), time.Second)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range b.Events {
					got[e.Kind]++
				}
			}
			for kind, n := range c.want {
				if got[kind] < n {
					t.Errorf("%s is back, with %[3]d events of kind %[2]v, not %[4]d", c.kind, kind, got[kind], n)
				}
			}
			r.take()
		})
	}
}
