package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"cantina/api"
	"cantina/event"
	"cantina/lrp"
	"cantina/spec"
	pb "cantina/wire/cantinav1"
)

func watchFlag(cmd *cobra.Command, watch *bool) {
	cmd.Flags().BoolVarP(watch, "watch", "w", false, "follow: print one row per change until Ctrl-C")
}

// resumeFlag is watchFlag for a list whose changes are events: --since continues an earlier watch.
func resumeFlag(c *cli, cmd *cobra.Command, watch *bool) {
	watchFlag(cmd, watch)
	cmd.Flags().StringVar(&c.resume, "since", "",
		"with -w: print no list, but the changes after this revision or position (of events, or of a row in JSON)")
}

// resumed reports whether a watch continues an earlier one. A position that the stream has not reached is an error.
func resumed(c *cli, watch bool) (bool, error) {
	if c.resume == "" {
		return false, nil
	}
	if !watch {
		return false, failf(api.ExitUsage, "--since needs --watch: a list shows the present; past changes: cantina events "+
			"--since %s", c.resume)
	}
	if _, err := event.ParsePosition(c.resume); err != nil {
		return false, failf(api.ExitUsage, "--since must be a revision like 1042 or a position like 1042.3, not %q", c.resume)
	}
	c.streaming()
	_, err := endOfEvents(c, c.resume)
	return true, err
}

// endOfEvents is the present position of the event stream, which must not be before since.
func endOfEvents(c *cli, since string) (string, error) {
	l, err := call(c, calls.ListCells, &pb.ListCellsRequest{Page: &pb.Page{Limit: 1}})
	if err != nil {
		return "", err
	}
	end := l.Listing.Position
	if since, err := event.ParsePosition(since); err == nil {
		if newest, err := event.ParsePosition(end); err == nil && since.Revision > newest.Revision {
			return "", failf(api.ExitFailed,
				"--since %s is later than the newest event %s: another cluster, or the store was restored; list "+
					"again and continue from there", since, newest)
		}
	}
	return end, nil
}

// streaming has single objects printed: a stream is no list.
func (c *cli) streaming() {
	if c.output == "json" || c.output == "yaml" {
		c.output = "jsonl"
	}
}

// eventsOf requests the changes of one kind of resources.
func eventsOf(kind string) *pb.StreamEventsRequest {
	return &pb.StreamEventsRequest{Kind: []string{kind}}
}

// listing prints a whole list, page by page, and with watch one row per change
// afterwards. It misses nothing: the stream begins where the list was read.
func listing[T proto.Message](c *cli, t table[T], watch bool, changes *pb.StreamEventsRequest,
	read func(cursor string) ([]T, *pb.Listing, error), pick func(*pb.Event) (T, bool)) error {
	again, err := resumed(c, watch)
	switch {
	case err != nil:
		return err
	case again:
		return followChanges(c, t, changes, c.resume, pick)
	}
	var all []T
	position := ""
	err = pages(func(cursor string) (string, error) {
		items, where, err := read(cursor)
		if err != nil {
			return "", err
		}
		if position == "" {
			position = where.Position
		}
		all = append(all, items...)
		return where.Next, nil
	})
	if err != nil {
		return err
	}
	if t.order != nil {
		all = t.order(all)
	}
	if watch {
		c.streaming()
	}
	if err := list(c, t, all); err != nil || !watch {
		return err
	}
	return followChanges(c, t, changes, position, pick)
}

// followChanges prints one row per change from a position on.
func followChanges[T proto.Message](c *cli, t table[T], changes *pb.StreamEventsRequest, position string,
	pick func(*pb.Event) (T, bool)) error {
	c.noHeader = c.noHeader || c.resume == ""
	return c.watched(func(ctx context.Context) error {
		client, err := c.client()
		if err != nil {
			return err
		}
		changes.Since = position
		return client.Events(ctx, changes, func(m *pb.StreamEventsResponse) error {
			if m.Gap != nil {
				c.sayf("[%s; list again]\n", missing("changes", m.Gap))
			}
			if m.Event == nil {
				return nil
			}
			x, ok := pick(m.Event)
			if !ok {
				return nil
			}
			if m.Event.Gone {
				c.notef("%s is gone\n", printable(t.id(x)))
				return nil
			}
			err := list(c, t, []T{x})
			c.noHeader = true
			return err
		})
	})
}

func eventsVerb(c *cli) *cobra.Command {
	q := &pb.StreamEventsRequest{}
	var follow bool
	t := table[*pb.Event]{
		id: func(x *pb.Event) string { return x.Position },
		columns: []column[*pb.Event]{
			{name: "POSITION", whole: true, text: func(x *pb.Event) string { return x.Position }},
			{name: "TIME", text: func(x *pb.Event) string { return c.when(x.Time) }},
			{name: "KIND", text: func(x *pb.Event) string { return x.Kind }},
			{name: "DOMAIN", text: func(x *pb.Event) string { return x.Domain }},
			{name: "SUBJECT", whole: true, text: func(x *pb.Event) string { return x.Subject }},
			{name: "WHAT", text: eventText},
		},
	}
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Print committed changes in order",
		Long: "events prints the newest events and follows. With --since it prints the events since then and exits, " +
			"unless -f is given. -f without --since prints new events only. Missing events are reported as a gap.",
		Example: "  cantina events\n" +
			"  cantina events --since 10m\n" +
			"  cantina events --since 1042 --kind task -o jsonl",
		Args: atMost(0, "none"),
		RunE: func(*cobra.Command, []string) error {
			c.streaming()
			f := eventsFrom{follow: follow}
			if d, ok := spec.ParseDuration(q.Since); ok {
				q.Since, f.after = "0", c.Now().Add(-d)
			}
			if q.Since == "" && !follow {
				q.Since, f.follow, f.last = "0", true, tailEvents
			}
			err := c.detachable("cantina events -f --since POSITION", nil, func(ctx context.Context) error {
				return printEvents(ctx, c, t, q, f)
			})
			if e, ok := err.(*exit); ok && e.code == exitInterrupted {
				return nil
			}
			return err
		},
	}
	cmd.Flags().StringVar(&q.Since, "since", "",
		"print events after this revision or position, or of this duration, like 10m")
	cmd.Flags().StringVar(&q.Domain, "domain", "", "print only events of this domain")
	choicesVar(cmd.Flags(), &q.Kind, "kind", wordsOf(event.Service, event.Note),
		"print only events of this kind: service, instance, task, job, node, cell, schedule or note")
	cmd.Flags().BoolVar(&q.All, "all", false, "for instances: every row, also replaced and suspect ones")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "follow: print new events as they arrive")
	cmd.Flags().BoolVarP(&follow, "watch", "w", false, "same as --follow")
	c.waiting(cmd)
	return c.reading(cmd)
}

// tailEvents is how many events are printed before new ones.
const tailEvents = 20

// eventsFrom is which events are printed.
type eventsFrom struct {
	follow bool
	after  time.Time // only those that are not older; zero = all
	last   int       // of those that are there, only so many; 0 = all
}

// old reports whether an event is left out because of its time.
func (f *eventsFrom) old(e *pb.Event) bool {
	return !f.after.IsZero() && e.Time.AsTime().Before(f.after)
}

// tail waits with the events that are there until all have been read, and returns the last.
type tail struct {
	kept []*pb.Event
	last int
}

func (t *tail) add(e *pb.Event) {
	if t.kept = append(t.kept, e); len(t.kept) > t.last {
		t.kept = t.kept[1:]
	}
}

func printEvents(ctx context.Context, c *cli, t table[*pb.Event], q *pb.StreamEventsRequest, f eventsFrom) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	end, err := endOfEvents(c, q.Since) // read until there
	if err != nil {
		return err
	}
	first, held := true, &tail{last: f.last}
	show := func(events ...*pb.Event) error {
		if len(events) == 0 {
			return nil
		}
		err := list(c, t, events)
		if first {
			first, c.noHeader = false, true
		}
		return err
	}
	return client.Events(ctx, q, func(m *pb.StreamEventsResponse) error {
		if m.Gap != nil && (f.after.IsZero() && f.last == 0 || !first) {
			c.sayf("[%s]\n", missing("events", m.Gap))
		}
		there := reached(m, end)
		switch {
		case m.Event == nil || f.old(m.Event):
		case held.last > 0:
			held.add(m.Event)
		default:
			if err := show(m.Event); err != nil {
				return err
			}
		}
		if there && held.last > 0 {
			held.last = 0
			if err := show(held.kept...); err != nil {
				return err
			}
			if c.OutTTY {
				c.notef("waiting for new events; press Ctrl-C to end\n")
			}
		}
		if !f.follow && there {
			return api.Stop()
		}
		return nil
	})
}

// missing describes a gap: if the end of a stream is before its reader's position, the store was
// restored.
func missing(what string, g *pb.Gap) string {
	after, err := event.ParsePosition(g.After)
	before, err2 := event.ParsePosition(g.Before)
	if err == nil && err2 == nil && after.Compare(before) >= 0 {
		return fmt.Sprintf("stream is at %s, before %s: the store was restored, %s may be missing", g.Before, g.After, what)
	}
	return fmt.Sprintf("%s between %s and %s missing", what, g.After, g.Before)
}

// reached reports whether a stream has come to a position.
func reached(m *pb.StreamEventsResponse, end string) bool {
	at, err := event.ParsePosition(m.Position)
	until, err2 := event.ParsePosition(end)
	return err != nil || err2 != nil || at.Compare(until) >= 0
}

func eventText(x *pb.Event) string {
	if x.Gone {
		return "gone"
	}
	if x.Text != "" {
		return x.Text
	}
	switch {
	case x.Instance != nil:
		text := indexOf(x.Instance) + " " + instanceState(x.Instance) + whose(x.Instance)
		if x.Instance.State == lrp.Unclaimed.String() && x.Instance.PlacementError != "" {
			text += ": " + x.Instance.PlacementError
		}
		return text
	case x.Task != nil:
		return strings.TrimSpace(x.Task.State + " " + x.Task.Outcome)
	case x.Job != nil:
		return x.Job.State
	case x.Node != nil:
		return x.Node.State
	case x.Cell != nil:
		return x.Cell.Session
	case x.Service != nil:
		if x.Service.Phase == lrp.RollingOut.String() {
			return fmt.Sprintf("%s: %d of %d healthy", x.Service.Phase, x.Service.Healthy, x.Service.Instances)
		}
		return x.Service.Phase
	case x.Schedule != nil:
		return x.Schedule.State
	}
	return ""
}

// indexOf names the index of a row as people do.
func indexOf(x *pb.Instance) string { return x.Service + "/" + number(x.Index) }

// whose distinguishes the rows of one index: by their presence, if not ordinary, and by their
// cell.
func whose(x *pb.Instance) string {
	text := ""
	if x.Presence != "" && x.Presence != lrp.Ordinary.String() {
		text = " (" + strings.ToLower(x.Presence) + ")"
	}
	if x.Cell != "" {
		text += " on " + x.Cell
	}
	return text
}
