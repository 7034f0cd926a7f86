package main

import (
	"github.com/spf13/cobra"

	"cantina/executor"
)

// defaultUserFlag names the user for work that names none.
func defaultUserFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().Var(&userFlag{to}, "default-user", "user for work without a user of its own or of its image: name, uid or uid:gid (default: the "+
		"cell's user; user: root in a spec still gets root)")
}

// runcFlag says who runs containers with a root of their own.
func runcFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "runc", executor.RuncAuto,
		"runtime for containers with a root filesystem: path to runc, auto (runc if usable, else "+
			"built-in) or off (built-in)")
}
