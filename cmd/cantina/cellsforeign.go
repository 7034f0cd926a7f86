package main

import (
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	pb "cantina/wire/cantinav1"
)

func adoptVerb(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "adopt CELL...", Short: "Move a cell of another cluster into this one",
		Long: "adopt moves a FOREIGN cell from its cluster into this one at its next heartbeat. Its tasks, " +
			"batch tasks and exclusive services end, because its own cluster starts them elsewhere. Other " +
			"services keep running and are taken over. Check first that this is the right cluster: if a " +
			"server was started with an empty or wrong data directory, stop that server instead.",
		Example: "  cantina cells adopt node7 --yes", Args: atLeast(1, "CELL"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := c.confirm("move %s into this cluster and end their tasks and batch tasks",
				strings.Join(args, ", ")); err != nil {
				return err
			}
			var done []*structpb.Struct
			for _, name := range args {
				name = strings.TrimPrefix(name, "cell/")
				if _, err := call(c, calls.AdoptCell, &pb.AdoptCellRequest{Name: name}); err != nil {
					return err
				}
				c.notef("cell %s joins at its next heartbeat\n", name)
				done = append(done, fact(map[string]any{"cell": name, "result": "joins"}))
			}
			return answers(c, factTable("cell", "result"), done)
		},
	}
	c.needYes(cmd)
	c.waiting(cmd)
	return c.writing(cmd)
}

func discardVerb(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "discard CELL...", Short: "End work of a cell that is missing from a restored store",
		Long: "A store restored from a backup lacks tasks that started after the backup. Cells let such tasks " +
			"run to their end, and cells and status list them. discard ends them; their results are lost.",
		Example: "  cantina cells discard node7 --yes", Args: atLeast(1, "CELL"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := c.confirm("end work on %s that is not in the store", strings.Join(args, ", ")); err != nil {
				return err
			}
			var done []*structpb.Struct
			for _, name := range args {
				name = strings.TrimPrefix(name, "cell/")
				got, err := call(c, calls.DiscardUnknown, &pb.DiscardUnknownRequest{Name: name})
				if err != nil {
					return err
				}
				if len(got.Ended) == 0 {
					c.notef("cell %s has no work outside the store\n", name)
				} else {
					c.notef("cell %s: ending %s\n", name, strings.Join(got.Ended, ", "))
				}
				done = append(done, fact(map[string]any{"cell": name, "ended": strings.Join(got.Ended, ", ")}))
			}
			return answers(c, factTable("cell", "ended"), done)
		},
	}
	c.needYes(cmd)
	c.waiting(cmd)
	return c.writing(cmd)
}
