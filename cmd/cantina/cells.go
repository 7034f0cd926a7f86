package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cantina/api"
	"cantina/event"
	"cantina/resource"
	pb "cantina/wire/cantinav1"
	"cantina/worker"
)

func cellTable(c *cli) table[*pb.Cell] {
	return table[*pb.Cell]{
		id: func(x *pb.Cell) string { return x.Name },
		columns: []column[*pb.Cell]{
			{name: "CELL", whole: true, text: func(x *pb.Cell) string { return x.Name }},
			{name: "SESSION", text: func(x *pb.Cell) string { return x.Session }},
			{name: "SINCE", text: func(x *pb.Cell) string { return c.when(x.Since) }},
			{name: "ZONE", spare: 1, text: func(x *pb.Cell) string { return x.Zone }},
			{name: "INSTANCES", text: func(x *pb.Cell) string { return number(x.Instances) }},
			{name: "TASKS", spare: 2, text: func(x *pb.Cell) string { return number(x.Tasks) }},
			{name: "BATCH", text: func(x *pb.Cell) string { return number(x.Batch) }},
			{name: "FREE", text: freeOf},
			{name: "NOTE", text: func(x *pb.Cell) string { return cellNote(c, x) }},
			{name: "HOST", wide: true, text: func(x *pb.Cell) string { return x.Host }},
			{name: "ADDRESS", wide: true, text: func(x *pb.Cell) string { return x.Address }},
			{name: "PROC", whole: true, wide: true, text: func(x *pb.Cell) string { return x.Proc }},
			{name: "ISOLATION", wide: true, text: func(x *pb.Cell) string { return strings.Join(x.Isolation, ", ") }},
			{name: "VOLUMES", wide: true, text: func(x *pb.Cell) string { return strings.Join(x.Volumes, ", ") }},
			labelsColumn[*pb.Cell](),
			{name: "BUILD", wide: true, text: func(x *pb.Cell) string { return x.Build }},
		},
	}
}

// freeOf prints "name free/capacity" for each resource, in the order in which they usually run
// out: a narrow terminal cuts the least important ones.
func freeOf(x *pb.Cell) string {
	order := []string{resource.MemoryMB, resource.CPUMilli, resource.DiskMB}
	rank := func(n string) int {
		switch i := slices.Index(order, n); {
		case i >= 0:
			return i
		case n == resource.Containers:
			return len(order) + 1
		}
		return len(order)
	}
	names := slices.SortedFunc(maps.Keys(x.Capacity),
		func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
	var out []string
	for _, n := range names {
		out = append(out, fmt.Sprintf("%s %d/%d", n, x.Free[n], x.Capacity[n]))
	}
	return strings.Join(out, ", ")
}

func cellNote(c *cli, x *pb.Cell) string {
	switch {
	case x.Cluster != "":
		return x.Reason
	case x.Aftermath != "":
		return x.Reason + "; " + x.Aftermath
	case x.Unavailable != "":
		return "not accepting work: " + x.Unavailable
	case x.Drain != nil:
		return drainNote(c, x.Drain) + silence(x)
	case len(x.Unknown) > 0:
		return fmt.Sprintf("runs work that is not in the store (%s); end it: cantina cells discard %s",
			strings.Join(x.Unknown, ", "), x.Name)
	case x.Draining:
		return "undrained; waiting for the cell's next heartbeat"
	case x.DeadIn != nil && x.Session != worker.Healthy.String():
		return x.Reason + silence(x)
	case !x.Reported:
		return "waiting for its first report"
	}
	return x.Reason
}

// silence is when a cell that does not report is declared dead; empty for one that does.
func silence(x *pb.Cell) string {
	if x.DeadIn == nil || x.Session == worker.Healthy.String() {
		return ""
	}
	return fmt.Sprintf("; declared dead in %s if it stays silent", short(x.DeadIn.AsDuration()))
}

func cellsVerb(c *cli) *cobra.Command {
	var watch, all bool
	var sel selector
	chosen := selectedCells(c, &sel)
	cmd := &cobra.Command{
		Use: "cells [CELL]", Short: "List cells", Args: atMost(1, "CELL"),
		Long: "cells lists the live cells, then the lost ones with the reason and the state of their work. " +
			"--all adds cells that have deregistered. The leader keeps the newest 50 lost cells of its " +
			"term. FOREIGN marks a cell of another cluster that tries to connect; it is refused and stays " +
			"unchanged.",
		Example: "  cantina cells\n  cantina cells -l disk=ssd -o wide\n  cantina cells node7 -o yaml",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				got, err := call(c, calls.GetCell, &pb.GetCellRequest{Name: strings.TrimPrefix(args[0], "cell/")})
				if err != nil {
					return noCell(c, args[0], err)
				}
				return one(c, cellTable(c), got.Cell)
			}
			return listing(c, cellTable(c), watch, eventsOf("cell"), func(cursor string) ([]*pb.Cell, *pb.Listing, error) {
				l, err := call(c, calls.ListCells,
					&pb.ListCellsRequest{All: true, Selector: sel.text, Page: &pb.Page{Cursor: cursor, Limit: api.MaxPage}})
				return slices.DeleteFunc(l.GetCells(),
					func(x *pb.Cell) bool { return !all && x.Session == event.CellLeft }), l.GetListing(), err
			}, func(e *pb.Event) (*pb.Cell, bool) { return e.Cell, e.Cell != nil && chosen(e.Cell) })
		},
	}
	sel.add(cmd, "list only cells")
	resumeFlag(c, cmd, &watch)
	cmd.Flags().BoolVar(&all, "all", false, "include cells that have deregistered")
	forget := &cobra.Command{
		Use: "forget CELL", Short: "Declare a cell process dead",
		Long: "forget declares a cell process dead: its work counts as lost and may run again, and another " +
			"process can use its name. If the process is alive, work may run twice. The leader does this " +
			"automatically after a period of silence; cells shows the time left. CELL is a cell name, a process id, or " +
			"a prefix of a process id (cells -o wide). The decision is recorded.",
		Example: "  cantina cells forget node7\n  cantina cells forget 9f2c --yes", Args: exactly(1, "CELL"),
		RunE: func(_ *cobra.Command, args []string) error {
			proc, err := findCellProcess(c, args[0])
			if err != nil {
				return err
			}
			if err := c.confirm("declare process %s dead; if it is alive, its work may run twice", proc); err != nil {
				return err
			}
			if _, err := call(c, calls.ForgetCell, &pb.ForgetCellRequest{Proc: proc}); err != nil {
				return err
			}
			c.notef("process %s declared dead\n", proc)
			return answer(c, factTable("process", "result"), fact(map[string]any{"process": proc, "result": "declared dead"}))
		},
	}
	c.needYes(forget)
	c.waiting(forget)
	c.writing(forget)
	out := c.reading(cmd)
	out.AddCommand(forget, adoptVerb(c), discardVerb(c))
	return out
}

// selectedCells reports whether -l selects the cell of an event. An event has no labels: those of a process, which
// never change, are read once.
func selectedCells(c *cli, sel *selector) func(*pb.Cell) bool {
	known := map[string]bool{} // by process
	return func(x *pb.Cell) bool {
		chosen, read := known[x.Proc]
		if read || sel.text == "" {
			return chosen || sel.text == ""
		}
		got, err := call(c, calls.GetCell, &pb.GetCellRequest{Name: x.Name})
		if err == nil && got.Cell.Proc == x.Proc {
			known[x.Proc] = sel.parts.Selects(got.Cell.Labels)
		}
		return known[x.Proc]
	}
}

// findCellProcess finds the process of a cell by the cell's name, or by a prefix of the
// process id. An id that no cell has is left to the leader.
func findCellProcess(c *cli, text string) (string, error) {
	var all []*pb.Cell
	err := pages(func(cursor string) (string, error) {
		l, err := call(c, calls.ListCells, &pb.ListCellsRequest{Page: &pb.Page{Cursor: cursor, Limit: api.MaxPage}})
		all = append(all, l.GetCells()...)
		return l.GetListing().GetNext(), err
	})
	if err != nil {
		return "", err
	}
	var found []string
	for _, x := range all {
		if x.Name == text && x.Proc != "" && x.Session != "FOREIGN" {
			if x.Session == "HEALTHY" {
				return "",
					failf(api.ExitFailed, "cell %s is HEALTHY (process %s); to move its work away: cantina drain %s --reason WHY",
						text,
						x.Proc, text)
			}
			return x.Proc, nil
		}
		if strings.HasPrefix(x.Proc, text) {
			found = append(found, x.Proc)
		}
	}
	switch len(found) {
	case 0:
		return text, nil
	case 1:
		return found[0], nil
	}
	return "", failf(api.ExitUsage, "process id prefix %q is ambiguous (%d matches): %s", text, len(found),
		strings.Join(found, ", "))
}
