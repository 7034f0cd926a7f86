package main

import (
	"context"

	"github.com/spf13/cobra"

	"cantina/api"
)

// invoke carries out one invocation and returns its exit code.
func invoke(ctx context.Context, args []string, s environment) int {
	out := &output{to: s.Out}
	s.Out = out
	c := &cli{environment: s, ctx: ctx}
	root := rootCommand(c)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	err = ofServer(cmd, err)
	if c.clientMade != nil {
		c.clientMade.Close()
	}
	return c.finish(out.end(err))
}

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
	f.StringVar(&c.context, "context", "", "use the servers of this context (CANTINA_CONTEXT); see cantina context ls")
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
		explainVerb(c), topVerb(c), cellsVerb(c), drainVerb(c), undrainVerb(c), rebalanceVerb(c),
		statusVerb(c), uiVerb(c), serviceVerb(c), taskVerb(c),
		jobVerb(c), eventsVerb(c), leaderVerb(c),
		storeVerb(c), doctorVerb(c),
		debugVerb(c), cronVerb(c), caVerb(c), contextVerb(c), versionVerb(c), completionVerb(c), manVerb(c),
	}, processVerbs(c)...)
}
