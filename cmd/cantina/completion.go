package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cantina/api"
	pb "cantina/wire/cantinav1"
)

func completionVerb(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "completion bash|zsh|fish|powershell", Short: "Print the completion script of a shell",
		Long: "completion prints a script that completes verbs, flags and the names of resources.",
		Example: "  source <(cantina completion bash)\n" +
			"  cantina completion fish > ~/.config/fish/completions/cantina.fish",
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"}, Args: exactly(1, "the name of a shell"),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(c.Out, true)
			case "zsh":
				return root.GenZshCompletion(c.Out)
			case "fish":
				return root.GenFishCompletion(c.Out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(c.Out)
			}
			return failf(api.ExitUsage, "no completion for shell %q; supported: bash, zsh, fish, powershell", args[0])
		},
	}
}

// completionTime limits a completion's calls to the server.
const completionTime = 300 * time.Millisecond

// completeNames offers the names of existing resources.
func completeNames(c *cli, kinds ...string) func(*cobra.Command, []string, string) ([]string,
	cobra.ShellCompDirective) {
	return func(_ *cobra.Command, _ []string, begin string) ([]string, cobra.ShellCompDirective) {
		c.impatient = true
		client, err := c.client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(c.ctx, completionTime)
		defer cancel()
		var out []string
		add := func(name string) {
			if strings.HasPrefix(name, begin) {
				out = append(out, name)
			}
		}
		// A server that does not answer in time completes nothing; that is no error
		// that a person at a prompt wants to see.
		for _, kind := range kinds {
			for _, x := range listed(ctx, client, kind) {
				add(x.names[0])
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// thing is an existing resource; the first of its names is its own.
type thing struct {
	domain string
	names  []string
}

// listed returns the resources of a kind, as far as the server answers in time.
func listed(ctx context.Context, client *api.Client, kind string) (out []thing) {
	page := &pb.Page{Limit: api.MaxPage}
	add := func(domain string, names ...string) { out = append(out, thing{domain, names}) }
	switch kind {
	case "service":
		l, _ := api.Call(ctx, client, calls.ListServices, &pb.ListServicesRequest{Page: page})
		for _, x := range l.GetServices() {
			add(x.Domain, x.Name)
		}
	case "task":
		l, _ := api.Call(ctx, client, calls.ListTasks, &pb.ListTasksRequest{Page: page})
		for _, x := range l.GetTasks() {
			add(x.Domain, x.Id, x.Name)
		}
	case "job":
		l, _ := api.Call(ctx, client, calls.ListJobs, &pb.ListJobsRequest{Page: page})
		for _, x := range l.GetJobs() {
			add(x.Domain, x.Name)
		}
	case "cell":
		l, _ := api.Call(ctx, client, calls.ListCells, &pb.ListCellsRequest{Page: page})
		for _, x := range l.GetCells() {
			add("", x.Name)
		}
	case "schedule":
		l, _ := api.Call(ctx, client, calls.ListSchedules, &pb.ListSchedulesRequest{Page: page})
		for _, x := range l.GetSchedules() {
			add(x.Domain, x.Name)
		}
	}
	return out
}

// addCompletions registers the names that each verb takes.
func addCompletions(c *cli, root *cobra.Command) {
	for path, kinds := range map[string][]string{
		"drain": {"cell"}, "undrain": {"cell"}, "cells forget": {"cell"}, "cells adopt": {"cell"}, "cells discard": {"cell"},
		"cron next": {"schedule"}, "cron show": {"schedule"}, "cron run": {"schedule"}, "cron pause": {"schedule"},
		"cron resume": {"schedule"}, "cron missed": {"schedule"}, "cron backfill": {"schedule"}, "cron history": {"schedule"},
		"cron reset": {"schedule"},
		"ps":         {"service"}, "logs": {"service", "task", "job"}, "wait": {"service", "task",
			"job"}, "stop": {"service", "task", "job"},
		"exec": {"service", "task", "job"},
		"rm":   {"service", "task", "job", "schedule"}, "restart": {"service"}, "explain": {"service", "task", "job", "cell",
			"schedule"}, "cells": {"cell"},
		"service get": {"service"}, "service scale": {"service"}, "task get": {"task"}, "task result": {"task"},
		"task resolve": {"task"}, "task rerun": {"task"},
		"job get": {"job"}, "job nodes": {"job"}, "job results": {"job"}, "job pause": {"job"}, "job resume": {"job"},
		"job retry": {"job"}, "job kill": {"job"},
	} {
		if cmd, _, err := root.Find(strings.Fields(path)); err == nil {
			cmd.ValidArgsFunction = completeNames(c, kinds...)
		}
	}
	if cmd, _, err := root.Find([]string{"cp"}); err == nil {
		cmd.ValidArgsFunction = completeCopy(c)
	}
	for _, path := range []string{"context use", "context set", "context rm"} {
		if cmd, _, err := root.Find(strings.Fields(path)); err == nil {
			cmd.ValidArgsFunction = completeContexts(c)
		}
	}
	completeFlags(c, root)
}

// completeContexts offers the names of contexts.
func completeContexts(c *cli) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		f, err := c.readContexts()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return f.names(), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeCopy offers the names of running work with a colon; files here are the shell's own.
func completeCopy(c *cli) cobra.CompletionFunc {
	names := completeNames(c, "service", "task", "job")
	return func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
		if here := copyEndOf(begin); begin != "" && here.subject == "" && strings.ContainsAny(begin, "./") {
			return nil, cobra.ShellCompDirectiveDefault
		}
		list, _ := names(cmd, args, begin)
		for i := range list {
			list[i] += ":"
		}
		return list, cobra.ShellCompDirectiveNoSpace
	}
}

// completeFlags registers the values of flags: the words of a choice, and names of cells.
func completeFlags(c *cli, cmd *cobra.Command) {
	words := func(list []string) cobra.CompletionFunc {
		return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return list, cobra.ShellCompDirectiveNoFileComp
		}
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		var complete cobra.CompletionFunc
		switch v := f.Value.(type) {
		case *choiceFlag:
			complete = words(v.words)
		case *choicesFlag:
			complete = words(v.words)
		}
		switch f.Name {
		case "cell":
			complete = completeNames(c, "cell")
		case "context":
			complete = completeContexts(c)
		}
		if complete != nil {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, complete) // it exists, and this is the first
		}
	})
	for _, sub := range cmd.Commands() {
		completeFlags(c, sub)
	}
}
