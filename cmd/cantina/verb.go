package main

import (
	"time"

	"github.com/spf13/cobra"

	"cantina/api"
	"cantina/internal/text"
)

// reads marks verbs that print data: they have -o and an example. live marks those of them that a terminal shows
// until Ctrl-C. runs marks a verb that runs a process, and has verbs below it.
const (
	reads = "reads"
	live  = "live"
	runs  = "runs"
)

// hintFor is the end of an error about an unknown verb.
func hintFor(cmd *cobra.Command, name string) string {
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	if other := otherVerb(cmd.Name(), name); other != "" {
		return "; did you mean " + other + "?"
	}
	if h := text.DidYouMean(name, names); h != "" {
		return "; " + h
	}
	return "; see " + cmd.CommandPath() + " --help"
}

// otherVerb is the verb that other tools call name, below the program or a noun.
func otherVerb(parent, name string) string {
	switch parent {
	case "cantina":
		return map[string]string{
			"get": "cantina ps", "list": "cantina ps", "ls": "cantina ps", "stats": "cantina top", "nodes": "cantina cells",
			"node": "cantina cells", "scale": "cantina service scale", "delete": "cantina rm", "remove": "cantina rm",
			"kill": "cantina stop", "describe": "cantina explain", "inspect": "cantina explain", "create": "cantina apply",
			"start": "cantina service scale", "up": "cantina apply", "down": "cantina rm", "deploy": "cantina apply",
			"diff":   "cantina plan",
			"cordon": "cantina drain", "uncordon": "cantina undrain", "alloc": "cantina ps",
			"services": "cantina service ls", "tasks": "cantina task ls", "jobs": "cantina job ls",
			"schedules": "cantina cron ls",
		}[name]
	case "service", "task", "job", "cron":
		return map[string]string{"list": parent + " ls", "rm": "cantina rm", "delete": "cantina rm", "remove": "cantina rm",
			"stop": "cantina stop", "restart": "cantina restart", "logs": "cantina logs", "describe": "cantina explain"}[name]
	}
	return ""
}

// reading adds the flags of a verb that prints data.
func (c *cli) reading(cmd *cobra.Command) *cobra.Command {
	c.waiting(cmd)
	f := cmd.Flags()
	choiceVar(f, &c.output, "output", "o", "table", []string{"table", "wide", "json", "yaml", "name", "jsonl"},
		"output format: table, wide, json, yaml, name or jsonl")
	f.StringSliceVar(&c.columns, "columns", nil, "columns of the table, by name")
	f.StringVar(&c.template, "template", "", "Go template for each item, applied to its JSON")
	f.BoolVar(&c.noHeader, "no-header", false, "omit the header line")
	f.BoolVar(&c.noTrunc, "no-trunc", false, "do not truncate long values on a terminal")
	f.BoolVar(&c.utc, "utc", false, "print times in UTC")
	f.StringVar(&c.tz, "tz", "", "print times in this zone")
	mark(cmd, reads)
	inner := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := c.chooseZone(); err != nil {
			return err
		}
		return paged(c, cmd, func() error { return inner(cmd, args) })
	}
	return cmd
}

// mark adds an annotation to a verb.
func mark(cmd *cobra.Command, name string) {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[name] = "true"
}

func (c *cli) chooseZone() error {
	c.zone = time.Local
	if c.utc {
		c.zone = time.UTC
	}
	if c.tz != "" {
		loader, err := zones()
		if err != nil {
			return err
		}
		z, err := loader.Load(c.tz)
		if err != nil {
			return failf(api.ExitUsage, "--tz: %v", err)
		}
		c.zone = z.Location
	}
	return nil
}

// waiting adds --timeout.
func (c *cli) waiting(cmd *cobra.Command) {
	if cmd.Flags().Lookup("timeout") != nil {
		return
	}
	cmd.Flags().Var(&durationFlag{d: &c.timeout}, "timeout", "give up after this duration, like 5m (exit code 4)")
}
