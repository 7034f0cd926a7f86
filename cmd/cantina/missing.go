package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"cantina/api"
	"cantina/internal/text"
	pb "cantina/wire/cantinav1"
)

// nothingCalled is the error for a name that does not exist. It names the existing resource that
// the name may be a part of, the time of its removal, or a resource with a similar name. Kind is
// the requested one, empty = any. Parts that cannot be determined are left out.
func nothingCalled(c *cli, kind, rest, domain string) error {
	text := rest
	if kind != "" {
		text = kind + "/" + rest
	}
	if why := partOf(c, kind, rest, domain); why != "" {
		return failf(api.ExitNotFound, "%s", why)
	}
	if gone := removedText(c, kind, rest, domain); gone != "" {
		return failf(api.ExitNotFound, "%s", gone)
	}
	hint := nearName(c, kind, rest, domain)
	if hint == "" || kind == "cell" { // the lost ones have names too
		hint = strings.TrimSpace(hint + " " + map[string]string{
			"": "list them: cantina ps, task ls, job ls, cron ls, cells", "service": "list them: cantina service ls",
			"task": "list them: cantina task ls", "job": "list them: cantina job ls", "schedule": "list them: cantina cron ls",
			"cell": "list them: cantina cells --all (a leader keeps only the lost cells of its term)",
		}[kind])
	}
	if kind != "" {
		return failf(api.ExitNotFound, "%s %q not found; %s", kind, rest, hint)
	}
	return failf(api.ExitNotFound, "resource %q not found; %s", text, hint)
}

// partOf describes the requested part of an existing job or service.
func partOf(c *cli, kind, rest, domain string) string {
	if kind != "" && kind != "job" && kind != "service" {
		return ""
	}
	for _, n := range namings(rest, domain) {
		whole := []naming{{n.domain, n.name, "", n.qualified}}
		if n.part == "" {
			continue
		}
		if found, err := findNamed(c, "job", whole, false); kind != "service" && err == nil && len(found) == 1 {
			return noNode(c, found[0], n.part)
		}
		if found, err := findNamed(c, "service", whole, false); kind != "job" && err == nil && len(found) == 1 {
			s := found[0]
			return fmt.Sprintf("service %s/%s has no instance %q; list them: cantina ps %[1]s/%[2]s", s.domain, s.name, n.part)
		}
	}
	return ""
}

// noNode reports that a job has no such node, with a similar one.
func noNode(c *cli, job subject, node string) string {
	got, err := call(c, calls.GetJob, &pb.GetJobRequest{Domain: job.domain, Name: job.name})
	if err != nil {
		return ""
	}
	name, total := job.domain+"/"+job.name, got.Job.Counts.GetTotal()
	if total == 0 && got.Job.NodesError == "" {
		return fmt.Sprintf("job %s has no node %s; its nodes are not known yet, or it has none", name, node)
	}
	var names []string
	if l, err := call(c, calls.ListNodes, &pb.ListNodesRequest{Domain: job.domain, Job: job.name,
		Page: &pb.Page{Limit: api.MaxPage}}); err == nil {
		for _, n := range l.Nodes {
			names = append(names, n.Node)
		}
	}
	hint := text.DidYouMean(node, names)
	if hint == "" {
		hint = "list them: cantina job nodes " + name
	}
	return fmt.Sprintf("job %s has no node %s (it has %d); %s", name, node, total, hint)
}

// noCell is an error about a cell by its name; a missing cell is reported as by find.
func noCell(c *cli, arg string, err error) error {
	if !isCode(err, "not_found", "collected") {
		return err
	}
	return nothingCalled(c, "cell", strings.TrimPrefix(arg, "cell/"), "")
}

// lookBack limits the search for removed resources: it only explains an error.
const lookBack = time.Second

// removedText returns when a resource of that name was removed, while the leader remembers it.
func removedText(c *cli, kind, rest, domain string) string {
	client, err := c.client()
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(c.ctx, lookBack)
	defer cancel()
	q := &pb.StreamEventsRequest{Since: "0", Domain: domain, Kind: []string{"service", "job", "schedule"}}
	if kind != "" {
		if !slices.Contains(q.Kind, kind) {
			return ""
		}
		q.Kind = []string{kind}
	}
	var last *pb.Event
	// It ends by an error when it takes too long: then the last that was seen counts.
	_ = client.Events(ctx, q, func(m *pb.StreamEventsResponse) error {
		switch e := m.Event; {
		case e == nil && m.Gap == nil:
			return api.Stop() // all that there is has been read
		case e != nil && e.Gone && (e.Subject == rest || e.Subject == e.Domain+"/"+rest):
			last = e
		}
		return nil
	})
	if last == nil {
		return ""
	}
	return fmt.Sprintf("%s %s was removed (%s)", last.Kind, last.Subject, c.when(last.Time))
}

// nearName is a hint with a similar name, or with a resource of that name and another kind.
func nearName(c *cli, kind, rest, domain string) string {
	client, err := c.client()
	if err != nil {
		return ""
	}
	kinds := []string{"service", "job", "task", "cell", "schedule"}
	names := map[string][]string{}
	for _, k := range kinds {
		ctx, cancel := c.limited()
		things := listed(ctx, client, k)
		cancel()
		for _, x := range things {
			if domain != "" && k != "cell" && x.domain != domain {
				continue
			}
			for _, name := range x.names {
				if name == "" {
					continue
				}
				names[k] = append(names[k], name)
				if strings.Contains(rest, "/") && x.domain != "" {
					names[k] = append(names[k], x.domain+"/"+name)
				}
			}
		}
	}
	var all []string
	for _, k := range kinds {
		switch {
		case kind == "" || k == kind:
			all = append(all, names[k]...)
		case slices.Contains(names[k], rest):
			return "did you mean " + k + "/" + rest + "?"
		}
	}
	return text.DidYouMean(rest, slices.DeleteFunc(all, func(name string) bool { return name == rest }))
}
