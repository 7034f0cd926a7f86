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
	"cantina/worker"
)

func drainVerb(c *cli) *cobra.Command {
	var reason, batch string
	var deadline time.Duration
	var stopBatch, wait bool
	cmd := &cobra.Command{
		Use: "drain CELL", Short: "Move work off a cell and accept no new work",
		Long: "A drained cell accepts no new work. Services start elsewhere before they stop here. Tasks and " +
			"batch tasks may finish until the deadline; then tasks fail and batch tasks run again " +
			"elsewhere. A drain belongs to the cell's name and survives restarts of cell and leader, until " +
			"cantina undrain; another drain replaces it. With --wait, exits 1 if the deadline ended work.",
		Example: "  cantina drain node7 --reason 'new disk'\n  cantina drain node7 --reason kernel --deadline 1h --wait\n" +
			"  cantina drain node7 --reason urgent --batch stop --deadline 30s",
		Args: exactly(1, "CELL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(reason) == "" {
				return failf(api.ExitUsage, "a reason is required, for example --reason 'new disk'")
			}
			stopBatch = stopBatch || batch == "stop"
			q := &pb.DrainCellRequest{Name: strings.TrimPrefix(args[0], "cell/"), Reason: reason, StopBatch: stopBatch}
			if cmd.Flags().Changed("deadline") {
				q.Deadline = durationpb.New(deadline)
			}
			got, err := call(c, calls.DrainCell, q)
			if err != nil {
				return noCell(c, args[0], err)
			}
			d := got.Cell.Drain
			c.notef("cell %s draining, deadline in %s; to cancel: cantina undrain %[1]s\n", q.Name,
				short(d.GetUntil().AsTime().Sub(d.GetSince().AsTime())))
			if x := got.Cell; x.Session != worker.Healthy.String() {
				c.notef("cell %s is %s (%s): the drain starts with its next heartbeat\n", q.Name, x.Session, printable(x.Reason))
			}
			if !wait {
				return answer(c, cellTable(c), got.Cell)
			}
			err = c.detachable("cantina cells "+q.Name, nil, func(ctx context.Context) error {
				defer startReasons(ctx, c, subject{kind: "cell", name: q.Name})()
				return waitDrained(ctx, c, q.Name, d)
			})
			if err != nil {
				return err
			}
			now, err := call(c, calls.GetCell, &pb.GetCellRequest{Name: q.Name})
			if err != nil {
				return err
			}
			return answer(c, cellTable(c), now.Cell)
		},
	}
	f := cmd.Flags()
	f.StringVar(&reason, "reason", "", "reason (required); shown wherever the cell is listed")
	f.Var(&durationFlag{d: &deadline}, "deadline",
		"end remaining work after this duration, like 30m (default: the cell's --drain-timeout)")
	choiceVar(f, &batch, "batch", "", "finish", []string{"finish", "stop"},
		"finish: batch tasks may finish until the deadline; stop: end them at once and run them "+
			"elsewhere, without counting a retry")
	f.BoolVar(&stopBatch, "stop-batch", false, "same as --batch stop")
	_ = f.MarkHidden("stop-batch")
	f.BoolVar(&wait, "wait", false, "wait until the cell is empty")
	c.waiting(cmd)
	return c.writing(cmd)
}

// waitDrained waits for the end of a drain, and fails with the list of work that its deadline
// ended.
func waitDrained(ctx context.Context, c *cli, name string, d *pb.Drain) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	var end *pb.Drain
	err = waitUntil(ctx, c, &pb.StreamEventsRequest{Kind: []string{"cell"}, Subject: name},
		func(ctx context.Context) (bool, string, error) {
			got, err := api.Call(ctx, client, calls.GetCell, &pb.GetCellRequest{Name: name})
			if err != nil {
				return false, "", err
			}
			end = got.Cell.Drain
			if end == nil || !end.Since.AsTime().Equal(d.GetSince().AsTime()) {
				return false, "", failf(api.ExitFailed, "drain of cell %s was cancelled or replaced", name)
			}
			return end.Ended != nil, got.Position, nil
		})
	if err != nil {
		return err
	}
	if len(end.Waits) > 0 {
		return failf(api.ExitFailed, "cell %s: deadline exceeded; ended: %s", name, printable(strings.Join(end.Waits, ", ")))
	}
	c.notef("cell %s is empty\n", name)
	return nil
}

func undrainVerb(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "undrain CELL", Short: "Accept work on a drained cell again",
		Long:    "undrain cancels a drain, even a finished one. Work that has moved away does not move back.",
		Example: "  cantina undrain node7", Args: exactly(1, "CELL"),
		RunE: func(_ *cobra.Command, args []string) error {
			name := strings.TrimPrefix(args[0], "cell/")
			was, err := call(c, calls.GetCell, &pb.GetCellRequest{Name: name})
			if err == nil && was.Cell.Drain == nil {
				c.notef("cell %s is not drained\n", name)
				return answer(c, cellTable(c), was.Cell)
			}
			got, err := call(c, calls.UndrainCell, &pb.UndrainCellRequest{Name: name})
			if err == nil {
				c.notef("cell %s accepts work again\n", name)
				return answer(c, cellTable(c), got.Cell)
			}
			return noCell(c, args[0], err)
		},
	}
	c.waiting(cmd)
	return c.writing(cmd)
}

// drainNote describes the progress of a drain in a few words.
func drainNote(c *cli, d *pb.Drain) string {
	why := ": " + printable(d.Reason)
	switch {
	case d.Ended != nil && len(d.Waits) == 0:
		return "drained" + why
	case d.Ended != nil:
		return fmt.Sprintf("drained; %d ended by the deadline%s", len(d.Waits), why)
	}
	left := fmt.Sprintf("%d left", len(d.Waits))
	switch {
	case d.Unknown != "" && len(d.Waits) == 0:
		return fmt.Sprintf("draining until %s%s; the work left is not known: %s", c.when(d.Until), why, printable(d.Unknown))
	case d.Unknown != "":
		return fmt.Sprintf("draining until %s%s; %s at its last report, now not known: %s", c.when(d.Until), why, left,
			printable(d.Unknown))
	}
	return fmt.Sprintf("draining until %s; %s%s", c.when(d.Until), left, why)
}
