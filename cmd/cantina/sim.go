package main

import (
	goflag "flag"
	"strconv"

	"github.com/spf13/cobra"

	"cantina/sim"
)

func simVerb(c *cli) *cobra.Command {
	var run sim.Command
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Simulate a cluster with faults and check its invariants",
		Long: "sim runs the decisions of servers and cells, with messages that are lost, late or repeated, in simulated " +
			"time. Each seed is one cluster. Exits 1 and prints the seed if an invariant is violated.",
		Example: "  cantina sim --draw --for 20s       # many seeds, each with a cluster of its own shape, as CI does\n" +
			"  cantina sim --seed 42 --trace      # replay one",
		Args: atMost(0, "none"),
		RunE: func(*cobra.Command, []string) error {
			return code(run.Run(c.Out, c.Err))
		},
	}
	run.Flags().VisitAll(func(f *goflag.Flag) {
		if f.Name == "for" {
			cmd.Flags().Var(&durationFlag{d: &run.For}, f.Name, f.Usage)
			return
		}
		of := cmd.Flags().VarPF(&simFlag{Value: f.Value}, f.Name, "", f.Usage)
		if of.Value.Type() == "bool" {
			of.NoOptDefVal = "true"
		}
	})
	return cmd
}

// simFlag is a flag of the simulator, which declares them without the parser of the command line.
type simFlag struct{ goflag.Value }

// Set implements pflag.Value.
func (f *simFlag) Set(s string) error {
	switch f.Type() {
	case "bool":
		return f.Value.Set(s)
	case "int":
		if _, err := strconv.ParseUint(s, 10, 63); err != nil {
			return &wrong{allowed: "must be a whole number, at least 0"}
		}
	}
	if err := f.Value.Set(s); err != nil {
		return &wrong{allowed: err.Error()}
	}
	return nil
}

// Type implements pflag.Value.
func (f *simFlag) Type() string {
	if g, ok := f.Value.(goflag.Getter); ok {
		if _, ok := g.Get().(bool); ok {
			return "bool"
		}
		return "int"
	}
	return "value"
}
