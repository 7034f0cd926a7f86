package main

import (
	"github.com/spf13/cobra"
)

// secretsFlag names the directory of the secrets that work may have.
func secretsFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "secrets", "",
		"directory of secrets, with a directory for each domain, whose files specs name in secrets (default: none)")
}

// volumesFlag names the directories below which work may have volumes.
func volumesFlag(cmd *cobra.Command, to *[]string) {
	cmd.Flags().StringSliceVar(to, "volumes", nil,
		"directories below which work may have volumes; DIRECTORY:ro allows only read-only ones (default: none)")
}

// defaultUserFlag names the user for work that names none.
func defaultUserFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().Var(&userFlag{to}, "default-user",
		"user for work without a user of its own or of its image: name, uid or uid:gid (default: the "+
			"cell's user; user: root in a spec still gets root)")
}
