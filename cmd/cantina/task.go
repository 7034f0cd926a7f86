package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cantina/api"
	"cantina/task"
	pb "cantina/wire/cantinav1"
)

func taskTable(c *cli) table[*pb.Task] {
	return table[*pb.Task]{
		id: func(x *pb.Task) string { return x.Id },
		columns: []column[*pb.Task]{
			{name: "ID", whole: true, text: func(x *pb.Task) string { return x.Id }},
			{name: "DOMAIN", spare: 2, text: func(x *pb.Task) string { return x.Domain }},
			{name: "NAME", spare: 1, text: func(x *pb.Task) string { return x.Name }},
			{name: "STATE", text: func(x *pb.Task) string { return x.State }},
			{name: "OUTCOME", text: func(x *pb.Task) string { return x.Outcome }},
			{name: "CODE", spare: 4, text: taskCodeText},
			{name: "CELL", spare: 5, text: func(x *pb.Task) string { return x.Cell }},
			{name: "CREATED", text: func(x *pb.Task) string { return c.when(x.Created) }},
			{name: "ENDED", spare: 3, text: func(x *pb.Task) string { return c.when(x.Ended) }},
			{name: "NOTE", text: taskNote},
			{name: "REJECTIONS", wide: true, text: func(x *pb.Task) string { return number(x.Rejections) }},
			{name: "UID", wide: true, text: func(x *pb.Task) string { return x.Uid }},
			{name: "REVISION", wide: true, text: func(x *pb.Task) string { return fmt.Sprint(x.Revision) }},
			labelsColumn[*pb.Task](),
		},
	}
}

func taskCodeText(x *pb.Task) string {
	switch {
	case x.Outcome == "" || x.Outcome == task.Lost.String():
		return ""
	case x.Signal > 0:
		return fmt.Sprintf("signal %d", x.Signal)
	case x.Outcome == task.Succeeded.String() || x.ExitCode > 0:
		return number(x.ExitCode)
	}
	return "" // it never ran, or was ended before it had a code
}

// outputLost returns how much of a task's output is missing because the disk was full.
func outputLost(x *pb.Task) string {
	return fmt.Sprintf("%d bytes of its output are lost: write failed on the disk of cell %s", x.OutputLost, x.Cell)
}

func taskNote(x *pb.Task) string {
	switch {
	case x.MayStillRun:
		return "may still run; " + x.Reason
	case x.Reason != "":
		return x.Reason
	case x.UnconfirmedReason != "":
		return x.UnconfirmedReason
	case x.Condition != "":
		return x.Condition
	case x.OutputLost > 0:
		return outputLost(x)
	}
	return x.Rejection
}

func taskVerb(c *cli) *cobra.Command {
	q := &pb.ListTasksRequest{}
	var watch bool
	var limit int
	var sel selector
	ls := &cobra.Command{
		Use: "ls", Short: "List tasks, the newest first", Args: atMost(0, "none"),
		Example: "  cantina task ls --limit 20\n  cantina task ls --state RUNNING\n  cantina task ls --outcome lost\n" +
			"  cantina task ls -q --domain demo\n  cantina task ls -l app=shop",
		RunE: func(*cobra.Command, []string) error {
			t := taskTable(c)
			t.order = func(all []*pb.Task) []*pb.Task { return newest(all, limit) }
			return listing(c, t, watch, eventsOf("task"), func(cursor string) ([]*pb.Task, *pb.Listing, error) {
				q.Page, q.Selector = &pb.Page{Cursor: cursor, Limit: api.MaxPage}, sel.text
				l, err := call(c, calls.ListTasks, q)
				return l.GetTasks(), l.GetListing(), err
			}, func(e *pb.Event) (*pb.Task, bool) {
				x := e.Task
				return x, x != nil && (q.Domain == "" || x.Domain == q.Domain) && (q.Name == "" || x.Name == q.Name) &&
					(len(q.Outcome) == 0 || slices.Contains(q.Outcome, x.Outcome)) && sel.parts.Selects(x.Labels)
			})
		},
	}
	ls.Flags().StringVar(&q.Domain, "domain", "", "list only this domain")
	numberVar(ls.Flags(), &limit, "limit", "n", 0, 0, unbounded, "list at most this many (0: all)")
	ls.Flags().StringVar(&q.Name, "name", "", "list only tasks with this name")
	ls.Flags().StringVar(&q.Cell, "cell", "", "list only tasks on this cell")
	sel.add(ls, "list only tasks")
	choicesVar(ls.Flags(), &q.State, "state", wordsOf(task.Pending, task.Resolving),
		"PENDING, RUNNING, COMPLETED or RESOLVING")
	choicesVar(ls.Flags(), &q.Outcome, "outcome", wordsOf(task.Succeeded, task.Lost),
		"succeeded, failed, cancelled or lost")
	resumeFlag(c, ls, &watch)
	return group("task", "Manage tasks", c.reading(ls), taskGetVerb(c), taskResultVerb(c), taskRerunVerb(c),
		taskResolveVerb(c))
}

// newest sorts tasks by the time of their creation, the newest first, and keeps some.
func newest(all []*pb.Task, limit int) []*pb.Task {
	slices.SortStableFunc(all, func(a, b *pb.Task) int {
		if later(a, b) {
			return -1
		}
		return 1
	})
	if limit > 0 && len(all) > limit {
		all = all[:limit]
	}
	return all
}

// findTaskArgument finds a task and returns it whole.
func findTaskArgument(c *cli, text, domain string) (*pb.Task, error) {
	s, err := findSubject(c, "task/"+strings.TrimPrefix(text, "task/"), domain)
	if err != nil {
		return nil, err
	}
	got, err := call(c, calls.GetTask, &pb.GetTaskRequest{Id: s.name})
	return got.GetTask(), err
}

func taskGetVerb(c *cli) *cobra.Command {
	var domain string
	cmd := &cobra.Command{
		Use: "get TASK", Short: "Show a task with its definition and result", Example: "  cantina task get 4f1c -o yaml",
		Args: exactly(1, "TASK"),
		RunE: func(_ *cobra.Command, args []string) error {
			t, err := findTaskArgument(c, args[0], domain)
			if err != nil {
				return err
			}
			return one(c, taskTable(c), t)
		},
	}
	domainFlag(cmd, &domain)
	return c.reading(cmd)
}

func taskResultVerb(c *cli) *cobra.Command {
	var domain string
	cmd := &cobra.Command{
		Use: "result TASK", Short: "Print the result of a task",
		Long: "result prints the bytes of the task's result file unchanged. Exits 1 if the task has not ended " +
			"or left no result.",
		Example: "  cantina task result report > report.json", Args: exactly(1, "TASK"),
		RunE: func(_ *cobra.Command, args []string) error {
			t, err := findTaskArgument(c, args[0], domain)
			if err != nil {
				return err
			}
			if c.output != "table" || c.template != "" {
				return one(c, taskTable(c), t)
			}
			if t.Outcome == "" {
				return failf(api.ExitFailed, "task %s is %s and has no result yet; wait for it: cantina wait %s", t.Id, t.State,
					t.Id)
			}
			if len(t.Result) == 0 {
				return failf(api.ExitFailed, "task %s %s without a result", t.Id, t.Outcome)
			}
			_, err = c.Out.Write(t.Result)
			return err
		},
	}
	domainFlag(cmd, &domain)
	return c.reading(cmd)
}

func taskResolveVerb(c *cli) *cobra.Command {
	var domain, as string
	var accept bool
	cmd := &cobra.Command{
		Use: "resolve TASK --as done|failed|rerun", Aliases: []string{"settle"}, Short: "Record the outcome of a lost task",
		Long: "A lost task is kept until an operator resolves it: done if it did its work, failed if not, or " +
			"rerun to start it once more as a new task. If its container may still run (on_lost: keep), the " +
			"task is RUNNING again as soon as its cell reports it. Without the cell, it is resolved with " +
			"--accept-double-starts only.",
		Example: "  cantina task resolve 4f1c --as rerun", Args: exactly(1, "TASK"),
		RunE: func(_ *cobra.Command, args []string) error {
			if as == "" {
				return failf(api.ExitUsage, "--as is required: done, failed or rerun")
			}
			s, err := findSubject(c, "task/"+strings.TrimPrefix(args[0], "task/"), domain)
			if err != nil {
				return err
			}
			got, err := call(c, calls.ResolveTask, &pb.ResolveTaskRequest{Id: s.name, As: as,
				AcceptDoubleStarts: accept})
			if err != nil {
				return err
			}
			c.notef("task %s resolved as %s\n", s.name, as)
			if got.Task.Successor != "" && !c.answers() {
				return line(c.Out, got.Task.Successor)
			}
			return answer(c, taskTable(c), got.Task)
		},
	}
	domainFlag(cmd, &domain)
	cmd.Flags().BoolVar(&accept, "accept-double-starts", false, "accept that work may run twice")
	choiceVar(cmd.Flags(), &as, "as", "", "", []string{"done", "failed", "rerun"}, "outcome: done, failed or rerun")
	c.waiting(cmd)
	return c.writing(cmd)
}

func taskRerunVerb(c *cli) *cobra.Command {
	var domain string
	cmd := &cobra.Command{
		Use: "rerun TASK", Short: "Run an ended task again as a new task",
		Long: "rerun starts a task that has ended once more, with its stored definition, and prints the id of the " +
			"new task. The ended task stays in the list. Of the tasks of one name only one runs at a time: rerun is " +
			"refused while another of that name in the domain may run. A task without a name can run any " +
			"number of times: each rerun is a new task. A lost task may still have run: resolve it first with " +
			"cantina task resolve.",
		Example: "  cantina task rerun report\n  cantina wait $(cantina task rerun -q report)", Args: exactly(1, "TASK"),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := findSubject(c, "task/"+strings.TrimPrefix(args[0], "task/"), domain)
			if err != nil {
				return err
			}
			got, err := call(c, calls.RerunTask, &pb.RerunTaskRequest{Id: s.name})
			if err != nil {
				return err
			}
			c.notef("task %s runs again as %s\n", s.name, got.Task.Id)
			if !c.answers() {
				return line(c.Out, got.Task.Id)
			}
			return answer(c, taskTable(c), got.Task)
		},
	}
	domainFlag(cmd, &domain)
	c.waiting(cmd)
	return c.writing(cmd)
}
