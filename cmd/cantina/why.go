package main

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode"

	"cantina/api"
	"cantina/task"
	pb "cantina/wire/cantinav1"
)

// whyAfter is how long something may be awaited before the reason is printed, and
// how often the reason is looked at.
const whyAfter = 2 * time.Second

// restRunning is how many looks are left out while a task runs.
const restRunning = 4

// every is a ticker of the machine, or of the test.
func (c *cli) every(d time.Duration) (<-chan time.Time, func()) {
	if c.Ticks != nil {
		return c.Ticks, func() {}
	}
	t := time.NewTicker(d)
	return t.C, t.Stop
}

// startReasons starts printReasons; the function that it returns ends it.
func startReasons(ctx context.Context, c *cli, s subject) func() {
	return startReasonsUnless(ctx, c, s, func() bool { return false })
}

// startReasonsUnless is startReasons; while busy reports true, no reason is looked for.
func startReasonsUnless(ctx context.Context, c *cli, s subject, busy func() bool) func() {
	ctx, cancel := context.WithCancel(ctx)
	reported := make(chan struct{})
	go func() { defer close(reported); printReasons(ctx, c, s, busy) }()
	return func() { cancel(); <-reported }
}

// printReasons prints why a resource is not in its desired state, each reason once, until ctx is
// done. For a running task it prints only that its cell is silent.
func printReasons(ctx context.Context, c *cli, s subject, busy func() bool) {
	client, err := c.client()
	if err != nil {
		return
	}
	tick, stop := c.every(whyAfter)
	defer stop()
	start := c.Now()
	last, isUnconfirmed, rest := "", false, 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		if rest > 0 {
			rest--
			continue
		}
		if busy() {
			continue
		}
		x, err := api.Call(ctx, client, calls.Explain, &pb.ExplainRequest{Subject: s.wire()})
		if err != nil {
			continue // the waiting verb reports errors of the connection
		}
		unconfirmedReason := unconfirmed(x.Reasons)
		running := s.kind == "task" && !strings.HasPrefix(x.State, task.Pending.String())
		if x.Fine || len(x.Reasons) == 0 || running && unconfirmedReason == nil {
			if isUnconfirmed {
				c.notef("waiting for %s: its cell reports again\n", short(c.Now().Sub(start)))
			}
			last, isUnconfirmed = "", false
			if running {
				rest = restRunning
			}
			continue
		}
		isUnconfirmed = unconfirmedReason != nil
		// Times and amounts move all the while; that is no new reason.
		r := mainReason(x.Reasons)
		if kind := r.Code + withoutNumbers(r.Text); kind != last {
			last = kind
			c.notef("waiting for %s: %s\n", short(c.Now().Sub(start)), reasonText(r))
		}
	}
}

// mainReason returns the reason to print if there is room for one: the progress of a rollout is
// printed first, and the cause of its delay after it. An unconfirmed state comes before all.
func mainReason(rs []*pb.Reason) *pb.Reason {
	if r := unconfirmed(rs); r != nil {
		return r
	}
	if len(rs) > 1 && rs[0].Code == "rolling_out" {
		return rs[1]
	}
	return rs[0]
}

// withoutNumbers removes digits, and the units and signs between them.
func withoutNumbers(s string) string {
	words := strings.Fields(s)
	kept := words[:0]
	for _, w := range words {
		if !strings.ContainsFunc(w, unicode.IsDigit) {
			kept = append(kept, w)
		}
	}
	return strings.Join(kept, " ")
}

func reasonText(r *pb.Reason) string {
	text := r.Text
	if r.Longest != nil {
		text += ", at most " + r.Longest.AsDuration().Round(time.Second).String()
	}
	if r.Change != "" {
		text += "; " + r.Change
	}
	return printable(text)
}

// lastWord limits the call that finds the reason after a timed-out wait.
const lastWord = 3 * time.Second

// timedOut reports the state of an awaited resource after the timeout, the reason, and that it
// continues. Other errors are unchanged.
func timedOut(c *cli, s subject, err error) error {
	var remote *api.Error
	if !errors.As(err, &remote) || remote.Exit != api.ExitTimeout {
		return err
	}
	text := "timed out: " + s.String()
	client, failed := c.client()
	if failed != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.ctx, lastWord)
	defer cancel()
	if x, err := api.Call(ctx, client, calls.Explain, &pb.ExplainRequest{Subject: s.wire()}); err == nil {
		text += " is " + printable(x.State)
		if len(x.Reasons) > 0 && !x.Fine {
			text += ": " + reasonText(mainReason(x.Reasons))
		}
	}
	if s.kind == "job" {
		if got, err := api.Call(ctx, client, calls.GetJob, &pb.GetJobRequest{Domain: s.domain, Name: s.name}); err == nil {
			text += "; " + printable(progressText(got.Job, nil))
		}
	}
	if s.kind == "service" || s.kind == "instance" || s.kind == "cell" {
		return failf(api.ExitTimeout, "%s\n"+
			"still in progress; see cantina explain %s", text, s)
	}
	return failf(api.ExitTimeout, "%s\n"+
		"still in progress; follow it with cantina logs -f %s, stop it with cantina stop %s", text, s, s)
}
