package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"cantina/api"
)

func manVerb(c *cli) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "man [VERB ...]", Short: "Print the manual page of a verb, or write all of them",
		Long: "man prints a manual page in troff format. With --dir, it writes the pages of all verbs to files " +
			"(cantina-VERB.1) in a directory. Their date is today, or SOURCE_DATE_EPOCH.",
		Example: "  cantina man | man -l -\n" +
			"  cantina man job run | man -l -\n" +
			"  cantina man --dir /usr/local/share/man/man1",
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			root.DisableAutoGenTag = true
			header := &doc.GenManHeader{Section: "1", Source: "cantina " + version, Manual: "cantina"}
			if dir == "" {
				of, rest, err := root.Find(args)
				if err != nil || len(rest) > 0 {
					return failf(api.ExitUsage, "no verb %q; see cantina --help", strings.Join(args, " "))
				}
				return doc.GenMan(of, header, c.Out)
			}
			if len(args) > 0 {
				return failf(api.ExitUsage, "--dir writes the pages of all verbs: VERB is not needed")
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return failf(api.ExitFailed, "%v", err)
			}
			if err := doc.GenManTree(root, header, dir); err != nil {
				return failf(api.ExitFailed, "%v", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "directory to write the manual pages of all verbs to")
	return cmd
}
