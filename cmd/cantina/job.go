package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cantina/api"
	"cantina/batch"
	"cantina/internal/text"
	pb "cantina/wire/cantinav1"
)

func jobTable(c *cli) table[*pb.Job] {
	count := func(get func(*pb.Counts) int32) func(*pb.Job) string {
		return func(x *pb.Job) string { return number(get(x.Counts)) }
	}
	return table[*pb.Job]{
		id: func(x *pb.Job) string { return x.Domain + "/" + x.Name },
		columns: []column[*pb.Job]{
			{name: "JOB", whole: true, text: func(x *pb.Job) string { return x.Name }},
			{name: "DOMAIN", text: func(x *pb.Job) string { return x.Domain }},
			{name: "STATE", text: func(x *pb.Job) string { return x.State }},
			{name: "TOTAL", text: count((*pb.Counts).GetTotal)},
			{name: "DONE", text: count((*pb.Counts).GetDone)},
			{name: "RUNNING", text: count((*pb.Counts).GetRunning)},
			{name: "FAILED", text: count((*pb.Counts).GetFailed)},
			{name: "READY", spare: 2, text: count((*pb.Counts).GetReady)},
			{name: "BACKOFF", spare: 1, text: count((*pb.Counts).GetBackoff)},
			{name: "NOTE", text: jobNote},
			{name: "BLOCKED", wide: true, text: count((*pb.Counts).GetBlocked)},
			{name: "STRANDED", wide: true, text: count((*pb.Counts).GetStranded)},
			{name: "AVOIDED", wide: true, text: count((*pb.Counts).GetAvoided)},
			{name: "DISABLED", wide: true, text: count((*pb.Counts).GetDisabled)},
			{name: "OWNER", wide: true, text: func(x *pb.Job) string { return x.Owner }},
			{name: "CREATED", wide: true, text: func(x *pb.Job) string { return c.when(x.Created) }},
			labelsColumn[*pb.Job](),
			{name: "ENDED", wide: true, text: func(x *pb.Job) string { return c.when(x.Ended) }},
		},
	}
}

// nodeNote is why the state of a running one is not confirmed, else how the last attempt ended.
func nodeNote(x *pb.JobNode) string {
	if x.State == batch.ClassRunning.String() && x.Reason != "" {
		return cmp.Or(x.UnconfirmedReason, x.Condition, "previous attempt: "+x.Reason)
	}
	return cmp.Or(x.UnconfirmedReason, x.Condition, x.Reason)
}

func jobNote(x *pb.Job) string {
	switch {
	case len(x.Errors) > 0:
		return strings.Join(x.Errors, "; ")
	case x.NodesError != "":
		return "nodes: " + x.NodesError
	}
	return x.Reason
}

func nodeTable(c *cli) table[*pb.JobNode] {
	return table[*pb.JobNode]{
		id: func(x *pb.JobNode) string { return x.Domain + "/" + x.Job + "/" + x.Node },
		columns: []column[*pb.JobNode]{
			{name: "NODE", whole: true, text: func(x *pb.JobNode) string { return x.Node }},
			{name: "STATE", text: func(x *pb.JobNode) string { return x.State }},
			{name: "CELL", text: func(x *pb.JobNode) string { return x.Cell }},
			{name: "ERRORS", text: func(x *pb.JobNode) string { return number(x.Errors) }},
			{name: "CODE", text: nodeCode},
			{name: "TIME", text: func(x *pb.JobNode) string { return c.when(x.Time) }},
			{name: "NOTE", text: nodeNote},
			{name: "NEXT", wide: true, text: func(x *pb.JobNode) string { return c.when(x.Next) }},
			{name: "LOSSES", wide: true, text: func(x *pb.JobNode) string { return number(x.Losses) }},
			{name: "INVOCATION", wide: true, text: func(x *pb.JobNode) string { return x.Invocation }},
			{name: "PATH", wide: true, text: func(x *pb.JobNode) string { return strings.Join(x.Path, " > ") }},
		},
	}
}

func nodeCode(x *pb.JobNode) string {
	switch {
	case x.State == "ready" || x.State == "running":
		return ""
	case x.Signal > 0:
		return fmt.Sprintf("signal %d", x.Signal)
	case x.State == "done" || x.ExitCode > 0:
		return number(x.ExitCode)
	}
	return "" // it never ran, or was lost
}

func resultTable(c *cli) table[*pb.JobNode] {
	t := nodeTable(c)
	t.columns = []column[*pb.JobNode]{
		{name: "NODE", whole: true, text: func(x *pb.JobNode) string { return x.Node }},
		{name: "STATE", text: func(x *pb.JobNode) string { return x.State }},
		{name: "CODE", text: nodeCode},
		{name: "DATA", text: dataText},
		{name: "NOTE", text: nodeNote},
		{name: "TIME", wide: true, text: func(x *pb.JobNode) string { return c.when(x.Time) }},
		{name: "CELL", wide: true, text: func(x *pb.JobNode) string { return x.Cell }},
	}
	return t
}

func dataText(x *pb.JobNode) string {
	if x.Data == nil {
		return ""
	}
	var b bytes.Buffer
	if json.Compact(&b, api.JSON(x.Data)) != nil {
		return ""
	}
	return b.String()
}

func jobVerb(c *cli) *cobra.Command {
	var domain string
	var watch bool
	var sel selector
	ls := &cobra.Command{
		Use: "ls", Short: "List jobs with their progress", Example: "  cantina job ls -w\n  cantina job ls -l app=shop",
		Args: atMost(0, "none"),
		RunE: func(*cobra.Command, []string) error {
			return listing(c, jobTable(c), watch, eventsOf("job"), func(cursor string) ([]*pb.Job, *pb.Listing, error) {
				l, err := call(c, calls.ListJobs, &pb.ListJobsRequest{Domain: domain, Selector: sel.text,
					Page: &pb.Page{Cursor: cursor, Limit: api.MaxPage}})
				return l.GetJobs(), l.GetListing(), err
			}, func(e *pb.Event) (*pb.Job, bool) {
				return e.Job, e.Job != nil && (domain == "" || e.Domain == domain) && sel.parts.Selects(e.Job.Labels)
			})
		},
	}
	domainFlag(ls, &domain)
	sel.add(ls, "list only jobs")
	resumeFlag(c, ls, &watch)
	get := &cobra.Command{
		Use: "get JOB", Short: "Show a job with its definition", Example: "  cantina job get count -o yaml",
		Args: exactly(1, "JOB"),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := findWhole(c, "job", args[0], domain)
			if err != nil {
				return err
			}
			got, err := call(c, calls.GetJob, &pb.GetJobRequest{Domain: s.domain, Name: s.name})
			if err != nil {
				return err
			}
			return one(c, jobTable(c), got.Job)
		},
	}
	domainFlag(get, &domain)
	return group("job", "Manage jobs, their nodes and results",
		c.reading(ls), c.reading(get), jobRunVerb(c), jobImportVerb(c), jobNodesVerb(c), jobResultsVerb(c),
		jobPauseVerb(c, true), jobPauseVerb(c, false), jobRetryVerb(c), jobKillVerb(c))
}

func jobNodesVerb(c *cli) *cobra.Command {
	var domain string
	var watch bool
	q := &pb.ListNodesRequest{}
	cmd := &cobra.Command{
		Use: "nodes JOB", Short: "List the nodes of a job with their status", Args: exactly(1, "JOB"),
		Long: "nodes lists the batch tasks of a job. ERRORS counts failed attempts since the last success or " +
			"job retry; LOSSES (-o wide) counts attempts whose cell was lost. The current or next attempt " +
			"is number ERRORS + LOSSES + 1.",
		Example: "  cantina job nodes count --state failed\n  cantina job nodes count -w --below net\n" +
			"  cantina job nodes count --below net/http -o wide",
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := findWhole(c, "job", args[0], domain)
			if err != nil {
				return err
			}
			q.Domain, q.Job = s.domain, s.name
			w := nodeWatch{c: c, s: s, node: q.Node, below: q.Below, states: q.State}
			return w.print(nodeTable(c), watch, func(cursor string) ([]*pb.JobNode, *pb.Listing, error) {
				q.Page = &pb.Page{Cursor: cursor, Limit: api.MaxPage}
				l, err := call(c, calls.ListNodes, q)
				return l.GetNodes(), l.GetListing(), err
			}, func(x *pb.JobNode) (*pb.JobNode, error) { return x, nil })
		},
	}
	choicesVar(cmd.Flags(), &q.State, "state",
		[]string{"ready", "running", "done", "failed", "backoff", "blocked", "stranded", "avoided", "disabled", "absent"},
		"ready, running, done, failed, backoff, blocked, stranded (a job it depends on cannot finish on "+
			"this node), avoided, disabled or absent")
	domainFlag(cmd, &domain)
	cmd.Flags().StringVar(&q.Node, "node", "", "list only this node")
	cmd.Flags().StringVar(&q.Below, "below", "", "list only nodes below this one")
	resumeFlag(c, cmd, &watch)
	return c.reading(cmd)
}

func jobResultsVerb(c *cli) *cobra.Command {
	var domain string
	var watch bool
	q := &pb.ListResultsRequest{}
	cmd := &cobra.Command{
		Use: "results JOB", Short: "Print the results of a job's batch tasks", Args: exactly(1, "JOB"),
		Long: "results prints each finished batch task with its state, exit code and reported data. Output is " +
			"streamed page by page, so a job of a million nodes needs little memory.",
		Example: "  cantina job results count -o jsonl | jq .data.lines\n  cantina job results count --state failed",
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := findWhole(c, "job", args[0], domain)
			if err != nil {
				return err
			}
			q.Domain, q.Job = s.domain, s.name
			w := nodeWatch{c: c, s: s, node: q.Node, below: q.Below, states: q.State}
			if len(w.states) == 0 {
				w.states = resultStates()
			}
			return w.print(resultTable(c), watch, func(cursor string) ([]*pb.JobNode, *pb.Listing, error) {
				q.Page = &pb.Page{Cursor: cursor, Limit: api.MaxPage}
				l, err := call(c, calls.ListResults, q)
				return l.GetResults(), l.GetListing(), err
			}, func(x *pb.JobNode) (*pb.JobNode, error) { // events have no data
				l, err := call(c, calls.ListResults, &pb.ListResultsRequest{Domain: s.domain, Job: s.name, Node: x.Node,
					Page: &pb.Page{Limit: 1}})
				if len(l.GetResults()) == 0 {
					return nil, err
				}
				return l.Results[0], err
			})
		},
	}
	choicesVar(cmd.Flags(), &q.State, "state", resultStates(), "done or failed")
	domainFlag(cmd, &domain)
	cmd.Flags().StringVar(&q.Node, "node", "", "print only this node")
	cmd.Flags().StringVar(&q.Below, "below", "", "print only nodes below this one")
	resumeFlag(c, cmd, &watch)
	return c.reading(cmd)
}

// resultStates are the states of batch tasks that have a result.
func resultStates() []string { return []string{"done", "failed"} }

// nodeWatch lists batch tasks and follows their changes.
type nodeWatch struct {
	c           *cli
	s           subject // the job
	node, below string
	states      []string
}

// print prints a list page by page, and with watch one row per change. whole completes the batch task of an event; nil
// leaves it out.
func (w *nodeWatch) print(t table[*pb.JobNode], watch bool,
	read func(cursor string) ([]*pb.JobNode, *pb.Listing, error), whole func(*pb.JobNode) (*pb.JobNode, error)) error {
	position := w.c.resume
	again, err := resumed(w.c, watch)
	switch {
	case err != nil:
		return err
	case watch:
		w.c.streaming()
	}
	if !again {
		err = stream(w.c, t, func(cursor string) ([]*pb.JobNode, string, error) {
			items, where, err := read(cursor)
			if position == "" {
				position = where.GetPosition()
			}
			return items, where.GetNext(), err
		})
	}
	if err != nil || !watch {
		return err
	}
	var failed error
	err = followChanges(w.c, t, eventsOf("node"), position, func(e *pb.Event) (*pb.JobNode, bool) {
		x := e.Node
		if x == nil || x.Domain != w.s.domain || x.Job != w.s.name || w.node != "" && x.Node != w.node || e.Gone ||
			len(w.states) > 0 && !slices.Contains(w.states, x.State) {
			return nil, false
		}
		x, err := w.ifBelow(x)
		if x != nil {
			x, err = whole(x)
		}
		failed = cmp.Or(failed, err)
		return x, x != nil
	})
	return cmp.Or(err, failed)
}

// ifBelow returns the batch task of an event, which has no path, if it is in the selected part of the tree; else nil.
func (w *nodeWatch) ifBelow(x *pb.JobNode) (*pb.JobNode, error) {
	if w.below == "" {
		return x, nil
	}
	l, err := call(w.c, calls.ListNodes, &pb.ListNodesRequest{Domain: w.s.domain, Job: w.s.name, Node: x.Node,
		Below: w.below, Page: &pb.Page{Limit: 1}})
	if len(l.GetNodes()) == 0 {
		return nil, err
	}
	return x, err
}

func jobPauseVerb(c *cli, pause bool) *cobra.Command {
	var domain string
	verb, short := "resume", "Resume a paused job"
	if pause {
		verb, short = "pause", "Start no more batch tasks of a job; running ones continue"
	}
	cmd := &cobra.Command{
		Use: verb + " JOB", Short: short, Example: "  cantina job " + verb + " count", Args: exactly(1, "JOB"),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := findWhole(c, "job", args[0], domain)
			if err != nil {
				return err
			}
			got, err := call(c, calls.PauseJob, &pb.PauseJobRequest{Domain: s.domain, Name: s.name, Paused: pause})
			if err != nil {
				return err
			}
			c.notef("%s: %sd\n", s, verb)
			return answer(c, jobTable(c), got.Job)
		},
	}
	domainFlag(cmd, &domain)
	c.waiting(cmd)
	return c.writing(cmd)
}

func jobRetryVerb(c *cli) *cobra.Command {
	var domain string
	q := &pb.RetryJobRequest{}
	cmd := &cobra.Command{
		Use: "retry JOB", Short: "Retry failed batch tasks of a job", Args: exactly(1, "JOB"),
		Example: "  cantina job retry count\n  cantina job retry count --node net/http",
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := findWhole(c, "job", args[0], domain)
			if err != nil {
				return err
			}
			q.Domain, q.Name = s.domain, s.name
			got, err := call(c, calls.RetryJob, q)
			if err != nil {
				return err
			}
			c.notef("%s: %s may run again\n", s, text.Count(got.Retried, "failed batch task"))
			if got.Retried == 0 {
				noteStranded(c, s)
			}
			return answer(c, factTable("job", "retried"), fact(map[string]any{"job": s.domain + "/" + s.name,
				"domain": s.domain, "retried": int(got.Retried)}))
		},
	}
	domainFlag(cmd, &domain)
	cmd.Flags().StringVar(&q.Node, "node", "", "retry only this node")
	cmd.Flags().StringVar(&q.Below, "below", "", "retry only nodes below this one")
	c.waiting(cmd)
	return c.writing(cmd)
}

// noteStranded names the job to retry instead, if another job failed.
func noteStranded(c *cli, s subject) {
	got, err := call(c, calls.GetJob, &pb.GetJobRequest{Domain: s.domain, Name: s.name})
	if err == nil && got.Job.Counts.GetStranded() > 0 {
		c.notef("  %s; cantina explain %s lists the batch tasks to retry\n", printable(got.Job.Reason), s)
	}
}

func jobKillVerb(c *cli) *cobra.Command {
	var domain string
	q := &pb.KillJobRequest{}
	cmd := &cobra.Command{
		Use: "kill JOB", Short: "Kill running batch tasks of a job", Args: exactly(1, "JOB"),
		Long: "kill ends the running batch tasks of a job now. The job continues, and they may run again as " +
			"incomplete; pause the job first to prevent that.",
		Example: "  cantina job kill count --node net/http",
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := findWhole(c, "job", args[0], domain)
			if err != nil {
				return err
			}
			q.Domain, q.Name = s.domain, s.name
			got, err := call(c, calls.KillJob, q)
			if err != nil {
				return err
			}
			c.notef("%s: %s\n", s, beingEnded(got.Killed))
			return answer(c, factTable("job", "killed"), fact(map[string]any{"job": s.domain + "/" + s.name,
				"domain": s.domain, "killed": int(got.Killed)}))
		},
	}
	domainFlag(cmd, &domain)
	cmd.Flags().StringVar(&q.Node, "node", "", "kill only batch tasks on this node")
	cmd.Flags().StringVar(&q.Below, "below", "", "kill only batch tasks on nodes below this one")
	c.waiting(cmd)
	return c.writing(cmd)
}
