package lrp

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func describe(changes []Change) string {
	var out []string
	for _, c := range changes {
		kind, row := [...]string{"created", "changed", "removed"}[c.Kind], c.After
		if row == nil {
			row = c.Before
		}
		s := kind + " " + row.State.String()
		if row.Presence != Ordinary {
			s += " " + row.Presence.String()
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

// drawEvent draws any event from any of three cells.
func drawEvent(rt *rapid.T, now time.Time, exclusive bool) Event {
	by := rapid.SampledFrom([]Identity{alpha, omega, beta, {"ia", "alpha", "pa2"}}).Draw(rt, "by")
	net := Net{Address: "a", Routable: rapid.Bool().Draw(rt, "routable"), Stopping: rapid.Bool().Draw(rt, "stopping")}
	return rapid.SampledFrom([]Event{
		Create{}, Undesire{}, Retire{}, RestartCrashed{}, Resend{}, ExpireEvacuating{}, PlacementFailed{"full"},
		Claim{By: by}, Start{By: by, Net: net, Service: svc, Exclusive: exclusive}, Crash{By: by, Reason: "r"},
		Remove{By: by},
		Evacuate{By: by, Net: net, Until: now.Add(time.Minute)}, EvacuateClaimed{By: by}, EvacuateStopped{By: by},
		EvacuateCrashed{By: by},
		RemoveEvacuating{By: by}, CellHealthy{by.Cell, by.Proc}, CellUnhealthy{by.Cell, by.Proc},
		CellUnheard{by.Cell, by.Proc}, CellMustDie{by.Cell, by.Proc},
		ProcDead{by.Proc}, ProcMoved{by.Cell, by.Proc, by.Proc + "2"},
		Found{By: by, Service: svc, Stale: rapid.Bool().Draw(rt, "stale")}, Preempt{By: by, For: "other", Priority: 60},
	}).Draw(rt, "event")
}

// TestAnyOrderOfEventsKeepsTheInvariants: I3 and the invariants of each state.
func TestAnyOrderOfEventsKeepsTheInvariants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		env := wantedEnv()
		env.Desired.Exclusive = rapid.Bool().Draw(rt, "exclusive")
		if !env.Desired.Exclusive && rapid.Bool().Draw(rt, "stopFirst") {
			env.Desired.Strategy = StopFirst
		}
		desired := env.Desired
		x := Index{Key: key0}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			env.Now = env.Now.Add(time.Duration(rapid.IntRange(0, 600).Draw(rt, "seconds")) * time.Second)
			env.Wanted, env.Fresh, env.Eligible = rapid.Bool().Draw(rt, "wanted"), rapid.Bool().Draw(rt, "fresh"),
				rapid.Bool().Draw(rt, "eligible")
			env.Desired = desired
			if !env.Wanted && rapid.Bool().Draw(rt, "orphan") {
				env.Desired = nil
			}
			e := drawEvent(rt, env.Now, desired.Exclusive)
			after, effects, err := Step(x, e, env)
			if err != nil && (after != x || effects != nil) {
				rt.Fatalf("%T: error %v that changes something", e, err)
			}
			if err := Check(after); err != nil {
				rt.Fatalf("%#v on %s: %v", e, show(x), err)
			}
			checkNoGap(rt, x, after)
			checkView(rt, x, after)
			x = after
		}
	})
}

// checkNoGap replays the row events: while an instance is RUNNING before and
// after, no prefix of the events leaves a reader without one (item "Event order").
func checkNoGap(rt *rapid.T, before, after Index) {
	live := map[string]int{}
	count := func(a *Actual, n int) {
		if a != nil && a.State == Running {
			live[a.Instance] += n
		}
	}
	for _, a := range before.Rows() {
		count(a, 1)
	}
	running := func() (n int) {
		for _, c := range live {
			n += c
		}
		return n
	}
	start := running()
	var end int
	for _, a := range after.Rows() {
		if a.State == Running {
			end++
		}
	}
	by := map[string]bool{} // a consumer's view, by the instance alone
	for _, a := range before.Rows() {
		by[a.Instance] = a.State == Running
	}
	for _, c := range Changes(before, after) {
		if row := c.After; row != nil {
			by[row.Instance] = row.State == Running
		} else if by[c.Before.Instance] = false; start > 0 && end > 0 &&
			!slices.Contains(slices.Collect(maps.Values(by)), true) {
			rt.Fatalf("gap by instances between %s and %s: %s", show(before), show(after), describe(Changes(before, after)))
		}
		count(c.After, 1)
		count(c.Before, -1)
		if start > 0 && end > 0 && running() == 0 {
			rt.Fatalf("gap between %s and %s: %s", show(before), show(after), describe(Changes(before, after)))
		}
	}
	if running() != end {
		rt.Fatalf("events of %s → %s rebuild %d running, want %d", show(before), show(after), running(), end)
	}
}

// checkView replays the events of readers: they equal the changes of Resolved, each sent once.
func checkView(rt *rapid.T, before, after Index) {
	seen, turns := before.Resolved(), 0
	for _, c := range Changes(before, after) {
		if c.Turn {
			seen = c.Shown
			turns++
		}
		if c.Hidden != (c.After != nil && c.After != after.Resolved()) {
			rt.Fatalf("%s → %s: hidden %v: %s", show(before), show(after), c.Hidden, describe([]Change{c}))
		}
	}
	if seen != after.Resolved() || turns > 1 {
		rt.Fatalf("%s → %s: readers see %+v after %d turns", show(before), show(after), seen, turns)
	}
}

func show(x Index) string {
	var out []string
	for _, a := range x.Rows() {
		out = append(out, fmt.Sprintf("%v %v %v/%v", a.Presence, a.State, a.Instance, a.Cell))
	}
	return "[" + strings.Join(out, "; ") + "]"
}
