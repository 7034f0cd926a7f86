package main

import (
	"strings"

	"github.com/spf13/cobra"

	pb "cantina/wire/cantinav1"
)

func (c *cli) adoptVerb() *cobra.Command {
	cmd := &cobra.Command{
		Use: "adopt CELL...", Short: "Have a cell of another cluster join this one",
		Long: "adopt decides what becomes of a FOREIGN cell: it leaves its cluster and joins this one, when it beats next. Its deadline-bound work ends (batch tasks,\n" +
			"tasks, exclusive services), for its own cluster starts that elsewhere; services run on, and this cluster takes them in. Be sure that this is the right\n" +
			"cluster: a server that was started on an empty or a wrong data directory has to be stopped instead.",
		Example: "  cantina cells adopt node7 --yes", Args: atLeast(1, "CELL"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := c.confirm("have %s leave their cluster; their tasks and batch tasks end", strings.Join(args, ", ")); err != nil {
				return err
			}
			for _, name := range args {
				name = strings.TrimPrefix(name, "cell/")
				if _, err := call(c, calls.AdoptCell, &pb.AdoptCellRequest{Name: name}); err != nil {
					return err
				}
				c.notef("cell %s joins when it calls next\n", name)
			}
			return nil
		},
	}
	c.needYes(cmd)
	return cmd
}

func (c *cli) discardVerb() *cobra.Command {
	cmd := &cobra.Command{
		Use: "discard CELL...", Short: "End what runs on a cell and the store does not know",
		Long: "A store that was restored from a backup does not know the tasks that were started after it. A cell leaves them alone until they end by themselves, and cells\n" +
			"and status list them. discard ends them; their results are lost.",
		Example: "  cantina cells discard node7 --yes", Args: atLeast(1, "CELL"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := c.confirm("end what runs on %s and the store does not know", strings.Join(args, ", ")); err != nil {
				return err
			}
			for _, name := range args {
				name = strings.TrimPrefix(name, "cell/")
				got, err := call(c, calls.DiscardUnknown, &pb.DiscardUnknownRequest{Name: name})
				if err != nil {
					return err
				}
				if len(got.Ended) == 0 {
					c.notef("cell %s runs nothing that the store does not know\n", name)
					continue
				}
				c.notef("cell %s: told to end: %s\n", name, strings.Join(got.Ended, ", "))
			}
			return nil
		},
	}
	c.needYes(cmd)
	return cmd
}
