package main

import (
	"github.com/spf13/cobra"
)

// defaultUserFlag names the user for work that names none.
func defaultUserFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().Var(&userFlag{to}, "default-user",
		"user for work without a user of its own or of its image: name, uid or uid:gid (default: the "+
			"cell's user; user: root in a spec still gets root)")
}
