package step

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"cantina/action"
	"cantina/executor/place"
	"cantina/internal/run"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a container whose programs are described by their arguments: "5s" runs so long, "exit=3" ends with that
// status, "deaf" ignores the stop signal, "immortal" KILL too, "say=x" writes x. It logs all with the time.
type fake struct {
	t     *testing.T
	start time.Time
	root  string

	mu       sync.Mutex
	log      []string
	open     int
	failing  map[string]bool // programs that cannot be started
	sick     map[string]int  // programs and ports: how many more attempts fail
	attempts map[string]int
	addr     string // of real servers
}

func newFake(t *testing.T) *fake {
	return &fake{t: t, start: time.Now(), root: t.TempDir(), failing: map[string]bool{}, sick: map[string]int{},
		attempts: map[string]int{}}
}

func (f *fake) say(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := time.Since(f.start).Round(time.Millisecond)
	f.log = append(f.log, fmt.Sprintf("%v %s", at, fmt.Sprintf(format, args...)))
}

func (f *fake) Note(line string) { f.say("note: %s", line) }
func (f *fake) Waiting(string)   {}
func (f *fake) Running()         { f.say("RUNNING") }
func (f *fake) Routable(ok bool) { f.say("routable %v", ok) }
func (f *fake) Decided(r Result) {
	if !errors.Is(r.Err, ErrCanceled) {
		f.say("decided: %v", r.Err)
	}
}

// failNow reports whether this attempt fails.
func (f *fake) failNow(what string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.attempts[what]++
	if f.sick[what] > 0 {
		f.sick[what]--
		return true
	}
	return false
}

func (f *fake) setSick(what string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sick[what] = n
}

func (f *fake) Dial(ctx context.Context, port string) (net.Conn, error) {
	if f.addr != "" {
		return (&net.Dialer{}).DialContext(ctx, "tcp", f.addr)
	}
	if f.failNow(port) {
		return nil, errors.New("connection refused")
	}
	a, b := net.Pipe()
	b.Close()
	return a, nil
}

func (f *fake) Full() error { return nil }

func (f *fake) Local(_ context.Context, path string) (string, func() error, error) {
	return path, func() error { return nil }, nil
}

func (f *fake) Place(path string) (Place, error) {
	if strings.HasPrefix(path, "/forbidden") {
		return Place{}, errors.New("not a place")
	}
	return Place{Place: place.Place{Root: f.root, Path: path}}, nil
}

type fakeProcess struct {
	f    *fake
	name string
	done chan struct{}
	kill chan int
	exit Exit
}

func (f *fake) Start(_ context.Context, l Launch) (Process, error) {
	name := l.Run.Path
	if f.failing[name] {
		return nil, errors.New("no such file")
	}
	p := &fakeProcess{f: f, name: name, done: make(chan struct{}), kill: make(chan int, 10)}
	var d time.Duration
	for _, a := range l.Run.Args {
		if n, err := time.ParseDuration(a); err == nil {
			d = n
		}
		if n, ok := strings.CutPrefix(a, "exit="); ok {
			p.exit.Code, _ = strconv.Atoi(n)
		}
		if s, ok := strings.CutPrefix(a, "say="); ok && l.Out != nil {
			fmt.Fprintln(l.Out, s)
		}
	}
	if l.Check && f.failNow(name) {
		p.exit.Code = 1
	}
	if !l.Check {
		f.say("start %s", name)
	}
	f.mu.Lock()
	f.open++
	f.mu.Unlock()
	go p.live(max(d, 1), slices.Contains(l.Run.Args, "deaf"), slices.Contains(l.Run.Args, "immortal"), l.Check)
	return p, nil
}

func (p *fakeProcess) live(d time.Duration, ignoresTerm, immortal, check bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	for ended := false; !ended; {
		select {
		case <-t.C:
			ended = true
		case sig := <-p.kill:
			p.exit.Stopped = true
			if sig == 9 && !immortal || sig == 15 && !ignoresTerm {
				p.exit, ended = Exit{Signal: sig, Stopped: true}, true
			}
		}
	}
	if !check {
		p.f.say("end %s", p.name)
	}
	p.f.mu.Lock()
	p.f.open--
	p.f.mu.Unlock()
	close(p.done)
}

func (p *fakeProcess) Done() <-chan struct{} { return p.done }
func (p *fakeProcess) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}
func (p *fakeProcess) Exit() Exit { <-p.done; return p.exit }
func (p *fakeProcess) Stop()      { p.f.say("stop %s", p.name); p.kill <- 15 }
func (p *fakeProcess) Kill()      { p.kill <- 9 }

func sh(name string, args ...string) action.Action {
	return action.Action{Run: &action.Run{Path: name, Args: args}}
}

func ptr(a action.Action) *action.Action { return &a }

// situation is a workload and its expected events, in virtual time.
type situation struct {
	name   string
	w      action.Workload
	stop   time.Duration // ctx ends then; 0 = never
	before func(f *fake)
	log    []string // in order
	err    string
	is     error
}

func TestSituations(t *testing.T) {
	httpCheck := func() action.Check { return action.Check{TCP: &action.TCPCheck{Port: "web"}} }
	for _, s := range []situation{
		{name: "one program", w: action.Workload{Action: sh("a", "1s")},
			log: []string{"0s start a", "0s RUNNING", "0s routable true", "1s end a"}},
		{name: "one program that fails", w: action.Workload{Action: sh("a", "1s", "exit=3")}, err: "a: exit status 3",
			log: []string{"0s start a", "0s RUNNING", "0s routable true", "1s end a"}},
		{name: "program that cannot be started", w: action.Workload{Action: sh("a")},
			err:    "a: cannot be started: no such file",
			before: func(f *fake) { f.failing["a"] = true }},
		{name: "nothing", w: action.Workload{}, err: "empty action", is: ErrEmpty},
		{name: "setup first", w: action.Workload{Setup: ptr(sh("s", "1s")), Action: sh("a", "1s")},
			log: []string{"0s start s", "1s end s", "1s start a", "1s RUNNING", "1s routable true", "2s end a"}},
		{name: "setup fails", w: action.Workload{Setup: ptr(sh("s", "1s", "exit=1")), Action: sh("a")},
			err: "setup: s: exit status 1",
			log: []string{"0s start s", "1s end s"}},
		{name: "serial stops at the first error",
			w:   action.Workload{Action: action.Action{Serial: []action.Action{sh("a"), sh("b", "exit=1"), sh("c")}}},
			err: "b: exit status 1", log: []string{"0s start a", "0s RUNNING", "0s routable true", "0s end a", "0s start b",
				"0s end b"}},
		{name: "parallel waits for all and joins errors", err: "a: exit status 1; c: exit status 2",
			w: action.Workload{Action: action.Action{Parallel: []action.Action{sh("a", "1s", "exit=1"), sh("b", "3s"),
				sh("c", "2s", "exit=2")}}}},
		{name: "codependent: success ends the others", is: ErrEnded,
			w:   action.Workload{Action: action.Action{Codependent: []action.Action{sh("a", "1s"), sh("b", "100s")}}},
			err: "ended, which ends the others too"},
		{name: "codependent: failure ends the others", err: "a: exit status 4",
			w: action.Workload{Action: action.Action{Codependent: []action.Action{sh("a", "1s", "exit=4"), sh("b", "100s")}}}},
		{name: "try swallows errors",
			w:   action.Workload{Action: action.Action{Serial: []action.Action{{Try: ptr(sh("a", "exit=1"))}, sh("b")}}},
			log: []string{"0s start a", "0s RUNNING", "0s routable true", "0s end a", "0s start b", "0s end b"}},
		{name: "try does not swallow the end", stop: time.Second, is: ErrCanceled, err: "canceled",
			w: action.Workload{Action: action.Action{Serial: []action.Action{{Try: ptr(sh("a", "9s"))}, sh("b")}}}},
		{name: "timeout", err: "exceeded timeout of 2s",
			w:   action.Workload{Action: action.Action{Timeout: &action.Timeout{Action: sh("a", "9s"), After: 2 * time.Second}}},
			log: []string{"0s start a", "0s RUNNING", "0s routable true", "2s decided: exceeded timeout of 2s", "2s end a"}},
		{name: "timeout not reached", err: "a: exit status 1",
			w: action.Workload{Action: action.Action{Timeout: &action.Timeout{Action: sh("a", "1s", "exit=1"),
				After: 2 * time.Second}}}},
		{name: "timeout within try goes on", w: action.Workload{Action: action.Action{Serial: []action.Action{
			{Try: ptr(action.Action{Timeout: &action.Timeout{Action: sh("a", "9s"), After: time.Second}})}, sh("b")}}},
			log: []string{"0s start a", "0s RUNNING", "0s routable true", "1s end a", "1s start b", "1s end b"}},
		{name: "timeout with a part that fails first", err: "exceeded timeout of 2s; b: exit status 7",
			w: action.Workload{Action: action.Action{Timeout: &action.Timeout{After: 2 * time.Second,
				Action: action.Action{Parallel: []action.Action{sh("a", "9s"), sh("b", "1s", "exit=7")}}}}}},
		{name: "progress", err: "b: exit status 1", w: action.Workload{Action: action.Action{Serial: []action.Action{
			{EmitProgress: &action.EmitProgress{Action: sh("a"), Start: "begin", Success: "good"}},
			{EmitProgress: &action.EmitProgress{Action: sh("b", "exit=1"), Start: "again", FailureMessagePrefix: "bad"}}}}},
			log: []string{"0s note: begin", "0s start a", "0s RUNNING", "0s routable true", "0s end a", "0s note: good",
				"0s note: again", "0s start b", "0s end b", "0s note: bad: b: exit status 1"}},
		{name: "stop: signal heeded", stop: time.Second, w: action.Workload{Action: sh("a", "100s")}, is: ErrCanceled,
			err: "canceled",
			log: []string{"0s start a", "0s RUNNING", "0s routable true", "1s end a"}},
		{name: "stop: KILL after the default grace", stop: time.Second, w: action.Workload{Action: sh("a", "100s", "deaf")},
			is: ErrCanceled, err: "canceled",
			log: []string{"0s start a", "0s RUNNING", "0s routable true", "11s end a"}},
		{name: "stop: KILL after the own grace", stop: time.Second, is: ErrCanceled, err: "canceled",
			w:   action.Workload{Action: sh("a", "100s", "deaf"), Termination: action.Termination{Grace: 3 * time.Second}},
			log: []string{"0s start a", "0s RUNNING", "0s routable true", "4s end a"}},
		{name: "stop: KILL at once", stop: time.Second, is: ErrCanceled, err: "canceled",
			w:   action.Workload{Action: sh("a", "100s", "deaf"), Termination: action.Termination{Mode: action.KillNow}},
			log: []string{"0s start a", "0s RUNNING", "0s routable true", "1s end a"}},
		{name: "stop: KILL left to the reaper", stop: time.Second, is: ErrCanceled, err: "canceled",
			w:   action.Workload{Action: sh("a", "100s", "deaf"), Termination: action.Termination{Mode: action.KillTerm}},
			log: []string{"0s start a", "0s RUNNING", "0s routable true", "1m40s end a"}},
		{name: "stop: a program that nothing ends is given up", stop: time.Second, is: ErrStuck,
			w: action.Workload{Action: sh("a", "100s", "deaf", "immortal"),
				Termination: action.Termination{Grace: time.Second}},
			err: "canceled; a: did not end although it was killed"},
		{name: "time limit", w: action.Workload{Action: sh("a", "100s"), TimeLimit: 5 * time.Second}, is: ErrTimeLimit,
			err: "time limit of 5s exceeded",
			log: []string{"0s start a", "0s RUNNING", "0s routable true", "5s decided: time limit of 5s exceeded", "5s end a"}},
		{name: "time limit covers setup", w: action.Workload{Setup: ptr(sh("s", "100s")), Action: sh("a"),
			TimeLimit: 5 * time.Second}, is: ErrTimeLimit,
			err: "time limit of 5s exceeded", log: []string{"0s start s", "5s decided: time limit of 5s exceeded", "5s end s"}},
		{name: "sidecars end with the action", w: action.Workload{Action: sh("a", "2s"),
			Sidecars: []action.Action{sh("s", "100s")}}},
		{name: "a sidecar that ends, ends all", err: "sidecar 0: ended, which ends the others too", is: ErrEnded,
			w: action.Workload{Action: sh("a", "100s"), Sidecars: []action.Action{sh("s", "2s")}}},
		{name: "a sidecar that fails, ends all", err: "sidecar 1: t: exit status 9",
			w: action.Workload{Action: sh("a", "100s"), Sidecars: []action.Action{sh("s", "100s"), sh("t", "2s", "exit=9")}}},
		{name: "check passes at the third attempt", stop: 10 * time.Second, is: ErrCanceled, err: "canceled",
			before: func(f *fake) { f.sick["web"] = 2 },
			w:      action.Workload{Action: sh("a", "100s"), Checks: []action.Check{httpCheck()}, StartTimeout: 5 * time.Second},
			log: []string{"0s start a", "0s note: waiting for the health checks to pass", "300ms note: container became healthy",
				"300ms RUNNING",
				"300ms routable true", "10s end a"}},
		{name: "never healthy", is: ErrUnhealthy, before: func(f *fake) { f.sick["web"] = 1000 },
			w:   action.Workload{Action: sh("a", "100s"), Checks: []action.Check{httpCheck()}, StartTimeout: 5 * time.Second},
			err: "unhealthy: never healthy within 5s (6 attempts): TCP check of port web: connection refused",
			log: []string{"0s start a", "0s note: waiting for the health checks to pass",
				"5s note: not healthy within 5s: the start-up checks never passed",
				"5s decided: unhealthy: never healthy within 5s (6 attempts): TCP check of port web: connection refused",
				"5s end a"}},
		{name: "healthy, then a check fails", is: ErrUnhealthy, err: "unhealthy: TCP check of port web: connection refused",
			before: func(f *fake) { time.AfterFunc(40*time.Second, func() { f.setSick("web", 1) }) },
			w: action.Workload{Action: sh("a", "1000s"),
				Checks: []action.Check{httpCheck(), {Exec: &action.Run{Path: "probe"}}}},
			log: []string{"0s start a", "0s note: waiting for the health checks to pass", "0s note: container became healthy",
				"0s RUNNING", "0s routable true",
				"1m0s note: container became unhealthy: TCP check of port web: connection refused", "1m0s routable false",
				"1m0s decided: unhealthy: TCP check of port web: connection refused", "1m0s end a"}},
		{name: "program check says why", is: ErrUnhealthy,
			err:    "unhealthy: never healthy within 1s (4 attempts): probe: exit status 1: no database",
			before: func(f *fake) { f.sick["probe"] = 1000 },
			w: action.Workload{Action: sh("a", "100s"), StartTimeout: time.Second, Checks: []action.Check{
				{Exec: &action.Run{Path: "probe", Args: []string{"say=no database"}}}}}},
		{name: "check that hangs is timed out", is: ErrUnhealthy,
			err: "unhealthy: never healthy within 3s (2 attempts): check probe: timed out after 1s",
			w: action.Workload{Action: sh("a", "100s"), StartTimeout: 3 * time.Second, Checks: []action.Check{
				{Exec: &action.Run{Path: "probe", Args: []string{"1h", "deaf"}}}}}},
		{name: "action in the background: the checks decide", is: ErrUnhealthy,
			err:    "unhealthy: TCP check of port web: connection refused",
			before: func(f *fake) { time.AfterFunc(45*time.Second, func() { f.setSick("web", 1) }) },
			w:      action.Workload{Action: sh("a", "1s"), Checks: []action.Check{httpCheck()}}},
		{name: "checked action that fails", err: "a: exit status 2",
			w: action.Workload{Action: sh("a", "50s", "exit=2"), Checks: []action.Check{httpCheck()}}},
		{name: "monitor action", is: ErrUnhealthy, err: "unhealthy: m: exit status 1",
			before: func(f *fake) { f.sick["m"] = 1; time.AfterFunc(50*time.Second, func() { f.setSick("m", 1) }) },
			w:      action.Workload{Action: sh("a", "100s"), Monitor: ptr(sh("m"))},
			log: []string{"0s start a", "0s note: waiting for the health checks to pass", "100ms note: container became healthy",
				"100ms RUNNING",
				"100ms routable true", "1m0.1s note: container became unhealthy: m: exit status 1", "1m0.1s routable false",
				"1m0.1s decided: unhealthy: m: exit status 1", "1m0.1s end a"}},
		{name: "readiness comes and goes", stop: 100 * time.Second, is: ErrCanceled, err: "canceled",
			before: func(f *fake) { f.sick["ready"] = 1; time.AfterFunc(20*time.Second, func() { f.setSick("ready", 3) }) },
			w: action.Workload{Action: sh("a", "1000s"), Checks: []action.Check{httpCheck()}, ReadinessChecks: []action.Check{
				{TCP: &action.TCPCheck{Port: "ready"}, StartupInterval: time.Second, Interval: 30 * time.Second}}},
			log: []string{"0s start a", "0s note: waiting for the health checks to pass", "0s note: container became healthy",
				"0s RUNNING",
				"100ms routable true", "100ms note: readiness checks pass: routable", "30.1s routable false",
				"30.1s note: readiness check failed: not routable: TCP check of port ready: connection refused",
				"30.8s routable true",
				"30.8s note: readiness checks pass: routable", "1m40s end a"}},
		{name: "readiness without checks", stop: 10 * time.Second, is: ErrCanceled, err: "canceled",
			w: action.Workload{Action: sh("a", "1000s"),
				ReadinessChecks: []action.Check{{TCP: &action.TCPCheck{Port: "ready"}}}},
			log: []string{"0s start a", "0s RUNNING", "0s routable true", "0s note: readiness checks pass: routable",
				"10s end a"}},
	} {
		t.Run(s.name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { s.run(t) }) })
	}
}

// run returns the events, including the stop signals.
func (s situation) run(t *testing.T) []string {
	f := newFake(t)
	if s.before != nil {
		s.before(f)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if s.stop > 0 {
		defer time.AfterFunc(s.stop, cancel).Stop()
	}
	r := New(nil, run.Bubble()).Run(ctx, &s.w, Spent{}, f, f)
	if Reason(r.Err) != s.err {
		t.Errorf("error %q, want %q", Reason(r.Err), s.err)
	}
	if s.is != nil && !errors.Is(r.Err, s.is) {
		t.Errorf("error %v is not %v", r.Err, s.is)
	}
	if errors.Is(r.Err, ErrStuck) {
		<-r.Process.Done() // in the end it goes
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	all := slices.Clone(f.log)
	f.log = slices.DeleteFunc(f.log, func(l string) bool { return strings.Contains(l, " stop ") })
	if f.open != 0 {
		t.Errorf("%d programs still run", f.open)
	}
	if s.log != nil && !slices.Equal(f.log, s.log) {
		t.Errorf("happened:\n %s\nwanted:\n %s", strings.Join(f.log, "\n "), strings.Join(s.log, "\n "))
	}
	return all
}

// TestALateStartTimeoutLooksOnceMore: a cell that was stopped has not polled meanwhile, and must not judge without
// a poll.
func TestALateStartTimeoutLooksOnceMore(t *testing.T) {
	for failures, want := range map[int]string{7: "",
		100: "unhealthy: never healthy within 1m0s (8 attempts): probe: exit status 1"} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t)
			begin := time.Now()
			boot := func() time.Duration { // it stops after its first look
				now := time.Since(begin)
				if now > 50*time.Millisecond {
					now += time.Hour
				}
				return now
			}
			f.setSick("probe", failures)
			w := action.Workload{Action: sh("a", "20s"), StartTimeout: time.Minute,
				Checks: []action.Check{{Exec: sh("probe").Run, StartupInterval: 2 * time.Hour, Interval: time.Hour}}}
			w.Sidecars = []action.Action{sh("s", "1h")}
			r := New(nil, run.Clock{Boot: boot}).Run(t.Context(), &w, Spent{}, f, f)
			if Reason(r.Err) != want {
				t.Errorf("%d failures: %q\n%s", failures, Reason(r.Err), strings.Join(f.log, "\n"))
			}
		})
	}
}

func TestResultNamesTheProgramThatDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		r := New(nil, run.Bubble()).Run(t.Context(),
			&action.Workload{Setup: ptr(sh("s")), Action: action.Action{Serial: []action.Action{sh("a"), sh("b")}}}, Spent{}, f,
			f)
		if r.Process.(*fakeProcess).name != "b" {
			t.Errorf("success: %v", r.Process)
		}
		r = New(nil, run.Bubble()).Run(t.Context(),
			&action.Workload{Action: action.Action{Parallel: []action.Action{sh("a", "1s", "exit=1"), sh("b", "2s")}}}, Spent{},
			f, f)
		if p := r.Process.(*fakeProcess); p.name != "a" || p.Exit().Code != 1 {
			t.Errorf("failure: %v", r.Process)
		}
	})
}

func TestLongReasonsLoseTheirMiddle(t *testing.T) {
	long := errors.New("begin" + strings.Repeat("é", 20_000) + "end")
	got := Reason(long)
	if len(got) > maxReason || !strings.HasPrefix(got, "begin") || !strings.HasSuffix(got, "end") ||
		!strings.Contains(got, " … ") {
		t.Errorf("%d bytes, %.20q", len(got), got)
	}
	if Reason(nil) != "" {
		t.Error("a reason without error")
	}
}
