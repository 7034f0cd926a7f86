package leader

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cantina/event"
	"cantina/fault"
	"cantina/plan"
	"cantina/registry"
	"cantina/store"
	"cantina/store/mem"
)

// TestAnUnreadableDrainKeepsWorkAwayUntilItIsTakenBack: it is counted, nothing else is done for
// it, and an operator removes the row, with any verb.
func TestAnUnreadableDrainKeepsWorkAwayUntilItIsTakenBack(t *testing.T) {
	key := registry.DrainRow("c")
	garbage := store.Op{Key: key, Value: []byte("garbage")}
	for name, word := range map[string]func(context.Context, view) error{
		"undrain": func(ctx context.Context, v view) error {
			_, err := v.UndrainCell(ctx, "c", plan.Write{By: "ann"})
			return err
		},
		"quarantine drop": func(ctx context.Context, v view) error {
			return v.ReleaseQuarantined(ctx, key, false, plan.Write{By: "ann"})
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			tm, end := beginWith(t, mem.Config{}, true, []store.Op{garbage},
				store.Row{Key: key, Value: garbage.Value, Revision: 2})
			defer end()
			v := viewOf(tm)
			d := tm.Drains.Of("c")
			if d == nil || !d.Quarantined || !d.Until.IsZero() || !strings.Contains(d.Reason, "to remove it: cantina undrain") {
				t.Fatalf("%+v", d)
			}
			s, err := v.Status()
			if err != nil || s.Quarantined != 1 || !strings.Contains(strings.Join(s.Warnings, "; "),
				"cell c is drained: its drain cannot be read") {
				t.Errorf("status: %d quarantined, %v, %v", s.Quarantined, s.Warnings, err)
			}
			tm.Drains.Heard("c", DrainReport{}) // there is no order for a cell
			err = tm.Drains.Change(t.Context(), plan.Write{}, "x", nil, "c",
				func(was *registry.Drain) (*registry.Drain, string, error) {
					return nil, "", nil
				})
			if !errors.Is(err, store.ErrQuarantined) {
				t.Errorf("written over: %v", err)
			}
			if err := v.ReleaseQuarantined(t.Context(), key, true, plan.Write{}); !errors.Is(err, fault.ErrConflict) {
				t.Errorf("garbage restored: %v", err)
			}
		})
		synctest.Test(t, func(t *testing.T) {
			tm, end := beginWith(t, mem.Config{}, true, []store.Op{garbage},
				store.Row{Key: key, Value: garbage.Value, Revision: 2})
			defer end()
			v, sub := viewOf(tm), tm.hub.Tail()
			if err := word(t.Context(), v); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			synctest.Wait()
			if tm.Drains.Of("c") != nil || tm.Drains.Submitted("c") != nil || tm.lease.IsQuarantined(key) {
				t.Errorf("%s: it is still drained", name)
			}
			if _, ok, err := tm.lease.Get(t.Context(), key); ok || err != nil {
				t.Errorf("%s: the row is still there: %v", name, err)
			}
			if b, err := sub.Next(t.Context(), time.Second); err != nil || len(b.Events) != 1 ||
				b.Events[0].Kind != event.Cell || b.Events[0].Text != "takes work again" {
				t.Errorf("%s: %+v, %v", name, b, err)
			}
			if err := v.ReleaseQuarantined(t.Context(), key, false, plan.Write{}); !errors.Is(err, store.ErrNotQuarantined) {
				t.Errorf("%s: dropped twice: %v", name, err)
			}
		})
	}
}

// TestADrainIsRestored after its row has been repaired.
func TestADrainIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, now := registry.DrainRow("c"), time.Now().Round(0)
		op := registry.DrainOp(&registry.Drain{Cell: "c", Reason: "new disk", By: "ann", Since: now,
			Until: now.Add(time.Hour)})
		// repaired meanwhile
		tm, end := beginWith(t, mem.Config{}, true, []store.Op{op},
			store.Row{Key: key, Value: []byte("garbage"), Revision: 2})
		defer end()
		if err := (viewOf(tm)).ReleaseQuarantined(t.Context(), key, true, plan.Write{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if d := tm.Drains.Of("c"); d == nil || d.Quarantined || d.Reason != "new disk" ||
			!d.Until.Equal(now.Add(time.Hour)) || d.Revision == 0 {
			t.Errorf("%+v", d)
		}
	})
}
