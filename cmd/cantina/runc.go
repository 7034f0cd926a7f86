package main

import (
	"github.com/spf13/cobra"

	"cantina/executor"
)

// runcFlag says who runs containers with a root of their own.
func runcFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "runc", executor.RuncAuto,
		"who runs containers with a root of their own: the path of runc (what it cannot run is refused), auto (runc where it is found and can, else the cell itself) or off (the cell itself)")
}
