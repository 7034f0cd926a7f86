package main

import (
	"github.com/spf13/cobra"

	"cantina/executor"
)

// defaultUserFlag names the user for work that names none.
func defaultUserFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().Var(&userFlag{to}, "default-user", "user for work that names none, and whose image names none: user name, or uid or uid:gid (default: the cell's own; a spec with user: root still gets root)")
}

// runcFlag says who runs containers with a root of their own.
func runcFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "runc", executor.RuncAuto,
		"who runs containers with a root of their own: the path of runc (what it cannot run is refused), auto (runc where it is found and can, else the cell itself) or off (the cell itself)")
}
