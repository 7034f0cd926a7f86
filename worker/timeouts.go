package worker

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrTimeouts reports timeouts that cannot work together; its text has the violated inequality.
var ErrTimeouts = errors.New("impossible timeouts")

// longestDuration is more than any correct peer promises or pauses; sums of a few such
// durations do not overflow.
const longestDuration = 365 * 24 * time.Hour

// Timeouts are the flags of the session. Every field is a duration on CLOCK_BOOTTIME. The leader
// sends its own to each cell with each response.
type Timeouts struct {
	Heartbeat        time.Duration // interval of a cell's heartbeats
	HeartbeatGrace   time.Duration // silence beyond a period before UNHEALTHY
	Healthcheck      time.Duration // how often a cell is probed
	HealthcheckGrace time.Duration // how long a probe may take
	Check            time.Duration // how often deadlines are re-read
	Lost             time.Duration // UNHEALTHY for so long becomes MUST_DIE
	KillWait         time.Duration // SIGTERM to SIGKILL, and SIGKILL to gone
	Margin           time.Duration // longest stop of all clocks of a machine
	DriftPerMille    int           // how far two clock rates differ at most, in 1/1000
	MaxDiesWithin    time.Duration // the longest promise any leader may make, used when the list is not trusted
	Lease            time.Duration // TTL of the election lease
	KeepAlive        time.Duration // how often the lease is renewed
	LeaseDrift       time.Duration // taken off the lease by its holder
}

// DefaultTimeouts are for a LAN.
func DefaultTimeouts() Timeouts {
	return Timeouts{
		Heartbeat: 5 * time.Second, HeartbeatGrace: 10 * time.Second,
		Healthcheck: 10 * time.Second, HealthcheckGrace: 10 * time.Second,
		Check: time.Second, Lost: 60 * time.Second, KillWait: 5 * time.Second,
		Margin: 5 * time.Second, DriftPerMille: 10, MaxDiesWithin: 100 * time.Second,
		Lease: 5 * time.Second, KeepAlive: time.Second, LeaseDrift: 500 * time.Millisecond,
	}
}

// HeartbeatGap is the silence after which a session is UNHEALTHY.
func (t Timeouts) HeartbeatGap() time.Duration { return t.Heartbeat + t.HeartbeatGrace }

// HealthcheckGap is the time since the last answered probe was sent after which
// a session is UNHEALTHY.
func (t Timeouts) HealthcheckGap() time.Duration {
	return t.Healthcheck + t.HealthcheckGrace + t.Check
}

// DiesWithin is the promise: no deadline-bound work of a cell lives longer than
// this after the cell sent its last credited heartbeat.
func (t Timeouts) DiesWithin() time.Duration {
	return max(t.HeartbeatGap(), t.HealthcheckGap()) + t.Lost + t.KillWait
}

// Stretch returns the longest time that d on one machine's clock can take on
// another's, plus the margin: the wait that outlives a promise of d.
func (t Timeouts) Stretch(d time.Duration) time.Duration {
	return d + d*time.Duration(t.DriftPerMille)/1000 + t.Margin
}

// OwnLease is the TTL of the lease in a store that only one process can open at a time. No other server waits
// for its end, and the next process on the directory revokes it. So a stop of the machine, or a disk that is
// busy for seconds, need not end the term: the lease lasts half as long as a cell is silent before it is lost,
// as far as the drift of the clocks allows.
func (t Timeouts) OwnLease() time.Duration {
	own := t.Lost / 2
	if t.DriftPerMille > 0 {
		own = min(own, t.LeaseDrift*1000/time.Duration(t.DriftPerMille))
	}
	return max(t.Lease, own.Truncate(time.Second))
}

// LongestWait is how long a new leader holds old work at most if every promise was made by these
// timeouts.
func (t Timeouts) LongestWait() time.Duration { return t.Stretch(t.DiesWithin()) }

type inequality struct {
	name        string
	left, right time.Duration
	strict      bool
}

func (i inequality) holds() bool { return i.left < i.right || !i.strict && i.left == i.right }

func (i inequality) String() string {
	op := "<="
	if i.strict {
		op = "<"
	}
	return fmt.Sprintf("%s: %v %s %v", i.name, i.left, op, i.right)
}

func (t Timeouts) inequalities() []inequality {
	drift := func(d time.Duration) time.Duration { return d * time.Duration(t.DriftPerMille) / 1000 }
	return []inequality{
		{"0 < heartbeat", 0, t.Heartbeat, true},
		{"0 < heartbeat grace", 0, t.HeartbeatGrace, true},
		{"0 < healthcheck", 0, t.Healthcheck, true},
		{"0 < healthcheck grace", 0, t.HealthcheckGrace, true},
		{"0 < check interval", 0, t.Check, true},
		{"0 < kill wait", 0, t.KillWait, true},
		{"0 < margin", 0, t.Margin, true},
		{"0 <= drift in a second", 0, drift(time.Second), false},
		{"check interval < lost (the cell gives up one check interval earlier)", t.Check, t.Lost, true},
		{"drift of the session < check interval (the cell gives up first)",
			drift(max(t.HeartbeatGap(), t.HealthcheckGap()) + t.Lost), t.Check, true},
		{"heartbeat < healthcheck grace (a probe is dated by the beat before it)", t.Heartbeat, t.HealthcheckGrace, true},
		{"dies-within <= max-dies-within", t.DiesWithin(), t.MaxDiesWithin, false},
		{"max-dies-within <= a year", t.MaxDiesWithin, longestDuration, false},
		{"keep-alive + lease drift < lease", t.KeepAlive + t.LeaseDrift, t.Lease, true},
		{"drift of the lease <= lease drift", drift(t.Lease), t.LeaseDrift, false},
		{"lease < lost (a leader change loses no cell)", t.Lease, t.Lost, true},
	}
}

// Validate returns nil, or ErrTimeouts with every inequality that fails.
func (t Timeouts) Validate() error {
	var bad []string
	for _, i := range t.inequalities() {
		if !i.holds() {
			bad = append(bad, i.String()+" fails")
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrTimeouts, strings.Join(bad, "; "))
}

// Print returns the timeouts, derived values and the inequalities, one per line, for `server
// --print-timeouts`.
func (t Timeouts) Print() string {
	var b strings.Builder
	line := func(name string, v any) { fmt.Fprintf(&b, "%-22s %v\n", name, v) }
	line("heartbeat", t.Heartbeat)
	line("heartbeat-grace", t.HeartbeatGrace)
	line("healthcheck", t.Healthcheck)
	line("healthcheck-grace", t.HealthcheckGrace)
	line("check-interval", t.Check)
	line("lost", t.Lost)
	line("kill-wait", t.KillWait)
	line("margin", t.Margin)
	line("clock-drift", fmt.Sprintf("%d/1000", t.DriftPerMille))
	line("max-dies-within", t.MaxDiesWithin)
	line("lease", t.Lease)
	line("keep-alive", t.KeepAlive)
	line("lease-drift", t.LeaseDrift)
	line("= lease, own store", t.OwnLease())
	line("= unhealthy after", t.HeartbeatGap())
	line("= dies-within", t.DiesWithin())
	line("= longest wait", t.LongestWait())
	line("= longest wait, stale", t.Stretch(t.MaxDiesWithin))
	for _, i := range t.inequalities() {
		state := "ok  "
		if !i.holds() {
			state = "FAIL"
		}
		fmt.Fprintf(&b, "%s %s\n", state, i)
	}
	return b.String()
}
