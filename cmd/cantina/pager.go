package main

import (
	"errors"
	"io"
	"os/exec"
	"syscall"

	"github.com/spf13/cobra"

	"cantina/api"
)

// paged runs a verb that prints data with its output in the pager of CANTINA_PAGER. Only a terminal has one, and
// output that goes on until Ctrl-C has none.
func paged(c *cli, cmd *cobra.Command, run func() error) error {
	pager := c.Getenv("CANTINA_PAGER")
	if pager == "" || !c.OutTTY || cmd.Annotations[reads] == "" || cmd.Annotations[live] != "" {
		return run()
	}
	for _, name := range []string{"watch", "follow"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Value.String() == "true" {
			return run()
		}
	}
	p := exec.Command("/bin/sh", "-c", pager)
	p.Stdout, p.Stderr = c.Out, c.Err
	if o, ok := c.Out.(*output); ok {
		p.Stdout = o.to // a file as it is
	}
	in, err := p.StdinPipe()
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		return failf(api.ExitFailed, "CANTINA_PAGER %q: %v", pager, err)
	}
	screen := c.Out
	c.Out = &pagerInput{to: in}
	err = run()
	c.Out = screen
	_ = in.Close() // the pager may have ended
	if ended := p.Wait(); ended != nil && err == nil {
		err = failf(api.ExitFailed, "CANTINA_PAGER %q: %v", pager, ended)
	}
	return err
}

// pagerInput is the output of a verb. A pager that has ended wants no more of it.
type pagerInput struct{ to io.Writer }

// Write implements io.Writer.
func (p *pagerInput) Write(b []byte) (int, error) {
	n, err := p.to.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		return len(b), nil
	}
	return n, err
}
