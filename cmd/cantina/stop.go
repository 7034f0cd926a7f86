package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"cantina/api"
	"cantina/internal/text"
	pb "cantina/wire/cantinav1"
)

func stopVerb(c *cli) *cobra.Command {
	var domain string
	var g graceFlags
	var sel selector
	cmd := &cobra.Command{
		Use:   "stop SUBJECT ... | -l SELECTOR",
		Short: "Stop services, tasks and jobs; keep their definitions",
		Long: "stop scales a service to 0 instances, cancels a task, or pauses a job and ends its running " +
			"batch tasks.\n" +
			"\n" + subjectHelp,
		Example: "  cantina stop web\n" +
			"  cantina stop web --grace 5s\n" +
			"  cantina stop task/4f1c job/count --now\n" +
			"  cantina stop -l app=shop,tier!=db",
		Args: sel.argsOr("SUBJECT"),
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := subjects(c, args, domain, &sel, false, "service", "job", "task")
			if err != nil {
				return err
			}
			return eachSubject(c, all, func(s subject) (string, error) { return stopOne(c, s, &g) })
		},
	}
	sel.add(cmd, "instead of SUBJECT: the services, jobs and unfinished tasks")
	g.add(cmd)
	domainFlag(cmd, &domain)
	c.waiting(cmd)
	return c.writing(cmd)
}

// eachSubject does something to each subject, and joins the answers.
func eachSubject(c *cli, all []subject, do func(subject) (string, error)) error {
	var errs []error
	var done []*structpb.Struct
	for _, s := range all {
		said, err := do(s)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s, err))
			continue
		}
		c.notef("%s: %s\n", s, said)
		done = append(done, fact(map[string]any{"subject": s.String(), "kind": s.kind, "domain": s.domain, "result": said}))
	}
	if err := answers(c, factTable("subject", "result"), done); err != nil {
		errs = append(errs, err)
	}
	if len(all) == 1 || len(errs) == 1 {
		return errors.Join(errs...)
	}
	for _, err := range errs {
		c.sayf("%v\n", err)
	}
	if len(errs) == 0 {
		return nil
	}
	return code(exitOf(errs[0]))
}

func stopOne(c *cli, s subject, g *graceFlags) (string, error) {
	switch s.kind {
	case "instance":
		if g.given() {
			return hurryInstance(c, s, g)
		}
	case "service", "task", "job", "node":
		said, expected, err := stopIt(c, s)
		if err != nil {
			return said, err
		}
		more, err := g.shorten(c, s, expected)
		return said + more, err
	}
	return "", cannotStop(s)
}

// hurryInstance shortens the end of an instance that is being stopped.
func hurryInstance(c *cli, s subject, g *graceFlags) (string, error) {
	got, err := call(c, calls.ShortenStop, &pb.ShortenStopRequest{Subject: s.wire(), Grace: durationpb.New(g.grace)})
	if err == nil && got.Ending == 0 {
		err = failf(api.ExitFailed, "it is not being stopped; use cantina restart %s --now", s)
	}
	if err != nil {
		return "", err
	}
	return strings.TrimPrefix(g.text(int(got.Shortened)), ", "), nil
}

// stopIt stops a subject, and returns how much it ends, as far as that is known.
func stopIt(c *cli, s subject) (said string, ended int, err error) {
	switch s.kind {
	case "service":
		_, err := call(c, calls.ScaleService, &pb.ScaleServiceRequest{Domain: s.domain, Name: s.name})
		return "scaled to 0", 0, err
	case "task":
		said, err := stopTask(c, s.name)
		return said, 0, err
	case "job":
		if _, err := call(c, calls.PauseJob, &pb.PauseJobRequest{Domain: s.domain, Name: s.name, Paused: true}); err != nil {
			return "", 0, err
		}
		got, err := call(c, calls.KillJob, &pb.KillJobRequest{Domain: s.domain, Name: s.name})
		return "paused, " + beingEnded(got.GetKilled()), int(got.GetKilled()), err
	}
	got, err := call(c, calls.KillJob, &pb.KillJobRequest{Domain: s.domain, Name: s.name, Node: s.node})
	return beingEnded(got.GetKilled()), int(got.GetKilled()), err
}

// cannotStop names what to use for a subject that cannot be stopped.
func cannotStop(s subject) error {
	if s.kind == "instance" {
		return failf(api.ExitUsage, "a stopped instance would start again; use cantina restart %s, or scale the service", s)
	}
	instead := "to pause it: cantina cron pause " + s.domain + "/" + s.name
	if s.kind == "cell" {
		instead = "to move its work away: cantina drain " + s.name + " --reason WHY"
	}
	return failf(api.ExitUsage, "cannot stop a %s; %s", s.kind, instead)
}

// stopTask cancels a task. One that has ended is as it should be.
func stopTask(c *cli, id string) (string, error) {
	_, err := call(c, calls.CancelTask, &pb.CancelOneTaskRequest{Id: id})
	if !isCode(err, "conflict", "lost_unresolved") {
		return "cancelled", err
	}
	got, gone := call(c, calls.GetTask, &pb.GetTaskRequest{Id: id})
	if gone != nil || got.Task.Outcome == "" {
		return "", err
	}
	return "already ended, " + got.Task.Outcome, nil
}

func rmVerb(c *cli) *cobra.Command {
	var domain string
	var force bool
	var g graceFlags
	var sel selector
	cmd := &cobra.Command{
		Use:   "rm SUBJECT ... | -l SELECTOR",
		Short: "Remove services, tasks, jobs and schedules",
		Long: "rm deletes a service or a job and stops its processes, and removes a finished task. It removes " +
			"a schedule; tasks and jobs that it has started continue. A name that a schedule shares with its " +
			"runs means the schedule. For an unfinished task use --force: " +
			"it cancels the task and waits until its container is gone, but its work may be done in part.\n" +
			"\n" + subjectHelp,
		Example: "  cantina rm web --yes\n" +
			"  cantina rm task/4f1c --yes\n" +
			"  cantina rm -l app=shop --yes",
		Args: sel.argsOr("SUBJECT"),
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := toRemove(c, args, domain, &sel)
			if err != nil {
				return err
			}
			return eachSubject(c, all, func(s subject) (string, error) { return rmOne(c, s, force, &g) })
		},
	}
	sel.add(cmd, "instead of SUBJECT: the services, jobs, schedules and tasks")
	domainFlag(cmd, &domain)
	g.add(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "cancel an unfinished task and wait until its container is gone")
	c.needYes(cmd)
	c.waiting(cmd)
	return c.writing(cmd)
}

// toRemove asks before it looks up arguments, and lists the subjects that -l selects when it asks.
func toRemove(c *cli, args []string, domain string, sel *selector) ([]subject, error) {
	if len(args) > 0 {
		if err := c.confirm("remove %s", strings.Join(args, ", ")); err != nil {
			return nil, err
		}
		return subjects(c, args, domain, sel, true)
	}
	// Schedules first: a later firing would start work that is already removed.
	all, err := subjects(c, nil, domain, sel, true, "schedule", "service", "job", "task")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range all {
		names = append(names, s.String())
	}
	return all, c.confirm("remove %s", strings.Join(names, ", "))
}

func rmOne(c *cli, s subject, force bool, g *graceFlags) (string, error) {
	switch s.kind {
	case "service", "job":
		ends, err := removeWork(c, s)
		if err != nil {
			return "", err
		}
		more, err := g.shorten(c, s, ends)
		return "removed" + more, err
	case "schedule":
		_, err := call(c, calls.RemoveSchedule, &pb.RemoveScheduleRequest{Domain: s.domain, Name: s.name})
		return "removed", err
	case "task":
		_, err := call(c, calls.DeleteTask, &pb.DeleteTaskRequest{Id: s.name})
		if force && isCode(err, "conflict", "ending") {
			err = rmByForce(c, s, g)
		}
		return "removed", err
	}
	switch s.kind {
	case "instance":
		return "", failf(api.ExitUsage,
			"a removed instance would start again; scale with cantina service scale %s/%s N, remove all with "+
				"cantina rm service/%[1]s/%[2]s", s.domain, s.name)
	case "node":
		return "", failf(api.ExitUsage,
			"nodes come from the job's node sources; to end work on this node: cantina job kill %s/%s --node %s", s.domain,
			s.name, s.node)
	}
	return "", failf(api.ExitUsage, "cannot remove a %s; to declare a cell process dead: cantina cells forget PROC",
		s.kind)
}

// removeWork removes a service or a job, and returns how many batch tasks that ends.
func removeWork(c *cli, s subject) (ends int, err error) {
	if s.kind == "service" {
		_, err = call(c, calls.RemoveService, &pb.RemoveServiceRequest{Domain: s.domain, Name: s.name})
		return 0, err
	}
	got, err := call(c, calls.GetJob, &pb.GetJobRequest{Domain: s.domain, Name: s.name})
	if err == nil {
		_, err = call(c, calls.RemoveJob, &pb.RemoveJobRequest{Domain: s.domain, Name: s.name})
	}
	return int(got.GetJob().GetCounts().GetRunning()), err
}

// rmPause is the interval at which rm --force checks whether a container is gone.
const rmPause = 300 * time.Millisecond

// rmByForce cancels a task that has not ended, and removes it when its container is gone.
func rmByForce(c *cli, s subject, g *graceFlags) error {
	id := s.name
	if _, err := call(c, calls.CancelTask, &pb.CancelOneTaskRequest{Id: id}); err != nil && !isCode(err, "conflict") {
		return err
	}
	if _, err := g.shorten(c, s, 0); err != nil {
		return err
	}
	ctx, cancel := c.limited()
	defer cancel()
	if _, err := waitTask(ctx, c, id); err != nil {
		return err
	}
	for {
		_, err := call(c, calls.DeleteTask, &pb.DeleteTaskRequest{Id: id})
		if !isCode(err, "ending") {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(rmPause):
		}
	}
}

func restartVerb(c *cli) *cobra.Command {
	var domain string
	var allAtOnce bool
	var g graceFlags
	var sel selector
	cmd := &cobra.Command{
		Use:   "restart SERVICE[/INDEX] ... | -l SELECTOR",
		Short: "Restart the instances of services",
		Long: "restart replaces the instances of a service by the rules of an update: in batches, start-first " +
			"or stop-first as configured, with rollback when it makes no progress. A single instance " +
			"SERVICE/INDEX, or with --all-at-once every instance, is stopped and started at once.",
		Example: "  cantina restart web\n" +
			"  cantina restart web --all-at-once\n" +
			"  cantina restart web/0\n" +
			"  cantina restart -l app=shop",
		Args: sel.argsOr("SERVICE[/INDEX]"),
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := subjects(c, args, domain, &sel, false, "service")
			if err != nil {
				return err
			}
			return eachSubject(c, all, func(s subject) (string, error) {
				q := &pb.RestartServiceRequest{Domain: s.domain, Name: s.name, AllAtOnce: allAtOnce}
				rolling := ""
				switch s.kind {
				case "service":
					if !allAtOnce {
						rolling = ", a few at a time; to wait for it: cantina wait " + s.String()
					}
				case "instance":
					q.Index = []int32{s.index}
				default:
					return "", failf(api.ExitUsage, "cannot restart a %s; only services can be restarted", s.kind)
				}
				if rolling != "" && g.given() {
					return "", failf(api.ExitUsage, "--now and --grace need --all-at-once, or an instance "+
						"like %s/0: a rolling restart stops its instances later", s)
				}
				got, err := call(c, calls.RestartService, q)
				if err != nil {
					return "", err
				}
				more, err := g.shorten(c, s, 0)
				return text.CountAs(got.GetRestarted(), "instance restarts", "instances restart") + rolling + more, err
			})
		},
	}
	g.add(cmd)
	sel.add(cmd, "instead of SERVICE: the services")
	cmd.Flags().BoolVar(&allAtOnce, "all-at-once", false, "stop and start all instances at the same time")
	domainFlag(cmd, &domain)
	c.waiting(cmd)
	return c.writing(cmd)
}
