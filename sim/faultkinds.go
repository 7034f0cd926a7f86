package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cantina/worker"
)

// Fault is a kind of fault.
type Fault int

// The faults.
const (
	KillServer Fault = iota
	PauseServer
	CutStore
	UnknownCommit
	KillAgent
	PauseAgent
	PauseMachine
	Reboot
	CutLink
	CutCalls
	RoughNetwork
	Twin
	RestoreStore
	MoveStore
	DeleteJob
	BreakProbe
	OtherFlags
	Deregister
	HangWork
	FullStore
	// Of services and tasks: only in runs that have any.
	Drain
	FailWork
	ChangeService
	ChangeTask
	CorruptRow
	faultCount
)

// batchFaults is how many of the faults there are in runs without services and tasks.
const batchFaults = Drain

var faultNames = [faultCount]string{"kill server", "pause server", "cut store", "unknown commit", "kill agent",
	"pause agent",
	"pause machine", "reboot", "cut link", "cut calls", "rough network", "twin", "restore store", "move store",
	"delete job", "break probe",
	"other flags", "deregister", "hang work", "full store",
	"drain", "fail work", "change service", "change task", "corrupt row"}

// parseFaults reads the value of `cantina sim --faults`: all, none, or names with a comma
// between them.
func parseFaults(value string) ([]Fault, error) {
	switch value {
	case "all":
		return nil, nil
	case "none":
		return []Fault{}, nil
	}
	var out []Fault
	for name := range strings.SplitSeq(value, ",") {
		f := slices.Index(faultNames[:], strings.ReplaceAll(name, "-", " "))
		if f < 0 {
			return nil, fmt.Errorf("must be all, none, or some of %s", formatFaults(every()))
		}
		out = append(out, Fault(f))
	}
	return out, nil
}

// every returns all faults.
func every() []Fault {
	var out []Fault
	for f := range faultCount {
		out = append(out, f)
	}
	return out
}

// formatFaults prints the input of parseFaults.
func formatFaults(fs []Fault) string {
	switch {
	case fs == nil:
		return "all"
	case len(fs) == 0:
		return "none"
	}
	var names []string
	for _, f := range fs {
		names = append(names, strings.ReplaceAll(f.String(), " ", "-"))
	}
	return strings.Join(names, ",")
}

// String returns the fault's name.
func (f Fault) String() string { return faultNames[f] }

// timeouts draws the flags of one process: two sets, with different promises.
func (fs *faults) timeouts() worker.Timeouts {
	t := worker.Timeouts{Heartbeat: time.Second, HeartbeatGrace: 2 * time.Second, Healthcheck: 2 * time.Second,
		HealthcheckGrace: 2 * time.Second, Check: 500 * time.Millisecond, Lost: 6 * time.Second, KillWait: killWait,
		Margin: time.Second, DriftPerMille: 10, MaxDiesWithin: 20 * time.Second, Lease: leaseTTL,
		KeepAlive: 500 * time.Millisecond, LeaseDrift: leaseDrift}
	if fs.allowed(OtherFlags) && fs.w.chance(400) {
		t.Lost = 13 * time.Second
		fs.active[OtherFlags] = fs.w.now + 20*time.Second
	}
	return t
}

// between are the faults that need two processes.
var between = []Fault{Twin, CutLink, CutCalls, RoughNetwork, PauseAgent, PauseServer}

func (fs *faults) allowed(f Fault) bool {
	if fs.w.cfg.Alone && slices.Contains(between, f) {
		return false
	}
	return !fs.w.calm && (fs.w.cfg.Faults == nil || slices.Contains(fs.w.cfg.Faults, f))
}

func (fs *faults) kinds() Fault {
	if fs.w.mixed() {
		return faultCount
	}
	return batchFaults
}

const leaseDrift = 200 * time.Millisecond

// leaseTTL is the time to live of the election lease.
const leaseTTL = 2 * time.Second
