package timetable_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"cantina/fault"
	"cantina/plan"
	"cantina/schedule"
	"cantina/store"
)

const (
	definitionRow = "schedule/d/n"
	stateRow      = "schedule-state/d/n"
)

// stored is a row as it stands in the store.
func (r *rig) stored(key string) []byte {
	r.t.Helper()
	row, ok, err := r.leadership.Get(context.Background(), key)
	if err != nil || !ok {
		r.t.Fatal(key, ok, err)
	}
	return row.Value
}

// damaged fires once, tears rows, and changes the leader. It returns the former content.
func (r *rig) damaged(keys ...string) map[string][]byte {
	r.t.Helper()
	r.apply(false, one(nil))
	r.at("01:00:00").take()
	was := map[string][]byte{}
	for _, k := range keys {
		was[k] = r.stored(k)
		r.leadership.Submit(store.Transition{Ops: []store.Op{{Key: k, Value: []byte("torn")}}}, nil)
	}
	synctest.Wait()
	r.depose()
	r.at("03:10:00")
	return was
}

// release answers a row and waits for the commit.
func (r *rig) release(key string, restore bool, value []byte) error {
	done := make(chan error, 1)
	if err := r.times.Release(key, restore, value, func(_ int64, err error) { done <- err }); err != nil {
		return err
	}
	err := <-done
	r.serve()
	return err
}

func (r *rig) refused(key string, value []byte, want error) {
	r.t.Helper()
	if err := r.release(key, true, value); !errors.Is(err, want) {
		r.t.Fatalf("restore %s: %v, want %v", key, err, want)
	}
}

// TestARepairedScheduleGoesOnByItsCursor: fired times do not fire again, and missed times fall under its policy,
// also for the next leader.
func TestARepairedScheduleGoesOnByItsCursor(t *testing.T) {
	for name, keys := range map[string][]string{"definition": {definitionRow}, "state": {stateRow},
		"both": {definitionRow, stateRow}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				was := r.damaged(keys...)
				for _, k := range keys {
					r.started().refused(k, []byte("still torn"), fault.ErrQuarantined)
					if _, err := r.times.Get(key); !errors.Is(err, fault.ErrQuarantined) {
						t.Fatal(err)
					}
					if err := r.release(k, true, was[k]); err != nil {
						t.Fatal(err)
					}
				}
				r.started("d/n 2026-03-02T03:00:00Z") // misfire: once
				if v := r.get(); v.State.Fired != 2 || v.State.Skipped != 1 {
					t.Fatalf("%+v", v.State)
				}
				r.refused(keys[0], was[keys[0]], store.ErrNotQuarantined)
				r.depose()
				r.at("04:00:00").started("d/n 2026-03-02T04:00:00Z")
			})
		})
	}
}

// TestAStateOfAnotherScheduleIsNotTaken: it does not have the firings of this one.
func TestAStateOfAnotherScheduleIsNotTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(false, plan.NamedSchedule{Name: "other", Definition: hourly(nil)})
		r.damaged(stateRow)
		r.take()
		r.refused(stateRow, r.stored("schedule-state/d/other"), fault.ErrQuarantined)
	})
}

func TestADroppedStateBeginsAnewFromNow(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.damaged(stateRow)
		if err := r.release(stateRow, false, nil); err != nil {
			t.Fatal(err)
		}
		r.started()
		if v := r.get(); v.State.Fired != 0 || !v.State.Cursor.Equal(r.wall) {
			t.Fatalf("%+v", v.State)
		}
		r.at("04:00:00").started("d/n 2026-03-02T04:00:00Z")
		r.depose()
		r.at("05:00:00").started("d/n 2026-03-02T05:00:00Z")
	})
}

func TestADroppedDefinitionRemovesTheSchedule(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.damaged(definitionRow)
		if err := r.release(definitionRow, false, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := r.times.Get(key); !errors.Is(err, schedule.ErrNotFound) {
			t.Fatal(err)
		}
		if got := r.apply(false, one(nil)); got != "create n" {
			t.Fatal(got)
		}
		r.at("04:00:00").started("d/n 2026-03-02T04:00:00Z")
	})
}
