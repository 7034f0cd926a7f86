package worker

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestHealth has scenarios 1 to 4: one function for both ends.
func TestHealth(t *testing.T) {
	at := func(s State, been bool) Health {
		return Health{State: s, LastProbe: 1, LastBeat: 2, HasBeenHealthy: been}
	}
	fresh := NewHealth(0)
	for _, c := range []struct {
		name                   string
		h                      Health
		now, probe, beat, lost time.Duration
		allowed                bool
		want                   State
		blocked                bool
	}{
		{"1 new stays new", fresh, 0, 0, 0, 1, false, New, false},
		{"1 new is lost in time", fresh, 2, 9, 9, 1, false, MustDie, false},
		{"2 waits for consensus", at(Unhealthy, false), 3, 5, 5, 3, false, Unhealthy, true},
		{"2 is never lost for it", at(Unhealthy, false), 5, 5, 5, 1, false, Unhealthy, true},
		{"2 stale heartbeat", at(Unhealthy, false), 5, 5, 2, 1, true, MustDie, false},
		{"2 stale heartbeat, not allowed either", at(Unhealthy, false), 5, 5, 2, 1, false, MustDie, false},
		{"2 allowed", at(Unhealthy, false), 3, 5, 5, 1, true, Healthy, false},
		{"3 consensus matters once", at(Unhealthy, true), 3, 5, 5, 1, false, Healthy, false},
		{"3 healthy is not lost in one step", at(Healthy, true), 5, 5, 2, 1, false, Unhealthy, false},
		{"3 unhealthy becomes healthy", at(Unhealthy, true), 3, 5, 5, 3, false, Healthy, false},
		{"3 not yet lost", at(Unhealthy, true), 5, 5, 2, 10, false, Unhealthy, false},
		{"3 lost", at(Unhealthy, true), 5, 5, 2, 1, false, MustDie, false},
		{"3 both fresh", at(Unhealthy, true), 5, 9, 9, 9, false, Healthy, false},
		{"3 stale probe", at(Healthy, true), 7, 5, 9, 9, true, Unhealthy, false},
		{"3 limits are strict", at(Healthy, true), 6, 5, 4, 9, true, Healthy, false},
		{"never lost with 0", at(Unhealthy, true), 99, 5, 2, 0, false, Unhealthy, false},
		{"4 must die absorbs", Health{State: MustDie, LastProbe: 1, LastBeat: 2}, 5, 9, 9, 9, true, MustDie, false},
	} {
		got, blocked := c.h.Next(c.now, Gaps{c.probe, c.beat, c.lost}, c.allowed)
		if got != c.want || blocked != c.blocked {
			t.Errorf("%s: %v, blocked %v", c.name, got, blocked)
		}
	}
}

func TestAdvanceRemembers(t *testing.T) {
	h := Health{State: Healthy, LastProbe: 1, LastBeat: 1}
	h.Advance(10, Gaps{5, 5, 5}, true)
	if h.State != Unhealthy || h.BecameUnhealthy != 6 {
		t.Fatalf("%+v", h)
	}
	h.LastProbe, h.LastBeat = 12, 12
	h.Advance(12, Gaps{5, 5, 5}, true)
	if h.State != Healthy || !h.HasBeenHealthy {
		t.Fatalf("%+v", h)
	}
	h.Advance(20, Gaps{5, 5, 5}, true)
	if h.BecameUnhealthy != 17 {
		t.Fatal("the time starts again")
	}
}

// TestImpossibleTimeouts: each inequality fails alone, and is named.
func TestImpossibleTimeouts(t *testing.T) {
	if err := DefaultTimeouts().Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want string
		set  func(*Timeouts)
	}{
		{"0 < heartbeat:", func(t *Timeouts) { t.Heartbeat = 0 }},
		{"0 < heartbeat grace", func(t *Timeouts) { t.HeartbeatGrace = 0 }},
		{"0 < healthcheck:", func(t *Timeouts) { t.Healthcheck = -1 }},
		{"0 < healthcheck grace", func(t *Timeouts) { t.HealthcheckGrace = 0 }},
		{"0 < check interval", func(t *Timeouts) { t.Check = 0 }},
		{"0 < kill wait", func(t *Timeouts) { t.KillWait = 0 }},
		{"0 < margin", func(t *Timeouts) { t.Margin = 0 }},
		{"0 <= drift", func(t *Timeouts) { t.DriftPerMille = -1 }},
		{"check interval < lost", func(t *Timeouts) { t.Check = t.Lost }},
		{"the cell gives up first", func(t *Timeouts) { t.DriftPerMille = 20 }},
		{"heartbeat < healthcheck grace", func(t *Timeouts) { t.HealthcheckGrace = t.Heartbeat }},
		{"max-dies-within <= a year: 8761h0m0s <= 8760h0m0s", func(t *Timeouts) { t.MaxDiesWithin = 8761 * time.Hour }},
		{"dies-within <= max-dies-within: 1m26s <= 1m20s", func(t *Timeouts) { t.MaxDiesWithin = 80 * time.Second }},
		{"keep-alive + lease drift < lease", func(t *Timeouts) { t.KeepAlive = t.Lease }},
		{"drift of the lease", func(t *Timeouts) { t.LeaseDrift = time.Millisecond }},
		{"lease < lost", func(t *Timeouts) { t.Lease = t.Lost }},
	} {
		to := DefaultTimeouts()
		c.set(&to)
		err := to.Validate()
		if !errors.Is(err, ErrTimeouts) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %q, got %v", c.want, err)
		}
		if !strings.Contains(to.Print(), "FAIL") {
			t.Errorf("%s: not printed", c.want)
		}
		if _, err := NewLeader(Config{Timeouts: to}); !errors.Is(err, ErrTimeouts) {
			t.Errorf("%s: a leader starts: %v", c.want, err)
		}
	}
}

// TestNumbers are those of the design: 86 s, longest wait 92 s.
func TestNumbers(t *testing.T) {
	d := DefaultTimeouts()
	if d.HeartbeatGap() != 15*time.Second || d.HealthcheckGap() != 21*time.Second || d.DiesWithin() != 86*time.Second {
		t.Fatal(d.Print())
	}
	if w := d.LongestWait(); w != 91*time.Second+860*time.Millisecond {
		t.Fatal(w)
	}
	if out := d.Print(); !strings.Contains(out, "= dies-within          1m26s") ||
		!strings.Contains(out, "0 <= drift in a second: 0s <= 10ms\n") || strings.Contains(out, "FAIL") {
		t.Fatal(out)
	}
}

// TestNoChangeBeforeItIsDue checks each moment: until the due time the state stays as it is, and the due time is
// never in the past. A caller that goes from one due time to the next misses no change.
func TestNoChangeBeforeItIsDue(t *testing.T) {
	const end = 20
	for n := range 3 * 4 * 6 * 6 * 6 * 2 {
		take := func(of int) int { v := n % of; n /= of; return v }
		h := Health{State: []State{New, Unhealthy, Healthy}[take(3)]}
		g := Gaps{Probe: 2, Beat: 3, Lost: []time.Duration{0, 1, 4, 8}[take(4)]}
		h.LastProbe, h.LastBeat = time.Duration(take(6)), time.Duration(take(6))
		h.BecameUnhealthy, h.HasBeenHealthy = time.Duration(take(6)), take(2) == 1
		if h.State == Healthy {
			h.HasBeenHealthy = true
		}
		changes := func(at time.Duration) bool { next, _ := h.Next(at, g, false); return next != h.State }
		for now := time.Duration(5); ; {
			due := h.due(now, g)
			for at := now; at < min(due, end); at++ {
				if changes(at) {
					t.Fatalf("%+v with %+v changes at %d, and at %d it is due at %d", h, g, at, now, due)
				}
			}
			if due < now || due == now && !changes(now) {
				t.Fatalf("%+v with %+v changes nothing at %d, and is due at %d", h, g, now, due)
			}
			if due == now || due >= end {
				break
			}
			if !changes(due) && h.State != Unhealthy { // which may go from lacking a message to lacking consensus
				t.Fatalf("%+v with %+v is due at %d, and nothing changes", h, g, due)
			}
			now = due
		}
	}
}
