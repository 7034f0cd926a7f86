package main

import (
	"github.com/spf13/cobra"

	"cantina/sim"
)

// simVerb passes its arguments to the simulator, which has its own flags.
func simVerb(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "sim [flags]",
		Short: "Simulate a cluster with faults and check its invariants",
		Example: "  cantina sim --draw --for 20s       # many seeds, each with a cluster of its own shape, as CI does\n" +
			"  cantina sim --seed 42 --trace      # replay one",
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if code := sim.Main(args, c.Out, c.Err); code != 0 {
				return &exit{code: code}
			}
			return nil
		},
	}
}
