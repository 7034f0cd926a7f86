package lrp

import (
	"errors"
	"testing"
	"time"
)

// TestCrashPolicy walks an instance that crashes at once, 202 times.
func TestCrashPolicy(t *testing.T) {
	waits := map[int]time.Duration{1: 0, 2: 0, 3: 30 * time.Second, 4: time.Minute, 5: 2 * time.Minute, 6: 4 * time.Minute,
		7: 8 * time.Minute}
	x := Index{Key: key0, Ordinary: rowOf(t, "RUNNING self")}
	env := wantedEnv()
	for n := 1; n <= 202; n++ {
		var effects []Effect
		var err error
		x, effects, err = Step(x, Crash{By: alpha, Reason: "exited"}, env)
		if err != nil || x.Ordinary.CrashCount != n {
			t.Fatalf("crash %d: %v, count %d", n, err, x.Ordinary.CrashCount)
		}
		if !has(effects, CrashNoted{key0, alpha, n, "exited"}) {
			t.Fatalf("crash %d not noted: %v", n, effects)
		}
		want, known := waits[n]
		if !known {
			want = 16 * time.Minute
		}
		switch {
		case n > 200:
			if at, ever := env.Desired.Restart.RestartAt(x.Ordinary); ever || x.Ordinary.State != Crashed {
				t.Fatalf("crash %d: restarts at %v", n, at)
			}
			env.Now = env.Now.Add(24 * time.Hour)
			if y, effects, _ := Step(x, RestartCrashed{}, env); y.Ordinary.State != Crashed || effects != nil {
				t.Fatalf("crash %d: restarted", n)
			}
		case want == 0:
			if x.Ordinary.State != Unclaimed || !has(effects, RequestAuction{key0}) {
				t.Fatalf("crash %d: %v %v", n, x.Ordinary.State, effects)
			}
		default:
			env.Now = env.Now.Add(want - 1)
			if y, _, _ := Step(x, RestartCrashed{}, env); y.Ordinary.State != Crashed {
				t.Fatalf("crash %d: restarted too early", n)
			}
			env.Now = env.Now.Add(1)
			x, effects, _ = Step(x, RestartCrashed{}, env)
			if x.Ordinary.State != Unclaimed || x.Ordinary.CrashCount != n || !has(effects, RequestAuction{key0}) {
				t.Fatalf("crash %d: not restarted after %v", n, want)
			}
		}
		x.Ordinary = &Actual{Key: key0, Service: svc, State: Running, Identity: alpha, Since: env.Now, CrashCount: n}
	}
}

func TestCrashCountStartsAnew(t *testing.T) {
	row := rowOf(t, "RUNNING self")
	row.CrashCount = 7
	env := wantedEnv()
	for _, c := range []struct {
		ran  time.Duration
		want int
	}{{5*time.Minute - 1, 8}, {5 * time.Minute, 1}} {
		env.Now = t0.Add(c.ran)
		// Readiness flips on the way do not make the instance look younger.
		x, _, err := Step(Index{Key: key0, Ordinary: row}, Start{By: alpha, Net: Net{Address: "10.0.0.1"}}, env)
		if err != nil || !x.Ordinary.Since.Equal(t0) {
			t.Fatal(err, x.Ordinary.Since)
		}
		if x, _, _ = Step(x, Crash{By: alpha}, env); x.Ordinary.CrashCount != c.want {
			t.Errorf("after %v: count %d, want %d", c.ran, x.Ordinary.CrashCount, c.want)
		}
	}
	claimed := rowOf(t, "CLAIMED self")
	claimed.CrashCount = 7
	env.Now = t0.Add(time.Hour)
	if x, _, _ := Step(Index{Key: key0, Ordinary: claimed}, Crash{By: alpha}, env); x.Ordinary.CrashCount != 8 {
		t.Errorf("a long start is no long run: count %d", x.Ordinary.CrashCount)
	}
}

func TestRestartPolicyPerService(t *testing.T) {
	p := RestartPolicy{Immediate: 1, Base: time.Second, Max: 5 * time.Second, GiveUp: 6}
	for n, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 4: 5 * time.Second,
		6: 5 * time.Second} {
		if got, ok := p.Wait(n); !ok || got != want {
			t.Errorf("crash %d: %v %v, want %v", n, got, ok, want)
		}
	}
	if _, ok := p.Wait(7); ok {
		t.Error("did not give up")
	}
	if got, ok := (RestartPolicy{Immediate: -1}).Wait(1); !ok || got != 30*time.Second {
		t.Errorf("no immediate restart: %v", got)
	}
	if _, ok := (RestartPolicy{GiveUp: -1}).Wait(1000); !ok {
		t.Error("never give up gave up")
	}
	if _, ok := (RestartPolicy{Mode: RestartNever}).Wait(1); ok {
		t.Error("restarted although never")
	}
	for _, bad := range []RestartPolicy{{Immediate: -2}, {Base: -1}, {Base: time.Hour, Max: time.Minute}} {
		if err := bad.Validate(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if err := (RestartPolicy{Base: time.Hour}).Validate(); err != nil {
		t.Errorf("a long base alone: %v", err)
	}
}

func TestRestartOnFailure(t *testing.T) {
	env := wantedEnv()
	env.Desired.Restart.Mode = RestartOnFailure
	x := Index{Key: key0, Ordinary: rowOf(t, "RUNNING self")}
	y, _, _ := Step(x, Crash{By: alpha, Clean: true}, env)
	if y.Ordinary.State != Crashed || !y.Ordinary.Finished {
		t.Fatalf("%+v", y.Ordinary)
	}
	env.Now = env.Now.Add(24 * time.Hour)
	if z, _, _ := Step(y, RestartCrashed{}, env); z.Ordinary.State != Crashed {
		t.Error("restarted after a clean exit")
	}
	if y, _, _ := Step(x, Crash{By: alpha}, env); y.Ordinary.State != Unclaimed {
		t.Error("not restarted after a failure")
	}
}
