package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"cantina/api"
	"cantina/internal/run"
	"cantina/internal/text"
	"cantina/lrp"
	"cantina/task"
	pb "cantina/wire/cantinav1"
)

func waitVerb(c *cli) *cobra.Command {
	var domain, until string
	var ownCode bool
	var sel selector
	cmd := &cobra.Command{
		Use:   "wait SUBJECT ... | -l SELECTOR",
		Short: "Wait until a task or job has ended, or a service is healthy",
		Long: "wait returns when every subject is in the state of --for, even if it reached it before. done " +
			"matches any end of a task or job; a removed subject counts as stopped. The exit code is the " +
			"program's for a single task, 1 for a job with failures, 6 for a lost task, and 4 after " +
			"--timeout.\n\n" + subjectHelp,
		Example: "  cantina wait count --timeout 10m\n" +
			"  cantina wait web --for healthy\n" +
			"  cantina wait -l app=shop --for healthy\n" +
			"  id=$(cantina run -d -- ./long.sh); cantina wait $id; echo $?",
		Args: sel.argsOr("SUBJECT"),
		RunE: func(_ *cobra.Command, args []string) error {
			var worst error
			each := func(s subject) error {
				err := c.detachable("cantina wait "+s.String(), nil, func(ctx context.Context) error {
					p := &jobProgress{c: c}
					defer startReasonsUnless(ctx, c, s, p.busy)()
					return waitFor(ctx, c, s, until, ownCode, p)
				})
				err = timedOut(c, s, err)
				var e *exit
				switch {
				case until == "stopped" && isCode(err, "not_found", "collected"):
					c.notef("%s is removed; it counts as stopped\n", s)
					return nil
				case err != nil && (!errors.As(err, &e) || e.err != nil || e.code == exitInterrupted):
					return err
				case worst == nil:
					worst = err
				}
				return waitedFor(c, s)
			}
			if err := eachToWaitFor(c, args, domain, &sel, until, each); err != nil {
				return err
			}
			return worst
		},
	}
	sel.add(cmd, "instead of SUBJECT: the services, jobs and tasks")
	domainFlag(cmd, &domain)
	choiceVar(cmd.Flags(), &until, "for", "", "", []string{"done", "healthy", "stopped"},
		"state to wait for: done (default for tasks and jobs), stopped, or healthy (default for services)")
	cmd.Flags().BoolVar(&ownCode, "client-exit-code", false, "exit with 0, 1 or 6 instead of the program's exit code")
	c.waiting(cmd)
	c.writing(cmd)
	cmd.Flags().Lookup("output").Usage = "print each resource at the end: table, wide, json, yaml, name or jsonl"
	return cmd
}

// eachToWaitFor finds the subjects of wait, each after the wait for the one before. Those that are gone count as
// stopped. With -l they are the kinds that have the state.
func eachToWaitFor(c *cli, args []string, domain string, sel *selector, until string, each func(subject) error) error {
	for _, a := range args {
		s, err := findSubject(c, a, domain)
		if exitOf(err) == api.ExitNotFound && until == "stopped" {
			c.notef("%q not found; it counts as stopped\n", a) // removed, and gone before we looked
			continue
		}
		if err != nil {
			return err
		}
		if err := each(s); err != nil {
			return err
		}
	}
	if len(args) > 0 {
		return nil
	}
	kinds := []string{"service", "job", "task"}
	switch until {
	case "healthy":
		kinds = kinds[:1]
	case "done":
		kinds = kinds[1:]
	}
	all, err := subjects(c, nil, domain, sel, true, kinds...)
	if exitOf(err) == api.ExitNotFound && until == "stopped" {
		c.notef("%v; all count as stopped\n", err)
		return nil
	}
	if err != nil {
		return err
	}
	for _, s := range all {
		if err := each(s); err != nil {
			return err
		}
	}
	return nil
}

// waitedFor prints a resource with -o; one that was removed is left out.
func waitedFor(c *cli, s subject) error {
	if !c.answers() {
		return nil
	}
	err := resourceOf(c, s)
	if isCode(err, "not_found", "collected") {
		return nil
	}
	return err
}

// waitFor waits for one subject.
func waitFor(ctx context.Context, c *cli, s subject, until string, ownCode bool, p *jobProgress) error {
	switch {
	case s.kind == "task" && (until == "" || until == "done" || until == "stopped"):
		t, err := waitTask(ctx, c, s.name)
		if err != nil {
			return err
		}
		return taskCode(c, t, ownCode)
	case s.kind == "job" && (until == "" || until == "done" || until == "stopped"):
		return waitJob(ctx, c, s, p)
	case (s.kind == "service" || s.kind == "instance") && (until == "" || until == "healthy" || until == "stopped"):
		return waitService(ctx, c, s, until == "stopped")
	}
	if until == "" {
		return failf(api.ExitUsage, "cannot wait for a %s", s.kind)
	}
	return failf(api.ExitUsage,
		"--for %q is not a state of a %s; use done or stopped for tasks and jobs, healthy or stopped "+
			"for services", until, s.kind)
}

// waitUntil calls look until it is satisfied: at once, and after each event of the
// stream q and each gap in it. look returns the position at which it looked. Nothing
// is missed, because the stream begins at that position.
func waitUntil(ctx context.Context, c *cli, q *pb.StreamEventsRequest,
	look func(context.Context) (done bool, position string, err error)) error {
	return waitUntilBut(ctx, c, q, func(*pb.Event) bool { return false }, look)
}

// waitUntilBut is waitUntil without a look after the events that skip.
func waitUntilBut(ctx context.Context, c *cli, q *pb.StreamEventsRequest, skip func(*pb.Event) bool,
	look func(context.Context) (done bool, position string, err error)) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	done, position, err := look(ctx)
	if err != nil || done {
		return err
	}
	q.Since = position
	return client.Events(ctx, q, func(m *pb.StreamEventsResponse) error {
		if m.Event == nil && m.Gap == nil || m.Event != nil && skip(m.Event) {
			return nil
		}
		done, _, err := look(ctx)
		if done && err == nil {
			return api.Stop()
		}
		return err
	})
}

// waitTask returns a task that has ended. The end of a cancelled one is known when its cell has reported
// it, or is certainly dead; a task that may still run on such a cell is not waited for.
func waitTask(ctx context.Context, c *cli, id string) (*pb.Task, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	var end *pb.Task
	err = waitUntil(ctx, c, &pb.StreamEventsRequest{Kind: []string{"task"}, Subject: id},
		func(ctx context.Context) (bool, string, error) {
			got, err := api.Call(ctx, client, calls.GetTask, &pb.GetTaskRequest{Id: id})
			if err != nil {
				return false, "", err
			}
			end = got.Task
			return end.State == task.Completed.String() || end.State == task.Resolving.String(), got.Position, nil
		})
	for err == nil && end.Ending {
		if err = run.Pause(ctx, endingPause); err != nil {
			break
		}
		var got *pb.GetTaskResponse
		switch got, err = api.Call(ctx, client, calls.GetTask, &pb.GetTaskRequest{Id: id}); {
		case err == nil:
			end = got.Task
		case isCode(err, "not_found", "collected"): // removed since
			return end, nil
		}
	}
	return end, err
}

// endingPause is the interval at which a task that is being ended is read: the death of its cell ends
// the wait without a change of the task.
const endingPause = 200 * time.Millisecond

// jobEnd returns a job that has ended. seen takes it whenever it has changed.
func jobEnd(ctx context.Context, c *cli, s subject, seen func(*pb.Job)) (*pb.Job, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	var end *pb.Job
	going := func(e *pb.Event) bool {
		if e.Job == nil || e.Gone {
			return false
		}
		seen(e.Job)
		return !jobEnded(e.Job.State)
	}
	err = waitUntilBut(ctx, c, &pb.StreamEventsRequest{Kind: []string{"job"}, Subject: s.domain + "/" + s.name}, going,
		func(ctx context.Context) (bool, string, error) {
			got, err := api.Call(ctx, client, calls.GetJob, &pb.GetJobRequest{Domain: s.domain, Name: s.name})
			if err != nil {
				return false, "", err
			}
			end = got.Job
			seen(end)
			return jobEnded(end.State), got.Position, nil
		})
	return end, err
}

func waitJob(ctx context.Context, c *cli, s subject, p *jobProgress) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	end, err := jobEnd(ctx, c, s, p.see)
	if err != nil {
		return err
	}
	if end.State == "empty" {
		c.notef("%s has no nodes; see cantina explain %[1]s\n", s)
	}
	if end.State == "failed" || end.State == "invalid" {
		c.notef("%s %s: %d of %d failed%s%s\n", s, end.State, end.Counts.Failed, end.Counts.Total, strandedText(end),
			whyInvalid(end))
		noteFailed(ctx, c, client, s)
		return code(api.ExitFailed)
	}
	return nil
}

// strandedText returns how many nodes another job permanently keeps from running.
func strandedText(j *pb.Job) string {
	if n := j.Counts.GetStranded(); n > 0 {
		return fmt.Sprintf(", %d cannot run", n)
	}
	return ""
}

// noteFailed names the failed nodes, as explain does, and a remedy.
func noteFailed(ctx context.Context, c *cli, client *api.Client, s subject) {
	got, err := api.Call(ctx, client, calls.Explain, &pb.ExplainRequest{Subject: s.wire()})
	if err != nil {
		return
	}
	for _, r := range got.Reasons {
		text := printable(r.Text)
		if r.Change != "" {
			text += "; " + printable(r.Change)
		}
		c.notef("  %s\n", text)
	}
}

func whyInvalid(j *pb.Job) string {
	if j.State == "invalid" && j.Reason != "" {
		return ": " + printable(j.Reason)
	}
	return ""
}

func jobEnded(state string) bool {
	switch state {
	case "done", "failed", "empty", "invalid", "removed":
		return true
	}
	return false
}

// knownInstance refuses an index that its service has not.
func knownInstance(ctx context.Context, c *cli, s subject) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	got, err := api.Call(ctx, client, calls.GetService, &pb.GetServiceRequest{Domain: s.domain, Name: s.name})
	if err == nil && s.index >= got.Service.Instances {
		err = failf(api.ExitNotFound, "service %s has %d instances and no index %d", s.name, got.Service.Instances, s.index)
	}
	return err
}

// failedRollout reports whether the newest applied version has failed permanently: it was rolled
// back, or is left as it is.
func failedRollout(x *pb.Service) error {
	if x.Failure == "" || x.Phase == lrp.RollingOut.String() || x.Phase == lrp.RollingBack.String() {
		return nil
	}
	text := "; not rolled back"
	if x.Phase == lrp.Steady.String() {
		text = fmt.Sprintf("; rolled back to version %d", x.Version)
	}
	return failf(api.ExitFailed, "service %s: the rollout failed: %s%s", x.Name, printable(x.Failure), text)
}

// waitService waits until a service, or one instance of it, is healthy or stopped.
func waitService(ctx context.Context, c *cli, s subject, stopped bool) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	if s.kind == "instance" && !stopped {
		if err := knownInstance(ctx, c, s); err != nil {
			return err
		}
	}
	// An event of a cell may confirm the state of its work.
	q := &pb.StreamEventsRequest{Kind: []string{"service", "instance", "cell"}}
	others := func(e *pb.Event) bool { return e.Kind != "cell" && e.Domain != s.domain }
	return waitUntilBut(ctx, c, q, others, func(ctx context.Context) (bool, string, error) {
		if s.kind == "instance" {
			healthy, there, at, err := lookAtInstance(ctx, client, s)
			return healthy && !stopped || stopped && !there, at, err
		}
		l, err := api.Call(ctx, client, calls.ListInstances,
			&pb.ListInstancesRequest{Domain: s.domain, Service: s.name, Page: &pb.Page{Limit: 1}})
		if err != nil {
			return false, "", err
		}
		if stopped {
			return len(l.Instances) == 0, l.Listing.Position, nil
		}
		got, err := api.Call(ctx, client, calls.GetService, &pb.GetServiceRequest{Domain: s.domain, Name: s.name})
		if err != nil {
			return false, "", err
		}
		x := got.Service
		if err := failedRollout(x); err != nil {
			return false, "", err
		}
		return x.Routable == x.Instances && x.Unconfirmed+x.Stopping == 0 &&
			x.Phase == lrp.Steady.String(), l.Listing.Position, nil
	})
}

// lookAtInstance searches all pages for one instance: whether it is healthy, and whether any of
// its rows is on a cell. at is the position of the first page, so that a change on a later one is
// not missed.
func lookAtInstance(ctx context.Context, client *api.Client, s subject) (healthy, there bool, at string, err error) {
	q := &pb.ListInstancesRequest{Domain: s.domain, Service: s.name, State: []string{"CLAIMED", "RUNNING"}}
	err = pages(func(cursor string) (string, error) {
		q.Page = &pb.Page{Limit: api.MaxPage, Cursor: cursor}
		l, err := api.Call(ctx, client, calls.ListInstances, q)
		if at == "" {
			at = l.GetListing().GetPosition()
		}
		for _, x := range l.GetInstances() {
			there = there || x.Index == s.index
			healthy = healthy || x.Routable && x.UnconfirmedReason == "" && x.Index == s.index
		}
		return l.GetListing().GetNext(), err
	})
	return healthy, there, at, err
}

// exactly and atLeast are argument checks that name the missing argument.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return failf(api.ExitUsage, "%s takes %s, %s, not %d; see %s --help", cmd.CommandPath(), text.Count(n, "argument"),
				what, len(args), cmd.CommandPath())
		}
		return nil
	}
}

func atLeast(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return failf(api.ExitUsage, "%s needs %s; see %s --help", cmd.CommandPath(), what, cmd.CommandPath())
		}
		return nil
	}
}

func atMost(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n && n == 0 {
			return failf(api.ExitUsage, "%s takes no argument %q; see %[1]s --help", cmd.CommandPath(), args[0])
		}
		if len(args) > n {
			return failf(api.ExitUsage, "%s takes at most %s, %s; see %s --help", cmd.CommandPath(), text.Count(n, "argument"),
				what, cmd.CommandPath())
		}
		return nil
	}
}

// group is a noun whose verbs are its commands.
func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	var examples string
	for i, s := range subs {
		if s.Example != "" && i < 3 {
			if examples != "" {
				examples += "\n"
			}
			examples += s.Example
		}
	}
	cmd := &cobra.Command{
		Use: use, Short: short, Example: examples,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return failf(api.ExitUsage, "unknown verb %q of %s%s", args[0], cmd.Name(), hintFor(cmd, args[0]))
			}
			return failf(api.ExitUsage, "%s needs a verb; see %s --help", cmd.CommandPath(), cmd.CommandPath())
		},
	}
	cmd.AddCommand(subs...)
	return cmd
}
