package lrp

import (
	"fmt"
	"testing"
	"time"

	"cantina/action"
)

// bare are instances of which only the first version has rows, or no version; nothing is healthy.
type bare struct{ top map[string]int }

func (bare) Unhealthy(string, int, time.Duration, time.Time) (int, time.Time) {
	return 0, time.Time{}
}
func (b bare) Exists(process string, i int) bool { return i < b.top[process] }
func (b bare) Top(process string) int            { return b.top[process] }
func (bare) Cause(string, int) string            { return "" }

// TestSupersededVersionsAreForgotten: a service is restarted again and again without a healthy instance. It keeps
// the versions with rows, the wanted one, and the last good one; a failed rollout returns to that one.
func TestSupersededVersionsAreForgotten(t *testing.T) {
	for _, good := range []bool{false, true} {
		d := Desired{Service: ServiceKey{"d", "s"}, Instances: 2,
			Workload: action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/false"}}}}
		now := time.Unix(1e9, 0)
		s, err := Apply(nil, d, "v0", now)
		if err != nil {
			t.Fatal(err)
		}
		in := bare{map[string]int{"v0": 2}}
		if good {
			s.Versions[0].Good, s.Phase = true, Steady
		}
		for i := 1; i <= 100; i++ {
			now = now.Add(time.Second)
			s = s.Restart(fmt.Sprint("v", i), now)
			s, _ = s.Roll(in, now)
			if len(s.Versions) > 3 || s.Target().Process != fmt.Sprint("v", i) || s.Versions[0].Process != "v0" {
				t.Fatalf("good %v, restart %d: %d versions, the first is %s", good, i, len(s.Versions), s.Versions[0].Process)
			}
			if why := checkService(s); why != "" {
				t.Fatal(why)
			}
		}
		s, _ = s.Roll(in, now.Add(time.Hour))
		if want := map[bool]Phase{false: RollFailed, true: RollingBack}[good]; s.Phase != want || good &&
			s.Target().Process != "v0" {
			t.Errorf("good %v: %v, the target is %s", good, s.Phase, s.Target().Process)
		}
	}
}
