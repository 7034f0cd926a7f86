package main

import (
	"github.com/spf13/cobra"

	"cantina/executor"
)

// defaultUserFlag says who runs what names nobody.
func defaultUserFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().Var(&userFlag{to}, "default-user", "who runs the work that names no user and whose image names none: user name, or uid or uid:gid (default: the cell's own; user: root in a spec asks for root)")
}

// runcFlag says who runs containers with a root of their own.
func runcFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "runc", executor.RuncAuto,
		"who runs containers with a root of their own: the path of runc (what it cannot run is refused), auto (runc where it is found and can, else the cell itself) or off (the cell itself)")
}
