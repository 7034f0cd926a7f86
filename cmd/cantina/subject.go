package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"cantina/api"
	pb "cantina/wire/cantinav1"
	"cantina/wire/cantinav1/cantinav1connect"
)

// calls are the methods of the API, for api.Call.
type calls = cantinav1connect.CantinaServiceClient

// readTime limits a read call without --timeout.
const readTime = time.Minute

// call makes one call with --timeout in force.
func call[Q, A any](c *cli, method api.Method[Q, A], q *Q) (*A, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	ctx, cancel := c.limited()
	defer cancel()
	m, ok := any(q).(proto.Message)
	reads := ok && m.ProtoReflect().Descriptor().Fields().ByName("write") == nil
	if !reads {
		c.noteTarget()
	}
	if reads && c.timeout <= 0 {
		ctx, cancel = context.WithTimeout(ctx, readTime)
		defer cancel()
	}
	return api.Call(ctx, client, method, q)
}

// pages calls next for page after page until it returns an empty cursor.
func pages(next func(cursor string) (string, error)) error {
	for cursor := ""; ; {
		n, err := next(cursor)
		if err != nil || n == "" {
			return err
		}
		cursor = n
	}
}

// subject is the resource that an argument names.
type subject struct {
	kind   string // service, instance, task, job, node, cell or schedule
	domain string
	name   string // of the service, job or cell; id of the task
	index  int32  // of the instance
	node   string // of the batch task
	ended  bool   // of the task
}

// String prints it so that it can be given as an argument again.
func (s subject) String() string {
	switch s.kind {
	case "service", "job", "schedule":
		return s.kind + "/" + s.domain + "/" + s.name
	case "instance":
		return fmt.Sprintf("service/%s/%s/%d", s.domain, s.name, s.index)
	case "node":
		return "job/" + s.domain + "/" + s.name + "/" + s.node
	}
	return s.kind + "/" + s.name
}

// wire is the subject as Explain wants it.
func (s subject) wire() *pb.Subject {
	return &pb.Subject{Kind: s.kind, Domain: s.domain, Name: s.name, Index: s.index, Node: s.node}
}

const subjectHelp = "A SUBJECT is a service (web), an instance (web/0), a task (its id, a prefix of it, or its " +
	"name: the newest run), a job (count), a batch task (count[NODE] or count/NODE, with parent " +
	"nodes if needed), a cell (cell/NAME) or a schedule (schedule/NAME). Names are looked up in all domains: prefix " +
	"DOMAIN/ if several have the name, and service/, task/, job/ or schedule/ if several kinds have it."

// domainFlag adds --domain.
func domainFlag(cmd *cobra.Command, domain *string) {
	cmd.Flags().StringVar(domain, "domain", "", "look in this domain only")
}

// finder searches one kind of resources; start: for the beginning of an id, not for names.
type finder struct {
	kind  string
	start bool
	find  func(c *cli, ways []naming, explicit bool) ([]subject, error)
}

// finders look in the order in which names count.
var finders = []finder{
	{"service", false, findOf("service")}, {"job", false, findOf("job")}, {"task", false, findTask},
	{"cell", false, findCell}, {"task", true, findTaskByStart},
}

func findOf(kind string) func(c *cli, ways []naming, explicit bool) ([]subject, error) {
	return func(c *cli, ways []naming, explicit bool) ([]subject, error) {
		return findNamed(c, kind, ways, explicit)
	}
}

// kindOf splits the kind off an argument: "" = it has none.
func kindOf(text string) (kind, rest string) {
	kind, rest, _ = strings.Cut(text, "/")
	switch kind {
	case "service", "task", "job", "cell", "schedule":
		if rest != "" {
			return kind, rest
		}
	}
	return "", text
}

// findSubject finds the resource that an argument names. A whole id or name takes precedence over
// the beginning of an id. No result is exit code 3; several results are listed, exit code 2.
func findSubject(c *cli, text, domain string) (subject, error) {
	if text == "" || strings.HasSuffix(text, "/") {
		return subject{}, failf(api.ExitUsage, "%q: the name is missing; write %sNAME", text, text)
	}
	kind, rest := kindOf(text)
	found, collected, err := findBy(c, kind, namings(rest, domain))
	if err == nil && len(found) == 0 && collected == nil {
		found, _, err = findBy(c, kind, dotted(rest, domain))
	}
	switch {
	case err != nil:
		return subject{}, err
	case len(found) == 0 && collected != nil:
		return subject{}, collected // it existed: print when it was removed
	case len(found) == 0:
		return subject{}, nothingCalled(c, kind, rest, domain)
	}
	return theOne(text, preferred(kind, found))
}

// findBy finds everything that one of the ways to read an argument names. collected is the error of
// a task that has been removed.
func findBy(c *cli, kind string, ways []naming) (found []subject, collected, err error) {
	if len(ways) == 0 {
		return nil, nil, nil
	}
	for _, look := range finders {
		if kind != "" && look.kind != kind {
			continue
		}
		if look.start && len(found) > 0 {
			break // the name itself takes precedence over the beginning of an id
		}
		got, err := look.find(c, ways, kind != "")
		if isCode(err, "collected") {
			collected, err = err, nil
		}
		if err != nil {
			return nil, nil, err
		}
		found = append(found, got...)
	}
	if kind == "schedule" || kind == "" && len(found) == 0 {
		// Runs are named like their schedule: the run takes precedence over the schedule.
		got, err := findNamed(c, "schedule", ways, kind != "")
		return append(found, got...), collected, err
	}
	return found, collected, nil
}

// preferred drops what a name hardly means: a task that has ended beside a service or a job.
func preferred(kind string, found []subject) []subject {
	if kind == "" && slices.ContainsFunc(found, func(s subject) bool { return s.kind == "service" || s.kind == "job" }) {
		return slices.DeleteFunc(found, func(s subject) bool { return s.kind == "task" && s.ended })
	}
	return found
}

// findToChange is findSubject for verbs that end or remove. A name that a schedule shares with its
// runs means the schedule for a verb that removes, which leaves the runs; for others it is ambiguous.
func findToChange(c *cli, text, domain string, removes bool) (subject, error) {
	s, err := findSubject(c, text, domain)
	kind, rest := kindOf(text)
	if err != nil || kind != "" || s.kind != "task" && s.kind != "job" || s.kind == "task" && s.name == text {
		return s, err
	}
	schedules, err := findNamed(c, "schedule", append(namings(rest, domain), dotted(rest, domain)...), false)
	if err != nil {
		return s, err
	}
	if removes && len(schedules) == 1 && schedules[0].hasRun(s) {
		return schedules[0], nil
	}
	return theOne(text, append([]subject{s}, schedules...))
}

// hasRun reports whether another subject is a run of this schedule, by its id.
func (s subject) hasRun(other subject) bool {
	return s.domain == other.domain &&
		(other.kind == "job" && other.name == s.name || other.kind == "task" && strings.HasPrefix(other.name,
			s.domain+"."+s.name+"."))
}

// theOne is the only match of a text, if there is one.
func theOne(text string, found []subject) (subject, error) {
	if len(found) == 1 {
		return found[0], nil
	}
	var names []string
	for _, s := range found {
		names = append(names, "  "+s.String())
	}
	return subject{}, failf(api.ExitUsage, "%q is ambiguous:\n"+
		"%s", text, strings.Join(names, "\n"))
}

// findOutput is findSubject for readers of output, which is kept after a service or a job has been
// removed: then the name alone identifies it.
func findOutput(c *cli, text, domain string) (subject, error) {
	s, err := findSubject(c, text, domain)
	if err == nil || exitOf(err) != api.ExitNotFound {
		return s, err
	}
	kind, rest := kindOf(text)
	var found []subject
	try := func(s subject, q *pb.OutputQuery) error {
		_, err := call(c, calls.ReadOutput, &pb.ReadOutputRequest{Query: q, Page: &pb.Page{Limit: 1}})
		if err == nil {
			found = append(found, s)
		}
		if isCode(err, "not_found", "collected", "invalid") {
			return nil
		}
		return err
	}
	for _, n := range append(namings(rest, domain), dotted(rest, domain)...) {
		s := subject{kind: "service", domain: cmp.Or(n.domain, "default"), name: n.name}
		q := &pb.OutputQuery{Domain: s.domain, Service: s.name}
		index, noIndex := strconv.ParseInt(n.part, 10, 32)
		if n.part != "" && noIndex == nil {
			s.kind, s.index = "instance", int32(index)
			q.Index = &s.index
		}
		if (kind == "" || kind == "service") && (n.part == "" || noIndex == nil) {
			if err := try(s, q); err != nil {
				return s, err
			}
		}
		if s.kind, s.node = "job", n.part; n.part != "" {
			s.kind = "node"
		}
		if kind == "" || kind == "job" {
			if err := try(s, &pb.OutputQuery{Domain: s.domain, Job: s.name, Node: s.node}); err != nil {
				return s, err
			}
		}
	}
	if len(found) == 0 {
		return s, err
	}
	return theOne(text, found)
}

// isCode reports whether an error of the server has that code.
func isCode(err error, codes ...string) bool {
	var e *api.Error
	if !errors.As(err, &e) {
		return false
	}
	for _, code := range codes {
		if e.Code == code {
			return true
		}
	}
	return false
}

// nodeOf returns the name of a node of a job, which may be given with nodes above it
// ("host/package"); "" when there is none. Names hold slashes of their own, so the longest end of
// the text that is a name counts.
func nodeOf(c *cli, job subject, text string) (kind, node string, err error) {
	parts := strings.Split(text, "/")
	for i := range parts {
		name := strings.Join(parts[i:], "/")
		if name == "" {
			continue
		}
		l, err := call(c, calls.ListNodes,
			&pb.ListNodesRequest{Domain: job.domain, Job: job.name, Node: name, Page: &pb.Page{Limit: 1}})
		if isCode(err, "not_found") || err == nil && len(l.Nodes) == 0 {
			continue
		}
		if err != nil {
			return "node", "", err
		}
		path := strings.Join(l.Nodes[0].Path, "/")
		if i == 0 || path == text || strings.HasSuffix(path, "/"+text) {
			return "node", l.Nodes[0].Node, nil
		}
	}
	return "node", "", nil
}

// maxShown is how many tasks are shown for an ambiguous beginning of an id.
const maxShown = 20

// findTask finds tasks by their ids and names.
func findTask(c *cli, ways []naming, _ bool) (found []subject, err error) {
	var collected error
	for _, n := range ways {
		if n.part != "" {
			continue
		}
		got, err := findOneTask(c, n.name, n.domain)
		if isCode(err, "collected") {
			collected, err = err, nil
		}
		if err != nil {
			return nil, err
		}
		found = append(found, got...)
	}
	if len(found) == 0 {
		return nil, collected
	}
	return found, nil
}

func findOneTask(c *cli, text, domain string) ([]subject, error) {
	got, err := call(c, calls.GetTask, &pb.GetTaskRequest{Id: text})
	if err == nil && (domain == "" || got.Task.Domain == domain) {
		return []subject{{kind: "task", name: text, domain: got.Task.Domain, ended: got.Task.Outcome != ""}}, nil
	}
	if err != nil && !isCode(err, "not_found", "collected") {
		return nil, err
	}
	found, other := findTaskByName(c, text, domain)
	if other != nil || len(found) > 0 || isCode(err, "not_found") {
		return found, other
	}
	return nil, err
}

// findTaskByStart finds tasks by the beginning of their ids.
func findTaskByStart(c *cli, ways []naming, _ bool) ([]subject, error) {
	text, domain := ways[0].name, ways[0].domain
	if ways[0].part != "" || ways[0].qualified {
		return nil, nil
	}
	l, err := call(c, calls.ListTasks, &pb.ListTasksRequest{Domain: domain, Page: &pb.Page{Cursor: text, Limit: maxShown}})
	if err != nil {
		return nil, err
	}
	var found []subject
	for _, t := range l.Tasks {
		if strings.HasPrefix(t.Id, text) {
			found = append(found, subject{kind: "task", name: t.Id, domain: t.Domain})
		}
	}
	return found, nil
}

// findTaskByName finds tasks by the name they have in a spec file: the newest run of
// each domain.
func findTaskByName(c *cli, name, domain string) ([]subject, error) {
	newest := map[string]*pb.Task{}
	err := pages(func(cursor string) (string, error) {
		l, err := call(c, calls.ListTasks,
			&pb.ListTasksRequest{Domain: domain, Name: name, Page: &pb.Page{Cursor: cursor, Limit: api.MaxPage}})
		for _, t := range l.GetTasks() {
			if old := newest[t.Domain]; old == nil || later(t, old) {
				newest[t.Domain] = t
			}
		}
		return l.GetListing().GetNext(), err
	})
	var found []subject
	for _, domain := range slices.Sorted(maps.Keys(newest)) {
		t := newest[domain]
		found = append(found, subject{kind: "task", name: t.Id, domain: domain, ended: t.Outcome != ""})
	}
	return found, err
}

// later reports whether a was made after b.
func later(a, b *pb.Task) bool {
	if n := a.Created.AsTime().Compare(b.Created.AsTime()); n != 0 {
		return n > 0
	}
	return a.Id > b.Id
}

func findCell(c *cli, ways []naming, _ bool) ([]subject, error) {
	if ways[0].part != "" || ways[0].qualified {
		return nil, nil
	}
	_, err := call(c, calls.GetCell, &pb.GetCellRequest{Name: ways[0].name})
	if isCode(err, "not_found", "collected") {
		return nil, nil
	}
	return []subject{{kind: "cell", name: ways[0].name}}, err
}

// detachable runs f until it ends or Ctrl-C is pressed. The first Ctrl-C prints how
// to come back and ends the verb with 130; a second one soon after calls stop,
// which may be nil.
func (c *cli) detachable(back string, stop func() error, f func(context.Context) error) error {
	ctx, cancel := c.limited()
	defer cancel()
	signals, done := c.Interrupts()
	defer done()
	result := make(chan error, 1)
	go func() { result <- f(ctx) }()
	select {
	case err := <-result:
		return err
	case <-signals:
	case <-c.ctx.Done():
	}
	cancel()
	<-result
	if back != "" {
		c.sayf("\n"+
			"detached; it continues. To follow it again: %s\n", back)
	}
	if stop != nil && c.InTTY {
		c.sayf("press Ctrl-C again to stop it\n")
		again, end := context.WithTimeout(c.ctx, secondInterrupt)
		defer end()
		select {
		case <-signals:
			c.sayf("\nstopping\n")
			if err := stop(); err != nil {
				return err
			}
		case <-again.Done():
		}
	}
	return code(exitInterrupted)
}
