package robust

import (
	"fmt"
	"testing"
	"time"

	"cantina/store/etcdtest"
)

// TestStoreCutOff cuts the server from its store for longer than its lease: the
// process stays up, services go on in the same processes, nothing starts twice, and
// schedules fire again soon after the store is back.
func TestStoreCutOff(t *testing.T) {
	w := newWitness(t)
	e := etcdtest.Start(t)
	proxy := etcdtest.StartProxy(t, e.Addr)
	c := newCluster(t, proxy.Endpoint, patient).start(1, 1)
	apply(t, c.addr(), fmt.Sprintf(`
domain: d
services:
  web: {command: [%[1]s, web, sleep, '1000'], stop_grace: 1s}
schedules:
  tick:
    cron: '@every 1s'
    misfire: skip
    task: {command: [sh, -c, 'exec %[1]s "$CANTINA_SCHEDULED_AT" true']}
`, w.command()))
	must(t, c.addr(), "wait", "web", "--timeout", "100s")
	fired := func() int { return len(w.begun()) }
	if !w.until(patience, func() bool { return fired() > 3 }) {
		t.Fatal("the schedule does not fire")
	}
	was := c.status().Term
	proxy.Set(etcdtest.DropRequests)
	proxy.Cut()
	cut := time.Duration(soak(12, 60)) * time.Second
	w.until(cut, func() bool { return false })
	select {
	case <-c.servers["s1"].ended:
		t.Fatalf("the server ended while its store was away: %v", c.servers["s1"].err)
	default:
	}
	before := fired()
	proxy.Set(etcdtest.Forward)
	proxy.Cut()
	healed := time.Now()
	if !w.until(patience, func() bool { return fired() > before }) {
		t.Fatalf("no firing within %v of the store's return", patience)
	}
	took := time.Since(healed)
	t.Logf("cut for %v, fires again after %v", cut, took.Round(time.Millisecond))
	if took > 10*time.Second {
		t.Errorf("the first firing came %v after the store was back", took)
	}
	if now := c.status().Term; now == was {
		t.Errorf("the term is still %s after %v without a store", was, cut)
	}
	must(t, c.addr(), "wait", "web", "--timeout", "100s")
	for id, list := range w.begun() {
		if len(list) != 1 {
			t.Errorf("%s was started %d times", id, len(list))
		}
	}
}
