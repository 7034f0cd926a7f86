package main

import "github.com/spf13/cobra"

// processVerbs are the verbs that run processes on this machine instead of calling
// a server, and those that look at the machine itself.
func (c *cli) processVerbs() []*cobra.Command {
	return nil
}
