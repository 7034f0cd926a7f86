package worker

import (
	"fmt"
	"testing"
	"time"
)

// TestWords are those that people, logs and statuses have of each value.
func TestWords(t *testing.T) {
	for want, v := range map[string]fmt.Stringer{
		"NEW": New, "UNHEALTHY": Unhealthy, "HEALTHY": Healthy, "MUST_DIE": MustDie, "State(9)": State(9),
		"welcome": Welcome, "refused": Refused, "die": Die, "die-all": DieAll, "foreign": Foreign, "adopt": Adopt,
		"unknown verdict": Verdict(9),
		"unknown":         RunUnknown, "ok": RunOK, "never sent": RunNeverSent, "stale_invocation": RunStale,
		"RunResult?": RunResult(9),
		"deregister": ProofDeregistered, "expiry": ProofExpiry, "successor on its directory": ProofSuccessor,
		"machine rebooted": ProofBoot, "operator's word": ProofOperator, "unknown proof": Proof(9),
		"real": Real, "never started": NeverStarted, "lost": Lost, "unknown end": Synthetic(9),
		"may start": HoldNone, "taken back": HoldVetoed, "no longer the leader": HoldDeposed, "j/n": Work{"j", "n"},
	} {
		if v.String() != want {
			t.Errorf("%q, want %q", v, want)
		}
	}
	if RunRefused.String() != "refused" || HoldReason(99).String() != "unknown" || Proof(9).Words() != "unknown proof" {
		t.Error(RunRefused, HoldReason(99), Proof(9).Words())
	}
}

// TestEdgesOfNames: the first and the last letter and digit, and their neighbours.
func TestEdgesOfNames(t *testing.T) {
	for name, ok := range map[CellName]bool{"a": true, "z": true, "0": true, "9": true, "`": false, "{": false, "/": false,
		":": false} {
		if err := name.Check(); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestTheEdgeOfEachInequality: the least time-out that is possible, and the side on which equal ones stand.
func TestTheEdgeOfEachInequality(t *testing.T) {
	// Changes of a time-out are small, so that no other inequality fails.
	for name, c := range map[string]struct {
		set func(*Timeouts)
		ok  bool
	}{
		"heartbeat of 1 ns":         {func(t *Timeouts) { t.Heartbeat = 1 }, true},
		"heartbeat grace of 1 ns":   {func(t *Timeouts) { t.HeartbeatGrace = 1 }, true},
		"healthcheck of 1 ns":       {func(t *Timeouts) { t.Healthcheck = 1 }, true},
		"no healthcheck":            {func(t *Timeouts) { t.Healthcheck = 0 }, false},
		"healthcheck grace of 2 ns": {func(t *Timeouts) { t.Heartbeat, t.HealthcheckGrace = 1, 2 }, true},
		"check interval of 1 ns":    {func(t *Timeouts) { t.Check, t.DriftPerMille = 1, 0 }, true},
		"kill wait of 1 ns":         {func(t *Timeouts) { t.KillWait = 1 }, true},
		"margin of 1 ns":            {func(t *Timeouts) { t.Margin = 1 }, true},
		"no drift":                  {func(t *Timeouts) { t.DriftPerMille = 0 }, true},
		"drift as long as the check interval": {func(t *Timeouts) {
			t.Check, t.HealthcheckGrace, t.Lost = 900*time.Millisecond, 10*sec-900*time.Millisecond, 70*sec
		}, false},
		"a little less": {func(t *Timeouts) {
			t.Check, t.HealthcheckGrace, t.Lost = 900*time.Millisecond, 10*sec-900*time.Millisecond, 70*sec-100
		}, true},
		"heartbeat one below the grace":    {func(t *Timeouts) { t.HealthcheckGrace = t.Heartbeat + 1 }, true},
		"the longest promise is this one":  {func(t *Timeouts) { t.MaxDiesWithin = t.DiesWithin() }, true},
		"the longest promise is a year":    {func(t *Timeouts) { t.MaxDiesWithin = 365 * 24 * time.Hour }, true},
		"keep-alive ends with the lease":   {func(t *Timeouts) { t.KeepAlive = t.Lease - t.LeaseDrift }, false},
		"keep-alive ends before the lease": {func(t *Timeouts) { t.KeepAlive = t.Lease - t.LeaseDrift - 1 }, true},
		"lease drift just enough":          {func(t *Timeouts) { t.LeaseDrift = 50 * time.Millisecond }, true},
		"lease as long as lost":            {func(t *Timeouts) { t.Lease, t.LeaseDrift = t.Lost, 2*sec }, false},
		"lease shorter than lost":          {func(t *Timeouts) { t.Lease, t.LeaseDrift = t.Lost-1, 2*sec }, true},
		"check as long as lost": {func(t *Timeouts) {
			t.Check, t.Lost, t.Lease, t.LeaseDrift, t.KeepAlive = sec, sec, sec/2, sec/10, sec/10
		}, false},
		"check shorter than lost": {func(t *Timeouts) {
			t.Check, t.Lost, t.Lease, t.LeaseDrift, t.KeepAlive = sec, sec+1, sec/2, sec/10, sec/10
		}, true},
	} {
		to := DefaultTimeouts()
		c.set(&to)
		if err := to.Validate(); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTheDefaults as `server --print-timeouts` shows them.
func TestTheDefaults(t *testing.T) {
	small := DefaultTimeouts()
	small.Heartbeat, small.HealthcheckGrace = 1, 1
	if err := small.Validate(); err == nil ||
		err.Error() != "impossible timeouts: heartbeat < healthcheck grace (a probe is dated by the beat before it): "+
			"1ns < 1ns fails" {
		t.Error(err)
	}
	const want = `heartbeat              5s
heartbeat-grace        10s
healthcheck            10s
healthcheck-grace      10s
check-interval         1s
lost                   1m0s
kill-wait              5s
margin                 5s
clock-drift            10/1000
max-dies-within        1m40s
lease                  5s
keep-alive             1s
lease-drift            500ms
= lease, own store     30s
= unhealthy after      15s
= dies-within          1m26s
= longest wait         1m31.86s
= longest wait, stale  1m46s
ok   0 < heartbeat: 0s < 5s
`
	if got := DefaultTimeouts().Print(); len(got) < len(want) || got[:len(want)] != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if s := (inequality{"n", 2, 3, false}).String(); s != "n: 2ns <= 3ns" {
		t.Error(s)
	}
}

// TestHealthInFull has the state after each step, at the edges of the limits.
func TestHealthInFull(t *testing.T) {
	g := Gaps{Probe: 5, Beat: 7, Lost: 20}
	since := func(s State, unhealthy, healthy, probe, beat time.Duration, been bool) Health {
		return Health{State: s, BecameUnhealthy: unhealthy, BecameHealthy: healthy, LastProbe: probe, LastBeat: beat,
			HasBeenHealthy: been}
	}
	for name, c := range map[string]struct {
		from    Health
		now     time.Duration
		allowed bool
		want    Health
		blocked bool
	}{
		"becomes HEALTHY": {since(Unhealthy, 1, 0, 9, 9, false), 10, true, since(Healthy, 1, 10, 9, 9, true),
			false},
		"stays HEALTHY": {since(Healthy, 1, 4, 9, 9, true), 10, false, since(Healthy, 1, 4, 9, 9, true),
			false},
		"HEALTHY at the probe's limit": {since(Healthy, 1, 4, 5, 9, true), 10, true, since(Healthy, 1, 4, 5, 9, true),
			false},
		"the probe is too old": {since(Healthy, 1, 4, 5, 9, true), 11, true, since(Unhealthy, 10, 4, 5, 9, true),
			false},
		"the heartbeat is too old": {since(Healthy, 1, 4, 15, 5, true), 13, true, since(Unhealthy, 12, 4, 15, 5, true),
			false},
		"the limit passed before that": {since(Healthy, 1, 12, 5, 5, true), 13, true, since(Unhealthy, 12, 12, 5, 5, true),
			false},
		"may not become HEALTHY": {since(Unhealthy, 1, 0, 9, 9, false), 10, false,
			since(Unhealthy, 1, 0, 9, 9, false), true},
		"UNHEALTHY for as long as it may": {since(Unhealthy, 1, 0, 1, 1, true), 21, true, since(Unhealthy, 1, 0, 1, 1, true),
			false},
		"UNHEALTHY for longer": {since(Unhealthy, 1, 0, 1, 1, true), 22, true, since(MustDie, 1, 0, 1, 1, true), false},
		"NEW for longer":       {since(New, 1, 0, 22, 22, false), 22, true, since(MustDie, 1, 0, 22, 22, false), false},
		"MUST_DIE stays":       {since(MustDie, 1, 0, 22, 22, true), 22, true, since(MustDie, 1, 0, 22, 22, true), false},
	} {
		h := c.from
		if blocked := h.Advance(c.now, g, c.allowed); h != c.want || blocked != c.blocked {
			t.Errorf("%s: %+v, blocked %v", name, h, blocked)
		}
	}
	fresh := Health{BecameUnhealthy: 3, LastProbe: never, LastBeat: never}
	if NewHealth(3) != fresh {
		t.Errorf("%+v", NewHealth(3))
	}
}
