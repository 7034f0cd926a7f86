package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"cantina/api"
	"cantina/label"
	pb "cantina/wire/cantinav1"
)

// selector is the value of -l: conditions on labels.
type selector struct {
	text  string
	parts label.Selector
}

// String is the text as it was given.
func (s *selector) String() string { return s.text }

// Set implements pflag.Value.
func (s *selector) Set(text string) error {
	parts, err := label.ParseSelector(text)
	if err != nil {
		return &wrong{allowed: "must be conditions on labels like " + label.SelectorExamples}
	}
	s.text, s.parts = text, parts
	return nil
}

// Type implements pflag.Value.
func (s *selector) Type() string { return "string" }

// add adds -l; objects are those that it selects.
func (s *selector) add(cmd *cobra.Command, objects string) {
	cmd.Flags().VarP(s, "selector", "l", objects+" with these labels: "+label.SelectorExamples)
}

// argsOr is for verbs that take SUBJECT arguments or -l.
func (s *selector) argsOr(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > 0 && s.text != "":
			return failf(api.ExitUsage, "%s takes %s or --selector, not both", cmd.CommandPath(), what)
		case cmd.Flags().Changed("selector") && len(s.parts) == 0:
			return failf(api.ExitUsage, "--selector is empty and would select everything; name a label, like app=web")
		case len(args) == 0 && s.text == "":
			return failf(api.ExitUsage, "%s needs %s or --selector; see %s --help", cmd.CommandPath(), what, cmd.CommandPath())
		}
		return nil
	}
}

// toPrune refuses a prune of everything.
func (s *selector) toPrune(cmd *cobra.Command, prune bool) error {
	switch {
	case prune && len(s.parts) == 0:
		return failf(api.ExitUsage, "--prune needs --selector: only resources with these labels are deleted, like -l "+
			"app=shop, or -l '!keep' for those without a label")
	case !prune && cmd.Flags().Changed("selector"):
		return failf(api.ExitUsage, "--selector needs --prune")
	}
	return nil
}

// labelled is a message that carries labels.
type labelled interface {
	proto.Message
	GetLabels() map[string]string
}

// labelsColumn is the column of labels in wide tables.
func labelsColumn[T labelled]() column[T] {
	return column[T]{name: "LABELS", wide: true, text: func(x T) string { return labelsText(x.GetLabels()) }}
}

func labelsText(labels map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, k+"="+labels[k])
	}
	return strings.Join(out, ",")
}

// subjects returns those that arguments name, or that -l selects among some kinds. All are found before the caller
// changes the first.
func subjects(c *cli, args []string, domain string, sel *selector, removes bool, kinds ...string) ([]subject, error) {
	var all []subject
	for _, a := range args {
		s, err := findToChange(c, a, domain, removes)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	for _, kind := range kinds {
		if len(args) > 0 {
			break
		}
		found, err := selected(c, kind, domain, sel.text, removes)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		return nil, failf(api.ExitNotFound, "no %s has labels that match %q", strings.Join(kinds, ", "), sel.text)
	}
	return all, nil
}

// selected lists the objects of a kind whose labels match, and with ended also the tasks that have ended.
func selected(c *cli, kind, domain, sel string, ended bool) (all []subject, err error) {
	err = pages(func(cursor string) (string, error) {
		page := &pb.Page{Cursor: cursor, Limit: api.MaxPage}
		add := func(domain, name string, ended bool) {
			all = append(all, subject{kind: kind, domain: domain, name: name, ended: ended})
		}
		switch kind {
		case "service":
			l, err := call(c, calls.ListServices, &pb.ListServicesRequest{Domain: domain, Selector: sel, Page: page})
			for _, x := range l.GetServices() {
				if !x.Removed {
					add(x.Domain, x.Name, false)
				}
			}
			return l.GetListing().GetNext(), err
		case "job":
			l, err := call(c, calls.ListJobs, &pb.ListJobsRequest{Domain: domain, Selector: sel, Page: page})
			for _, x := range l.GetJobs() {
				if x.State != "removed" {
					add(x.Domain, x.Name, false)
				}
			}
			return l.GetListing().GetNext(), err
		case "schedule":
			l, err := call(c, calls.ListSchedules, &pb.ListSchedulesRequest{Domain: domain, Selector: sel, Page: page})
			for _, x := range l.GetSchedules() {
				add(x.Domain, x.Name, false)
			}
			return l.GetListing().GetNext(), err
		}
		l, err := call(c, calls.ListTasks, &pb.ListTasksRequest{Domain: domain, Selector: sel, Page: page})
		for _, x := range l.GetTasks() {
			if ended || x.Outcome == "" {
				add("", x.Id, x.Outcome != "")
			}
		}
		return l.GetListing().GetNext(), err
	})
	return all, err
}
