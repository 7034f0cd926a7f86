package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"cantina/api"
	pb "cantina/wire/cantinav1"
)

func (c *cli) drainVerb() *cobra.Command {
	var reason, batch string
	var deadline time.Duration
	var stopBatch, wait bool
	cmd := &cobra.Command{
		Use: "drain CELL", Short: "Empty a cell: it takes no new work, and what it runs moves or ends",
		Long: "drain has a cell take no new work at once. Services start elsewhere before they stop here; tasks and batch tasks may end by themselves until the\n" +
			"deadline. Then what is left is ended: tasks fail, batch tasks run again elsewhere. A drain holds for the cell's name, also when cell or leader\n" +
			"start again, until cantina undrain takes it back; another drain replaces it. With --wait the exit code is 1 when the deadline had to end something.",
		Example: "  cantina drain node7 --reason 'new disk'\n  cantina drain node7 --reason kernel --deadline 1h --wait\n  cantina drain node7 --reason urgent --batch stop --deadline 30s",
		Args:    exactly(1, "CELL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(reason) == "" {
				return failf(api.ExitUsage, "a drain needs a reason for those who wonder: --reason 'new disk'")
			}
			stopBatch = stopBatch || batch == "stop"
			q := &pb.DrainCellRequest{Name: strings.TrimPrefix(args[0], "cell/"), Reason: reason, StopBatch: stopBatch}
			if cmd.Flags().Changed("deadline") {
				q.Deadline = durationpb.New(deadline)
			}
			got, err := call(c, calls.DrainCell, q)
			if err != nil {
				return c.noCell(args[0], err)
			}
			d := got.Cell.Drain
			c.notef("cell %s is drained, for %s at most; cantina undrain %[1]s takes it back\n", q.Name, short(d.GetUntil().AsTime().Sub(d.GetSince().AsTime())))
			if !wait {
				return nil
			}
			return c.detachable("cantina cells "+q.Name, nil, func(ctx context.Context) error {
				return c.waitDrained(ctx, q.Name, d)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&reason, "reason", "", "why (needed); shown to everybody who looks at the cell")
	f.Var(&durationFlag{d: &deadline}, "deadline", "end what is left after this long, like 30m (default: the cell's --evacuation-timeout)")
	choiceVar(f, &batch, "batch", "", "finish", []string{"finish", "stop"}, "finish: batch tasks may end by themselves until the deadline; stop: they are stopped at once, run again elsewhere, and no retry is counted")
	f.BoolVar(&stopBatch, "stop-batch", false, "the same as --batch stop")
	_ = f.MarkHidden("stop-batch")
	f.BoolVar(&wait, "wait", false, "wait until the cell is empty")
	c.waiting(cmd)
	return cmd
}

// waitDrained waits for the end of a drain, and fails with the list of what its
// deadline had to end.
func (c *cli) waitDrained(ctx context.Context, name string, d *pb.Drain) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	var end *pb.Drain
	err = c.until(ctx, &pb.StreamEventsRequest{Kind: []string{"cell"}, Subject: name}, func(ctx context.Context) (bool, string, error) {
		got, err := api.Call(ctx, client, calls.GetCell, &pb.GetCellRequest{Name: name})
		if err != nil {
			return false, "", err
		}
		end = got.Cell.Drain
		if end == nil || !end.Since.AsTime().Equal(d.GetSince().AsTime()) {
			return false, "", failf(api.ExitFailed, "the drain of cell %s was taken back, or replaced by another", name)
		}
		return end.Ended != nil, got.Position, nil
	})
	if err != nil {
		return err
	}
	if len(end.Waits) > 0 {
		return failf(api.ExitFailed, "the deadline ended what cell %s waited for: %s", name, printable(strings.Join(end.Waits, ", ")))
	}
	c.notef("cell %s is empty\n", name)
	return nil
}

func (c *cli) undrainVerb() *cobra.Command {
	return &cobra.Command{
		Use: "undrain CELL", Short: "Let a drained cell take work again",
		Long:    "undrain takes a drain back, also one that has ended. What has moved away stays where it is.",
		Example: "  cantina undrain node7", Args: exactly(1, "CELL"),
		RunE: func(_ *cobra.Command, args []string) error {
			name := strings.TrimPrefix(args[0], "cell/")
			was, err := call(c, calls.GetCell, &pb.GetCellRequest{Name: name})
			if err == nil && was.Cell.Drain == nil {
				c.notef("cell %s is not drained\n", name)
				return nil
			}
			_, err = call(c, calls.UndrainCell, &pb.UndrainCellRequest{Name: name})
			if err == nil {
				c.notef("cell %s takes work again\n", name)
			}
			return c.noCell(args[0], err)
		},
	}
}

// drainNote says in a few words how far a drain is.
func (c *cli) drainNote(d *pb.Drain) string {
	why := ": " + printable(d.Reason)
	switch {
	case d.Ended != nil && len(d.Waits) == 0:
		return "drained" + why
	case d.Ended != nil:
		return fmt.Sprintf("drained, the deadline ended %d%s", len(d.Waits), why)
	}
	return fmt.Sprintf("being drained, until %s, %d left%s", c.when(d.Until), len(d.Waits), why)
}
