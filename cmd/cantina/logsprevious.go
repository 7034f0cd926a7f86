package main

import (
	"cantina/api"
	"cantina/logstore"
	"cantina/lrp"
	pb "cantina/wire/cantinav1"
)

// previousAttempt returns the container of the last attempt that has ended.
func previousAttempt(c *cli, s subject) (string, error) {
	s, err := oneLog(c, s)
	if err != nil {
		return "", err
	}
	running, err := runningAttempt(c, s)
	if err != nil {
		return "", err
	}
	q, err := logQuery(c, &outputFlags{}, s)
	if err != nil {
		return "", err
	}
	// Containers have a first event, so that an attempt without output is found, too.
	q.Stream, q.Tail = []string{"stdout", "stderr", "event"}, 1
	page := &pb.Page{}
	for {
		got, err := call(c, calls.ReadOutput, &pb.ReadOutputRequest{Query: q, Page: page, Packed: true})
		if err != nil {
			return "", err
		}
		noteIncomplete(c, got.Missing, map[string]bool{})
		var newest *logstore.Source
		if err := logstore.EachPacked(got.Packed, func(l *logstore.Line, _ string) error {
			newest = l.Source
			return nil
		}); err != nil {
			return "", err
		}
		switch {
		case newest == nil && got.More: // it was long
			page.Cursor = got.Previous
			continue
		case newest == nil:
			return "", failf(api.ExitNotFound, "%s has no previous attempt, or its output is not kept any more", s)
		case running == "" || newest.Labels["instance"] != running && newest.Labels["invocation"] != running:
			return newest.ID, nil
		}
		q.ExceptContainer = append(q.ExceptContainer, newest.ID)
	}
}

// oneLog refuses a subject with several logs whose attempts are not in one order.
func oneLog(c *cli, s subject) (subject, error) {
	switch s.kind {
	case "task":
		return s, failf(api.ExitUsage, "task %s has one attempt; to list other runs of its name: cantina task ls", s.name)
	case "job":
		return s, failf(api.ExitUsage, "--previous needs one batch task: cantina logs -p %s/NODE", s)
	case "service":
		got, err := call(c, calls.GetService, &pb.GetServiceRequest{Domain: s.domain, Name: s.name})
		if err == nil && got.Service.Instances > 1 {
			return s, failf(api.ExitUsage, "%s has %d instances; --previous needs one: cantina logs -p %[1]s/0", s,
				got.Service.Instances)
		}
		s.kind = "instance"
		if isCode(err, "not_found", "collected") { // its output is kept
			return s, nil
		}
		return s, err
	}
	return s, nil
}

// runningAttempt is the id of the instance or invocation that runs now; "" = none.
func runningAttempt(c *cli, s subject) (string, error) {
	if s.kind == "node" {
		l, err := call(c, calls.ListNodes,
			&pb.ListNodesRequest{Domain: s.domain, Job: s.name, Node: s.node, Page: &pb.Page{Limit: 1}})
		if isCode(err, "not_found", "collected") || err == nil && (len(l.Nodes) == 0 || l.Nodes[0].State != "running") {
			return "", nil
		}
		return l.GetNodes()[0].GetInvocation(), err
	}
	running := ""
	err := pages(func(cursor string) (string, error) {
		l, err := call(c, calls.ListInstances, &pb.ListInstancesRequest{Domain: s.domain, Service: s.name,
			Page: &pb.Page{Cursor: cursor, Limit: api.MaxPage}})
		for _, x := range l.GetInstances() {
			if x.Index == s.index && (x.State == lrp.Claimed.String() || x.State == lrp.Running.String()) {
				running = x.Instance
			}
		}
		return l.GetListing().GetNext(), err
	})
	if isCode(err, "not_found", "collected") {
		return "", nil
	}
	return running, err
}

// checkPrevious refuses flags that --previous excludes.
func (f *outputFlags) checkPrevious(sel *selector) error {
	switch {
	case !f.previous:
		return nil
	case f.follow:
		return failf(api.ExitUsage, "--previous and --follow exclude each other: an attempt that has ended writes nothing")
	case f.attempt != "":
		return failf(api.ExitUsage, "--previous and --attempt exclude each other: both name an attempt")
	case sel.text != "":
		return failf(api.ExitUsage, "--previous needs one SUBJECT, like web/0, not --selector")
	}
	return nil
}
