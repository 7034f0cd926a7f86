package timetable_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cantina/plan"
	"cantina/schedule"
)

func signalled() plan.NamedSchedule {
	return one(func(d *schedule.Definition) { d.Task, d.Signal = nil, &schedule.Signal{Service: "web", Number: 1} })
}

// story is the newest line of the history.
func (r *rig) story() string {
	h := r.get().State.History
	return h[len(h)-1].String()
}

// result delivers the result of the n-th signal.
func (r *rig) result(n int, d schedule.Delivery) {
	r.mu.Lock()
	report := r.reports[n]
	r.mu.Unlock()
	report(d)
	synctest.Wait()
}

func TestASignalIsSentAfterItsCommitAndReported(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(false, signalled())
		r.at("01:00:00")
		if !slices.Equal(r.signals, []string{"d: HUP to service web"}) {
			t.Fatal(r.signals)
		}
		if got := r.story(); got != "signal being sent" {
			t.Fatal(got)
		}
		r.result(0, schedule.Delivery{Of: 2, Reached: 1, Missed: []string{"instance 1 on cell c: it cannot be reached"}})
		want := "signal sent to 1 of 2; not reached: instance 1 on cell c: it cannot be reached"
		if got := r.story(); got != want {
			t.Fatal(got)
		}
		r.depose()
		if got := r.story(); got != want {
			t.Fatal(got)
		}
		if id, err := r.times.RunSchedule(t.Context(), key, began().Add(90*time.Minute), plan.Write{Key: "k"}); err != nil ||
			id == "" || len(r.signals) != 2 {
			t.Fatal(id, err, r.signals) // of 02:00, before its time
		}
		r.at("02:00:00")
		if len(r.signals) != 2 {
			t.Fatal(r.signals)
		}
		if state, fine, why, err := r.times.Explain(key); err != nil || state != "waiting" || !fine ||
			!slices.ContainsFunc(why, func(x plan.Reason) bool {
				return strings.Contains(x.Text, "HUP to service web, which has 2 running instances")
			}) {
			t.Fatal(state, fine, why, err)
		}
	})
}

// TestASignalOfALostLeaderIsNotSentAgain, and the history has its result as unknown. The results of the lost
// leader's calls change nothing.
func TestASignalOfALostLeaderIsNotSentAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(false, signalled())
		r.at("01:00:00")
		r.depose()
		r.at("01:10:00")
		if len(r.signals) != 1 {
			t.Fatal(r.signals)
		}
		want := "signal sent at most once; the leader ended before it recorded the outcome"
		if got := r.story(); got != want {
			t.Fatal(got)
		}
		r.result(0, schedule.Delivery{Of: 1, Reached: 1})
		if got := r.story(); got != want {
			t.Fatal(got)
		}
		r.at("02:00:00").depose()
		if got := r.get().State.History; len(r.signals) != 2 || len(got) != 2 || got[0].String() != want ||
			got[1].String() != want {
			t.Fatal(r.signals, got)
		}
	})
}

// TestASignalOfARemovedScheduleIsNotSent: its name may be another schedule's by then.
func TestASignalOfARemovedScheduleIsNotSent(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(false, signalled())
		r.at("01:00:00")
		if err := r.times.RemoveSchedule(t.Context(), key, plan.Write{}); err != nil {
			t.Fatal(err)
		}
		r.result(0, schedule.Delivery{Of: 1, Reached: 1})
		r.apply(false, signalled())
		r.result(0, schedule.Delivery{Of: 1, Reached: 1})
		if h := r.get().State.History; len(h) != 0 {
			t.Fatal(h)
		}
	})
}
