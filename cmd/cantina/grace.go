package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"cantina/api"
	"cantina/internal/text"
	pb "cantina/wire/cantinav1"
)

// graceFlags are --now and --grace of verbs that end work.
type graceFlags struct {
	now   bool
	grace time.Duration
	cmd   *cobra.Command
}

func (g *graceFlags) add(cmd *cobra.Command) {
	g.cmd = cmd
	cmd.Flags().BoolVar(&g.now, "now", false, "kill at once, without time to clean up, also if already stopping")
	cmd.Flags().Var(&durationFlag{d: &g.grace}, "grace",
		"kill after at most this duration, like 5s, also if already stopping (default: stop_grace)")
	oneOf(cmd, "now", "grace")
}

// given reports whether the time of the kill is to be shortened.
func (g *graceFlags) given() bool { return g.now || g.cmd.Flags().Changed("grace") }

// shortenFor is for how long work that its cell does not end yet is asked for again, and
// shortenPause the interval.
const (
	shortenFor   = 5 * time.Second
	shortenPause = 100 * time.Millisecond
)

// shorten has what is to end of a subject killed sooner. expected is how much the verb itself has
// ended: its cells may learn that a moment later.
func (g *graceFlags) shorten(c *cli, s subject, expected int) (string, error) {
	if !g.given() {
		return "", nil
	}
	q := &pb.ShortenStopRequest{Subject: s.wire(), Grace: durationpb.New(g.grace)}
	last := time.Now().Add(shortenFor)
	for {
		got, err := call(c, calls.ShortenStop, q)
		if isCode(err, "not_found", "collected") { // all of it has ended, and is gone
			return g.text(0), nil
		}
		if err != nil {
			return "", err
		}
		if len(got.Unreached) > 0 {
			return "", failf(api.ExitFailed, "%s did not respond; its work ends after the configured grace",
				"cell "+strings.Join(got.Unreached, ", cell "))
		}
		if int(got.Shortened) >= max(expected, int(got.Ending)) || time.Now().After(last) {
			return g.text(int(got.Shortened)), nil
		}
		select {
		case <-c.ctx.Done():
			return "", c.ctx.Err()
		case <-time.After(shortenPause):
		}
	}
}

func (g *graceFlags) text(n int) string {
	switch {
	case n == 0:
		return ", nothing left to kill"
	case g.now:
		return fmt.Sprintf(", %s killed", text.Count(n, "container"))
	}
	return fmt.Sprintf(", %s killed after %v at the latest", text.Count(n, "container"), g.grace)
}
