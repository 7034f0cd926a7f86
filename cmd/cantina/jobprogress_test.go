package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	pb "cantina/wire/cantinav1"
)

// TestProgressOfAJob: printed from time to time while it changes, with its rate; while batch tasks
// run, a reason for those that wait is no news.
func TestProgressOfAJob(t *testing.T) {
	var out bytes.Buffer
	at := now()
	c := &cli{environment: environment{Err: &out, Now: func() time.Time { return at }}}
	p := &jobProgress{c: c}
	look := func(after time.Duration, done, failed, running int32) {
		at = at.Add(after)
		p.see(&pb.Job{Name: "j", State: "running", Counts: &pb.Counts{Total: 100, Done: done, Failed: failed,
			Running: running}})
		if p.busy() != (running > 0) {
			t.Errorf("busy %v with %d running", p.busy(), running)
		}
	}
	look(0, 10, 0, 5)
	look(time.Second, 20, 0, 5)
	look(9*time.Second, 58, 2, 5)
	look(9*time.Second, 58, 2, 0)
	look(9*time.Second, 60, 2, 1)
	want := "j: 58 of 100 done, 2 failed, 5 running, 5.0/s, ETA 8s\nj: 60 of 100 done, 2 failed, 1 running, 0.11/s, " +
		"ETA 5m\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", strings.Split(out.String(), "\n"), want)
	}
}
