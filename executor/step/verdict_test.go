package step

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cantina/action"
)

// TestTheVerdictComesBeforeTheFirstSignal: the outcome of the whole tree is handed over before a program gets the
// stop signal, if it is known by then. Run returns the same outcome. Events during the end of the others change
// nothing.
func TestTheVerdictComesBeforeTheFirstSignal(t *testing.T) {
	serial := func(as ...action.Action) action.Action { return action.Action{Serial: as} }
	parallel := func(as ...action.Action) action.Action { return action.Action{Parallel: as} }
	codep := func(as ...action.Action) action.Action { return action.Action{Codependent: as} }
	try := func(a action.Action) action.Action { return action.Action{Try: &a} }
	after := func(d time.Duration, a action.Action) action.Action {
		return action.Action{Timeout: &action.Timeout{After: d, Action: a}}
	}
	fails, ignoresTerm := sh("a", "1s", "exit=4"), sh("b", "100s", "deaf")
	work := func(a action.Action) action.Workload { return action.Workload{Action: a} }
	const failed, exceeded, over = "a: exit status 4", "exceeded timeout of 1s", "time limit of 1s exceeded"
	for _, x := range []struct {
		name    string
		w       action.Workload
		stop    time.Duration
		decided string // with its time; empty = there is no verdict before the end
		err     string
	}{
		{"codependent", work(codep(fails, ignoresTerm)), 0, "1s decided: " + failed, failed},
		{"codependent, success", work(codep(sh("a", "1s"), ignoresTerm)), 0, "1s decided: " + ErrEnded.Error(),
			ErrEnded.Error()},
		{"codependent, forgiven", work(try(codep(fails, ignoresTerm))), 0, "1s decided: <nil>", ""},
		{"codependent within another", work(codep(codep(fails, ignoresTerm), sh("c", "50s"))), 0, "1s decided: " + failed,
			failed},
		{"codependent, deep", work(codep(serial(fails, sh("x")), serial(try(ignoresTerm), sh("x")))), 0, "1s decided: " +
			failed, failed},
		{"codependent, forgiven, and more to do", work(serial(try(codep(fails, ignoresTerm)), sh("c"))), 0, "", ""},
		{"codependent, and more to do", work(serial(codep(fails, ignoresTerm), sh("c"))), 0, "1s decided: " + failed, failed},
		{"codependent, last", work(serial(sh("c"), try(codep(fails, ignoresTerm)))), 0, "1s decided: <nil>", ""},
		{"codependent in setup", action.Workload{Setup: ptr(codep(fails, ignoresTerm)), Action: sh("c")}, 0,
			"1s decided: setup: " + failed, "setup: " + failed},
		{"forgiven in setup", action.Workload{Setup: ptr(try(codep(fails, ignoresTerm))), Action: sh("c")}, 0, "", ""},
		{"timeout", work(after(time.Second, ignoresTerm)), 0, "1s decided: " + exceeded, exceeded},
		{"timeout, forgiven", work(try(after(time.Second, ignoresTerm))), 0, "1s decided: <nil>", ""},
		{"timeout of parallel", work(after(time.Second, parallel(sh("a", "0.5s", "exit=7"), ignoresTerm, sh("c", "50s")))), 0,
			"1s decided: " + exceeded + "; a: exit status 7", exceeded + "; a: exit status 7"},
		{"timeout within a longer one", work(after(3*time.Second, after(time.Second, ignoresTerm))), 0, "1s decided: " +
			exceeded, exceeded},
		{"parallel, one still runs", work(parallel(after(time.Second, ignoresTerm), sh("c", "100s"))), 0, "", exceeded},
		{"parallel, then the other ends", work(parallel(after(time.Second, ignoresTerm), sh("c", "3s", "exit=5"))), 0,
			"3s decided: " + exceeded + "; c: exit status 5", exceeded + "; c: exit status 5"},
		{"time limit", action.Workload{Action: parallel(ignoresTerm, sh("c", "50s")), TimeLimit: time.Second}, 0,
			"1s decided: " + over, over},
		{"time limit, forgiving", action.Workload{Action: serial(try(ignoresTerm), sh("c")), TimeLimit: time.Second}, 0,
			"1s decided: " + over, over},
		{"time limit with sidecars", action.Workload{Action: ignoresTerm, Sidecars: []action.Action{sh("s", "100s")},
			TimeLimit: time.Second}, 0, "1s decided: " + over, over},
		{"codependent with sidecars", action.Workload{Action: codep(fails, ignoresTerm),
			Sidecars: []action.Action{sh("s", "5s")}}, 0, "1s decided: " + failed, failed},
		{"codependent sidecar", action.Workload{Action: sh("c", "5s"), Sidecars: []action.Action{codep(fails, ignoresTerm)}},
			0,
			"1s decided: sidecar 0: " + failed, "sidecar 0: " + failed},
		{"checked, forgiven", action.Workload{Action: try(after(time.Second, ignoresTerm)),
			Checks: []action.Check{{TCP: &action.TCPCheck{Port: "web"}}}}, 20 * time.Second, "", "canceled"},
		{"stopped meanwhile", work(codep(fails, ignoresTerm)), 3 * time.Second, "1s decided: " + failed, failed},
		{"time limit meanwhile", action.Workload{Action: codep(fails, ignoresTerm), TimeLimit: 3 * time.Second}, 0,
			"1s decided: " + failed, failed},
		{"stopped", work(codep(sh("c", "100s"), ignoresTerm)), time.Second, "", "canceled"},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := situation{w: x.w, stop: x.stop, err: x.err}
			synctest.Test(t, func(t *testing.T) {
				log := s.run(t)
				i := slices.IndexFunc(log, func(l string) bool { return strings.Contains(l, "decided: ") })
				switch {
				case x.decided == "" && i < 0:
				case i < 0 || log[i] != x.decided:
					t.Errorf("decided, want %q:\n %s", x.decided, strings.Join(log, "\n "))
				}
				stop := slices.IndexFunc(log, func(l string) bool { return strings.Contains(l, "stop ") })
				if x.decided != "" && !strings.HasPrefix(x.decided, "3s") && stop >= 0 && stop < i {
					t.Errorf("a signal before the verdict:\n %s", strings.Join(log, "\n "))
				}
			})
		})
	}
}
