package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"cantina/api"
	pb "cantina/wire/cantinav1"
)

func storeVerb(c *cli) *cobra.Command {
	return group("store", "Back up, restore and repair the store",
		append([]*cobra.Command{quarantineVerb(c)}, offlineVerbs(c)...)...)
}

func quarantineVerb(c *cli) *cobra.Command {
	var watch bool
	t := table[*pb.Quarantined]{
		id: func(x *pb.Quarantined) string { return x.Key },
		columns: []column[*pb.Quarantined]{
			{name: "KEY", whole: true, text: func(x *pb.Quarantined) string { return x.Key }},
			{name: "BYTES", text: func(x *pb.Quarantined) string { return fmt.Sprint(len(x.Content)) }},
			{name: "REASON", text: func(x *pb.Quarantined) string { return x.Reason }},
		},
	}
	show := &cobra.Command{
		Use: "show", Short: "List rows that cannot be read", Args: atMost(0, "none"),
		Long: "An unreadable row still counts as existing: work under its key is not started, deleted or " +
			"changed until the row is dropped or restored.",
		Example: "  cantina store quarantine show -o json",
		RunE: func(*cobra.Command, []string) error {
			page := func(cursor string) ([]*pb.Quarantined, string, error) {
				l, err := call(c, calls.ListQuarantine,
					&pb.ListQuarantineRequest{Page: &pb.Page{Cursor: cursor, Limit: api.DefaultPage}})
				return l.GetRows(), l.GetListing().GetNext(), err
			}
			if !watch {
				return stream(c, t, page)
			}
			return polled(c, t, func() (all []*pb.Quarantined, err error) {
				err = pages(func(cursor string) (string, error) {
					rows, next, err := page(cursor)
					all = append(all, rows...)
					return next, err
				})
				return all, err
			})
		},
	}
	watchFlag(show, &watch)
	drop := &cobra.Command{
		Use: "drop KEY", Short: "Delete a row that cannot be read", Args: exactly(1, "KEY"),
		Example: "  cantina store quarantine drop task/4f1c --yes",
		RunE: func(_ *cobra.Command, args []string) error {
			if err := c.confirm("permanently delete row %s", args[0]); err != nil {
				return err
			}
			return releaseRow(c, args[0], false, "dropped")
		},
	}
	c.needYes(drop)
	restore := &cobra.Command{
		Use: "restore KEY", Short: "Read a row again after a repair or an upgrade", Args: exactly(1, "KEY"),
		Example: "  cantina store quarantine restore task/4f1c",
		RunE: func(_ *cobra.Command, args []string) error {
			return releaseRow(c, args[0], true, "restored")
		},
	}
	return group("quarantine", "Manage rows of the store that cannot be read", c.reading(show), c.writing(drop),
		c.writing(restore))
}

// releaseRow drops or restores a row that cannot be read.
func releaseRow(c *cli, key string, restore bool, result string) error {
	if _, err := call(c, calls.ReleaseQuarantined,
		&pb.ReleaseQuarantinedRequest{Key: key, Restore: restore}); err != nil {
		return err
	}
	c.notef("%s: %s\n", key, result)
	return answer(c, factTable("key", "result"), textFields(map[string]string{"key": key, "result": result}))
}
