package robust

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"cantina/api"
	pb "cantina/wire/cantinav1"
)

// TestAScheduledSignalReachesItsService: each running instance gets it once, and the history has the number and the
// instances that were not reached. The death of the leader does not change the signals that it sent.
func TestAScheduledSignalReachesItsService(t *testing.T) {
	w := newWitness(t)
	c := startCluster(t, patient, 2, 2)
	apply(t, c.addr(), fmt.Sprintf(`
domain: d
services:
  web:
    instances: 4
    command: 'trap "echo $$ >>%[1]s/got" USR1; echo up >>%[1]s/up; while :; do sleep 0.1; done'
schedules:
  reload:
    cron: "0 0 1 1 *"
    timezone: UTC
    signal: {service: web, signal: USR1}
  nobody:
    cron: "0 0 1 1 *"
    timezone: UTC
    signal: {service: gone, signal: HUP}
`, w.dir))
	must(t, c.addr(), "wait", "web", "--domain", "d")
	if !w.until(patience, func() bool { return len(w.lines("up")) == 4 }) {
		t.Fatalf("%d of 4 instances began", len(w.lines("up")))
	}
	if out := must(t, c.addr(), "cron", "ls"); !strings.Contains(out, "signal USR1 to web") {
		t.Errorf("cron ls does not show the signal:\n%s", out)
	}
	must(t, c.addr(), "cron", "run", "reload", "--domain", "d")
	c.reported("reload", "signal sent to 4 of 4, by hand")
	if !w.until(patience, func() bool { return len(w.lines("got")) == 4 }) {
		t.Fatalf("%d of 4 instances got the signal", len(w.lines("got")))
	}
	must(t, c.addr(), "cron", "run", "nobody", "--domain", "d")
	c.reported("nobody", "signal not sent: service \"gone\" not found in domain \"d\", by hand")

	c.cells["c2"].signal(syscall.SIGSTOP)
	must(t, c.addr(), "cron", "run", "reload", "--domain", "d")
	last := c.reported("reload", "signal sent to 2 of 4; not reached: instance")
	if !strings.Contains(last, "on cell c2: it did not answer, and may have got it") {
		t.Errorf("the history has %q", last)
	}
	was := c.status()
	c.servers[was.Leader].kill()
	c.startServer(was.Leader).wait()
	c.reported("reload", last)
	c.cells["c2"].signal(syscall.SIGCONT)
	c.session("c2", "HEALTHY")
	// The two on c1 got both; those on c2 the first, and the second or not: never more.
	per := map[string]int{}
	for _, pid := range w.lines("got") {
		per[pid]++
	}
	for pid, n := range per {
		if n > 2 {
			t.Errorf("process %s got the signal %d times, two were sent", pid, n)
		}
	}
	if n := len(w.lines("got")); n < 6 || n > 8 {
		t.Errorf("the signal arrived %d times, want 6 to 8", n)
	}
}

// reported waits until the newest line of a schedule's history begins so, and returns it.
func (c *cluster) reported(name, want string) string {
	c.t.Helper()
	last := ""
	err := until(c.t.Context(), c.client(), &pb.StreamEventsRequest{Kind: []string{"schedule"}}, func() bool {
		got, err := api.Call(c.t.Context(), c.client(), calls.GetSchedule, &pb.GetScheduleRequest{Domain: "d", Name: name})
		if err != nil {
			return false
		}
		if h := got.Schedule.History; len(h) > 0 {
			last = h[len(h)-1].Text
		}
		return strings.HasPrefix(last, want)
	})
	if err != nil {
		c.t.Fatalf("schedule %s has %q, not %q: %v", name, last, want, err)
	}
	return last
}
