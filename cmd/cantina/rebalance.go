package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"cantina/api"
	pb "cantina/wire/cantinav1"
)

func rebalanceVerb(c *cli) *cobra.Command {
	var services, cells []string
	var domain string
	var planOnly, apply bool
	var most, atOnce int32
	cmd := &cobra.Command{
		Use: "rebalance", Short: "Move instances so that the cells are used evenly",
		Long: "rebalance lists moves of running instances that spread a service better, or make cells that differ by " +
			"5 % or more evenly used. With --apply, it makes the moves: an instance runs until its " +
			"replacement serves on another cell. Of each service, one instance is moved at a time. A service " +
			"that is exclusive, stops first, is being rolled out or does not serve is left as it is. So is an instance that " +
			"has run for less than 30 seconds. Tasks and batch " +
			"work are never moved. The cell in column TO is the best one now; the auction decides when the move begins. " +
			"A move that no cell begins within a minute is cancelled.",
		Example: "  cantina rebalance\n  cantina rebalance --apply --max-moves 50\n" +
			"  cantina rebalance --service web --cell node7 -o json",
		Args: cobra.NoArgs,
		RunE: func(_ *cobra.Command, _ []string) error {
			if planOnly && apply {
				return failf(api.ExitUsage, "use either --plan or --apply")
			}
			q := &pb.RebalanceRequest{MaxMoves: most}
			for _, name := range cells {
				q.Cell = append(q.Cell, strings.TrimPrefix(name, "cell/"))
			}
			for _, name := range services {
				s, err := findWhole(c, "service", name, domain)
				if err != nil {
					return err
				}
				q.Service = append(q.Service, s.domain+"/"+s.name)
			}
			got, err := call(c, calls.Rebalance, q)
			if err != nil {
				return err
			}
			for _, x := range got.Left {
				c.notef("service %s is not moved: %s\n", printable(x.Service), printable(x.Reason))
			}
			if got.Partial {
				c.notef("not all instances were examined: repeat the command after these moves\n")
			}
			if !apply {
				c.notef("standard deviation of the use of the cells: %.1f %%, after %s: %.1f %%\n", got.Deviation,
					moveCount(len(got.Moves)), got.DeviationAfter)
				return list(c, moveTable(), got.Moves)
			}
			var all []*pb.Relocation
			err = c.detachable("cantina rebalance", nil, func(ctx context.Context) error {
				all, err = rebalance(ctx, c, q, int(most), int(atOnce))
				return err
			})
			if err != nil {
				return err
			}
			c.notef("%s made\n", moveCount(len(all)))
			return list(c, moveTable(), all)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&planOnly, "plan", false, "list the moves without making them (default)")
	f.BoolVar(&apply, "apply", false, "make the moves")
	f.StringSliceVar(&services, "service", nil, "only move instances of this service; may be repeated")
	f.StringSliceVar(&cells, "cell", nil, "only move instances off this cell; may be repeated")
	numberVar(f, &most, "max-moves", "", 20, 1, 1000, "make at most this many moves")
	numberVar(f, &atOnce, "at-once", "", 5, 1, 25, "move at most this many instances at the same time")
	domainFlag(cmd, &domain)
	return c.reading(cmd)
}

func moveCount(n int) string {
	if n == 1 {
		return "1 move"
	}
	return number(int32(n)) + " moves"
}

// rebalance makes moves in groups until none is left or most were made.
func rebalance(ctx context.Context, c *cli, q *pb.RebalanceRequest, most, atOnce int) ([]*pb.Relocation, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	var all []*pb.Relocation
	for len(all) < most {
		if err := awaitMoves(ctx, c, client); err != nil {
			return all, err
		}
		next := &pb.RebalanceRequest{Service: q.Service, Cell: q.Cell, Apply: true,
			MaxMoves: int32(min(atOnce, most-len(all)))}
		got, err := api.Call(ctx, client, calls.Rebalance, next)
		if err != nil {
			return all, err
		}
		for _, m := range got.Moves {
			c.notef("moving %s from %s: %s\n", printable(m.Instance), printable(m.From), printable(m.Gain))
		}
		if len(got.Moves) == 0 {
			return all, nil
		}
		all = append(all, got.Moves...)
	}
	return all, awaitMoves(ctx, c, client)
}

// awaitMoves waits until no instance is being moved.
func awaitMoves(ctx context.Context, c *cli, client *api.Client) error {
	return waitUntil(ctx, c, &pb.StreamEventsRequest{Kind: []string{"instance"}},
		func(ctx context.Context) (bool, string, error) {
			got, err := api.Call(ctx, client, calls.Rebalance, &pb.RebalanceRequest{CountOnly: true})
			if err != nil {
				return false, "", err
			}
			return got.Moving == 0, got.Position, nil
		})
}

func moveTable() table[*pb.Relocation] {
	return table[*pb.Relocation]{
		id: func(x *pb.Relocation) string { return x.Instance },
		columns: []column[*pb.Relocation]{
			{name: "INSTANCE", whole: true, text: func(x *pb.Relocation) string { return x.Instance }},
			{name: "FROM", whole: true, text: func(x *pb.Relocation) string { return x.From }},
			{name: "TO", whole: true, text: func(x *pb.Relocation) string { return x.To }},
			{name: "GAIN", text: func(x *pb.Relocation) string { return x.Gain }},
		},
	}
}
