package main

import (
	"time"

	"github.com/spf13/cobra"

	"cantina/api"
	"cantina/spec"
)

// reads marks verbs that print data: they have -o and an example.
const reads = "reads"

func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "cantina",
		Short: "Run services, tasks and batch jobs on one machine or many",
		Long: "cantina runs services, one-off tasks and data-parallel batch jobs, on one machine or on many, and never\n" +
			"starts a second copy of a task, a batch task or an exclusive service that may still be running.",
		Example: "  cantina dev                        # server and cell in one process\n" +
			"  cantina apply cantina.yaml         # make it so\n" +
			"  cantina run -- ./measure.sh        # run once, follow, keep the exit code\n" +
			"  cantina ps                         # what runs\n" +
			"  cantina explain web                # why it is not as it should be",
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
	f.StringSliceVar(&c.addr, "addr", nil, "servers, host:port or unix:PATH (CANTINA_ADDR)")
	f.StringVar(&c.tls.Cert, "tls-cert", c.Getenv("CANTINA_TLS_CERT"), "certificate file for mutual TLS (CANTINA_TLS_CERT)")
	f.StringVar(&c.tls.Key, "tls-key", c.Getenv("CANTINA_TLS_KEY"), "key file of the certificate (CANTINA_TLS_KEY)")
	f.StringVar(&c.tls.CA, "tls-ca", c.Getenv("CANTINA_TLS_CA"), "file with the authority of the servers (CANTINA_TLS_CA)")
	f.StringVar(&c.tokenFile, "token-file", c.defaultTokenFile(), "file with the token of loopback ports: dev, server and cell make it, clients read it (CANTINA_TOKEN_FILE)")
	choiceVar(f, &c.color, "color", "", "auto", []string{"auto", "always", "never"}, "auto, always or never (NO_COLOR)")
	f.BoolVarP(&c.quiet, "quiet", "q", false, "print ids only, and no notes")
	root.AddCommand(c.verbs()...)
	root.SetHelpCommand(c.helpVerb(root))
	c.help(root)
	c.completions(root)
	return root
}

// verbs lists every verb; wiring.go adds those that run processes.
func (c *cli) verbs() []*cobra.Command {
	return append([]*cobra.Command{
		c.applyVerb(), c.planVerb(), c.runVerb(), c.psVerb(), c.logsVerb(), c.waitVerb(), c.stopVerb(), c.rmVerb(), c.restartVerb(),
		c.explainVerb(), c.cellsVerb(), c.drainVerb(), c.undrainVerb(), c.statusVerb(), c.serviceVerb(), c.taskVerb(), c.jobVerb(), c.eventsVerb(), c.leaderVerb(),
		c.storeVerb(), c.doctorVerb(), c.cronVerb(), c.versionVerb(), c.completionVerb(),
	}, c.processVerbs()...)
}

func hintFor(cmd *cobra.Command, name string) string {
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	if h := spec.DidYouMean(name, names); h != "" {
		return "; " + h
	}
	return "; see " + cmd.CommandPath() + " --help"
}

// reading adds the flags of a verb that prints data.
func (c *cli) reading(cmd *cobra.Command) *cobra.Command {
	f := cmd.Flags()
	choiceVar(f, &c.output, "output", "o", "table", []string{"table", "wide", "json", "yaml", "name", "jsonl"}, "table, wide, json, yaml, name or jsonl")
	f.StringSliceVar(&c.columns, "columns", nil, "columns of the table, by name")
	f.StringVar(&c.template, "template", "", "Go template for each item, over its JSON")
	f.BoolVar(&c.noHeader, "no-header", false, "no line with the names of the columns")
	f.BoolVar(&c.noTrunc, "no-trunc", false, "do not cut long values on a terminal")
	f.BoolVar(&c.utc, "utc", false, "times in UTC")
	f.StringVar(&c.tz, "tz", "", "times in this zone")
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
	cmd.Flags().Var(&durationFlag{d: &c.timeout}, "timeout", "give up after this long, like 5m (exit code 4)")
}
