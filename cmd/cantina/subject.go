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
	if m, ok := any(q).(proto.Message); ok && c.timeout <= 0 &&
		m.ProtoReflect().Descriptor().Fields().ByName("write") == nil {
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
	case "service", "schedule":
		return s.kind + "/" + s.domain + "/" + s.name
	case "instance":
		return fmt.Sprintf("service/%s/%s/%d", s.domain, s.name, s.index)
	case "node":
		return "job/" + s.name + "/" + s.node
	}
	return s.kind + "/" + s.name
}

// wire is the subject as Explain wants it.
func (s subject) wire() *pb.Subject {
	kind := s.kind
	if kind == "node" {
		kind = "node"
	}
	return &pb.Subject{Kind: kind, Domain: s.domain, Name: s.name, Index: s.index, Node: s.node}
}

const subjectHelp = "A SUBJECT is a service (web), an instance (web/0), a task (its id, a prefix of it, or its " +
	"name: the newest run), a job (count), a batch task (count[NODE] or count/NODE, with parent " +
	"nodes if needed), a cell (cell/NAME) or a schedule (schedule/NAME). Prefix service/, task/ or " +
	"job/ if a name is ambiguous, and DOMAIN/ for another domain."

// domainFlag adds --domain.
func domainFlag(cmd *cobra.Command, domain *string) {
	cmd.Flags().StringVar(domain, "domain", "", "look in this domain only")
}

// finder searches one kind of resources; start: for the beginning of an id, not for names.
type finder struct {
	kind  string
	start bool
	find  func(c *cli, text, domain string) ([]subject, error)
}

// finders look in the order in which names count.
var finders = []finder{
	{"service", false, findService}, {"job", false, findJob}, {"task", false, findTask}, {"cell", false, findCell},
	{"task", true, findTaskByStart},
}

// findSubject finds the resource that an argument names. A whole id or name takes precedence over
// the beginning of an id. No result is exit code 3; several results are listed, exit code 2.
func findSubject(c *cli, text, domain string) (subject, error) {
	if text == "" || strings.HasSuffix(text, "/") {
		return subject{}, failf(api.ExitUsage, "%q: the name is missing; write %sNAME", text, text)
	}
	kind, rest, explicit := strings.Cut(text, "/")
	switch {
	case explicit && rest != "" &&
		(kind == "service" || kind == "task" || kind == "job" || kind == "cell" || kind == "schedule"):
	default:
		kind, rest = "", text
	}
	var found []subject
	var collected error
	for _, look := range finders {
		if kind != "" && look.kind != kind {
			continue
		}
		if look.start && len(found) > 0 {
			break // the name itself takes precedence over the beginning of an id
		}
		got, err := look.find(c, rest, domain)
		if isCode(err, "collected") {
			collected, err = err, nil
		}
		if err != nil {
			return subject{}, err
		}
		found = append(found, got...)
	}
	if kind == "schedule" || kind == "" && len(found) == 0 {
		// Runs are named like their schedule: the run takes precedence over the schedule.
		got, err := findSchedule(c, rest, domain)
		if err != nil {
			return subject{}, err
		}
		found = append(found, got...)
	}
	if len(found) == 0 && collected == nil && domain == "" && kind != "service" {
		var err error
		if found, err = findQualified(c, kind, rest); err != nil {
			return subject{}, err
		}
	}
	if len(found) == 0 {
		if collected != nil {
			return subject{}, collected // it existed: print when it was removed
		}
		return subject{}, nothingCalled(c, kind, rest, domain)
	}
	return theOne(text, preferred(kind, found))
}

// preferred drops what a name hardly means: a task that has ended beside a service or a job, and,
// behind "service/", an instance beside the service of that domain and name.
func preferred(kind string, found []subject) []subject {
	has := func(kinds ...string) bool {
		return slices.ContainsFunc(found, func(s subject) bool { return slices.Contains(kinds, s.kind) })
	}
	switch {
	case kind == "" && has("service", "job"):
		return slices.DeleteFunc(found, func(s subject) bool { return s.kind == "task" && s.ended })
	case kind == "service" && has("service"):
		return slices.DeleteFunc(found, func(s subject) bool { return s.kind == "instance" })
	}
	return found
}

// findQualified looks up DOMAIN/NAME of a task or job, as tables and hints print it.
func findQualified(c *cli, kind, rest string) ([]subject, error) {
	domain, name, ok := strings.Cut(rest, "/")
	if !ok || domain == "" || name == "" {
		return nil, nil
	}
	var found []subject
	for _, look := range []finder{{"job", false, findJob}, {"task", false, findTask}} {
		if kind != "" && look.kind != kind {
			continue
		}
		got, err := look.find(c, name, domain)
		if err != nil {
			return nil, err
		}
		found = append(found, got...)
	}
	return found, nil
}

// findToChange is findSubject for verbs that end or remove. A name that a schedule shares with its
// runs means the schedule for a verb that removes, which leaves the runs; for others it is ambiguous.
func findToChange(c *cli, text, domain string, removes bool) (subject, error) {
	s, err := findSubject(c, text, domain)
	if err != nil || s.kind != "task" && s.kind != "job" || s.kind == "task" && s.name == text {
		return s, err
	}
	schedules, err := findSchedule(c, text, domain)
	if err != nil {
		return s, err
	}
	if err == nil && removes && len(schedules) == 1 && schedules[0].hasRun(s) {
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
	kind, rest, explicit := strings.Cut(text, "/")
	if !explicit || kind != "service" && kind != "job" {
		kind, rest = "", text
	}
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
	if x, ok := serviceOf(rest, domain); ok && kind != "job" {
		x.domain = cmp.Or(x.domain, "default")
		q := &pb.OutputQuery{Domain: x.domain, Service: x.name}
		if x.kind == "instance" {
			q.Index = &x.index
		}
		if err := try(x, q); err != nil {
			return s, err
		}
	}
	if x := jobOf(rest); kind != "service" && domain == "" {
		if err := try(x, &pb.OutputQuery{Job: x.name, Node: x.node}); err != nil {
			return s, err
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

// serviceOf reads the name of a service or instance, with or without its domain.
func serviceOf(text, domain string) (s subject, ok bool) {
	s = subject{kind: "service", domain: domain}
	parts := strings.Split(text, "/")
	if n := len(parts); n > 1 {
		if i, err := strconv.ParseInt(parts[n-1], 10, 32); err == nil && i >= 0 {
			s.kind, s.index = "instance", int32(i)
			parts = parts[:n-1]
		}
	}
	switch len(parts) {
	case 1:
		s.name = parts[0]
	case 2:
		if domain != "" && domain != parts[0] {
			return s, false
		}
		s.domain, s.name = parts[0], parts[1]
	default:
		return s, false
	}
	return s, true
}

func findService(c *cli, text, domain string) ([]subject, error) {
	s, ok := serviceOf(text, domain)
	if !ok {
		return nil, nil
	}
	if s.domain != "" {
		return knownService(c, s)
	}
	var found []subject
	if of, name, qualified := strings.Cut(text, "/"); qualified { // a service may be named like an index
		var err error
		if found, err = knownService(c, subject{kind: "service", domain: of, name: name}); err != nil {
			return nil, err
		}
	}
	err := pages(func(cursor string) (string, error) {
		l, err := call(c, calls.ListServices, &pb.ListServicesRequest{Page: &pb.Page{Cursor: cursor, Limit: api.MaxPage}})
		if err != nil {
			return "", err
		}
		for _, x := range l.Services {
			if x.Name == s.name {
				one := s
				one.domain = x.Domain
				found = append(found, one)
			}
		}
		return l.Listing.Next, nil
	})
	return found, err
}

// knownService is the service or instance, if the service exists.
func knownService(c *cli, s subject) ([]subject, error) {
	_, err := call(c, calls.GetService, &pb.GetServiceRequest{Domain: s.domain, Name: s.name})
	if isCode(err, "not_found", "collected") {
		return nil, nil
	}
	return []subject{s}, err
}

// findWhole finds a service for a verb that applies to all of it.
func findWhole(c *cli, text, domain string) (subject, error) {
	s, err := findSubject(c, "service/"+strings.TrimPrefix(text, "service/"), domain)
	if err == nil && s.kind == "instance" {
		err = failf(api.ExitUsage, "%q is an instance; this verb needs the whole service: %s/%s", text, s.domain, s.name)
	}
	return s, err
}

// jobOf reads the name of a job or of one of its nodes.
func jobOf(text string) subject {
	if name, node, ok := strings.Cut(text, "["); ok && strings.HasSuffix(node, "]") {
		return subject{kind: "node", name: name, node: strings.TrimSuffix(node, "]")}
	} else if name, node, ok := strings.Cut(text, "/"); ok {
		return subject{kind: "node", name: name, node: node}
	}
	return subject{kind: "job", name: text}
}

func findJob(c *cli, text, domain string) ([]subject, error) {
	s := jobOf(text)
	got, err := call(c, calls.GetJob, &pb.GetJobRequest{Name: s.name})
	if isCode(err, "not_found", "collected") {
		return nil, nil
	}
	if err != nil || domain != "" && got.Job.Domain != domain {
		return nil, err
	}
	s.domain = got.Job.Domain
	if s.kind == "node" {
		node, err := findNode(c, s.name, s.node)
		if node == "" || err != nil {
			return nil, err
		}
		s.node = node
	}
	return []subject{s}, nil
}

// findNode returns the name of a node of a job, which may be given with nodes above
// it ("host/package"); "" when there is none. Names hold slashes of their own, so
// the longest end of the text that is a name counts.
func findNode(c *cli, job, text string) (string, error) {
	parts := strings.Split(text, "/")
	for i := range parts {
		name := strings.Join(parts[i:], "/")
		if name == "" {
			continue
		}
		l, err := call(c, calls.ListNodes, &pb.ListNodesRequest{Job: job, Node: name, Page: &pb.Page{Limit: 1}})
		if isCode(err, "not_found") || err == nil && len(l.Nodes) == 0 {
			continue
		}
		if err != nil {
			return "", err
		}
		path := strings.Join(l.Nodes[0].Path, "/")
		if i == 0 || path == text || strings.HasSuffix(path, "/"+text) {
			return l.Nodes[0].Node, nil
		}
	}
	return "", nil
}

// maxShown is how many tasks are shown for an ambiguous beginning of an id.
const maxShown = 20

func findTask(c *cli, text, domain string) ([]subject, error) {
	if strings.ContainsAny(text, "/[") || text == "" {
		return nil, nil
	}
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
func findTaskByStart(c *cli, text, domain string) ([]subject, error) {
	if strings.ContainsAny(text, "/[") || text == "" {
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

func findCell(c *cli, text, _ string) ([]subject, error) {
	if strings.ContainsAny(text, "/[") || text == "" {
		return nil, nil
	}
	_, err := call(c, calls.GetCell, &pb.GetCellRequest{Name: text})
	if isCode(err, "not_found", "collected") {
		return nil, nil
	}
	return []subject{{kind: "cell", name: text}}, err
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
