package main

import (
	"time"

	"github.com/spf13/cobra"

	"cantina/api"
	"cantina/internal/text"
)

// reads marks verbs that print data: they have -o and an example.
const reads = "reads"

func rootCommand(c *cli) *cobra.Command {
	root := &cobra.Command{
		Use:   "cantina",
		Short: "Run services, tasks and batch jobs on one machine or many",
		Long: "cantina runs services, one-off tasks, data-parallel batch jobs and schedules, on one machine or on many.\n" +
			"It never starts a second copy of a task, a batch task or an exclusive service that may still be running.",
		Example: "  cantina dev                        # server and cell in one process\n" +
			"  cantina apply cantina.yaml         # create or update resources\n" +
			"  cantina run -- ./measure.sh        # run once, follow, return the exit code\n" +
			"  cantina ps                         # list instances\n" +
			"  cantina explain web                # show why it is in its state",
		Version:      version,
		SilenceUsage: true, SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return failf(api.ExitUsage, "unknown verb %q%s", args[0], hintFor(cmd, args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("cantina {{.Version}}\n")
	root.SetOut(c.Out)
	root.SetErr(c.Err)
	root.SetIn(c.In)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(wrongFlag)
	f := root.PersistentFlags()
	f.StringSliceVar(&c.addr, "addr", nil, "addresses of the servers: host:port or unix:PATH (CANTINA_ADDR)")
	f.StringVar(&c.tls.Cert, "tls-cert", c.Getenv("CANTINA_TLS_CERT"),
		"client certificate for mutual TLS (CANTINA_TLS_CERT)")
	f.StringVar(&c.tls.Key, "tls-key", c.Getenv("CANTINA_TLS_KEY"),
		"private key of the client certificate (CANTINA_TLS_KEY)")
	f.StringVar(&c.tls.CA, "tls-ca", c.Getenv("CANTINA_TLS_CA"), "CA certificate used to verify servers (CANTINA_TLS_CA)")
	f.StringVar(&c.tokenFile, "token-file", c.defaultTokenFile(),
		"file with the token for loopback ports; written by dev, server and cell (CANTINA_TOKEN_FILE)")
	choiceVar(f, &c.color, "color", "", "auto", []string{"auto", "always", "never"},
		"use colours: auto, always or never (NO_COLOR)")
	f.BoolVarP(&c.quiet, "quiet", "q", false, "print only ids, and no notes")
	root.AddCommand(allVerbs(c)...)
	root.SetHelpCommand(helpVerb(c, root))
	addHelp(c, root)
	addCompletions(c, root)
	return root
}

// allVerbs lists every verb; wiring.go adds those that run processes.
func allVerbs(c *cli) []*cobra.Command {
	return append([]*cobra.Command{
		applyVerb(c), planVerb(c), validateVerb(c), runVerb(c), psVerb(c), logsVerb(c), execVerb(c), cpVerb(c),
		waitVerb(c), stopVerb(c),
		rmVerb(c), restartVerb(c),
		explainVerb(c), cellsVerb(c), drainVerb(c), undrainVerb(c), statusVerb(c), uiVerb(c), serviceVerb(c), taskVerb(c),
		jobVerb(c), eventsVerb(c), leaderVerb(c),
		storeVerb(c), doctorVerb(c), cronVerb(c), versionVerb(c), completionVerb(c), manVerb(c),
	}, processVerbs(c)...)
}

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
			"get": "cantina ps", "list": "cantina ps", "ls": "cantina ps", "top": "cantina cells", "nodes": "cantina cells",
			"node": "cantina cells", "scale": "cantina service scale", "delete": "cantina rm", "remove": "cantina rm",
			"kill": "cantina stop", "describe": "cantina explain", "inspect": "cantina explain", "create": "cantina apply",
			"start": "cantina service scale", "up": "cantina apply", "down": "cantina rm", "deploy": "cantina apply",
			"diff":   "cantina plan",
			"cordon": "cantina drain", "uncordon": "cantina undrain", "alloc": "cantina ps", "man": "cantina help",
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
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[reads] = "true"
	inner := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := c.chooseZone(); err != nil {
			return err
		}
		return inner(cmd, args)
	}
	return cmd
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
