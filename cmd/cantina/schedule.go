package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cantina/api"
	"cantina/internal/text"
	"cantina/schedule"
	pb "cantina/wire/cantinav1"
)

func scheduleTable(c *cli) table[*pb.Schedule] {
	return table[*pb.Schedule]{
		id: func(x *pb.Schedule) string { return x.Domain + "/" + x.Name },
		columns: []column[*pb.Schedule]{
			{name: "SCHEDULE", whole: true, text: func(x *pb.Schedule) string { return x.Name }},
			{name: "DOMAIN", whole: true, text: func(x *pb.Schedule) string { return x.Domain }},
			{name: "STATE", text: func(x *pb.Schedule) string { return x.State }},
			{name: "CRON", text: func(x *pb.Schedule) string { return x.Cron }},
			{name: "ZONE", text: func(x *pb.Schedule) string { return x.Timezone }},
			{name: "STARTS", spare: 1, text: startsText},
			{name: "LAST", spare: 2, text: func(x *pb.Schedule) string { return c.when(x.Last) }},
			{name: "NEXT", text: func(x *pb.Schedule) string { return c.when(x.Next) }},
			{name: "NOTE", text: scheduleNote},
			{name: "OVERLAP", wide: true, text: overlapText},
			{name: "MISFIRE", wide: true, text: misfireText},
			{name: "FIRED", wide: true, text: func(x *pb.Schedule) string { return fmt.Sprint(x.Fired) }},
			{name: "SKIPPED", wide: true, text: func(x *pb.Schedule) string { return fmt.Sprint(x.Skipped) }},
			{name: "WORDS", wide: true, text: func(x *pb.Schedule) string { return x.Words }},
			{name: "REVISION", wide: true, text: func(x *pb.Schedule) string { return fmt.Sprint(x.Revision) }},
			labelsColumn[*pb.Schedule](),
		},
	}
}

// startsText describes the work of a schedule: "task", "job", "signal HUP to web".
func startsText(x *pb.Schedule) string {
	if s := x.Signal; s != nil {
		return fmt.Sprintf("signal %s to %s", s.Signal, s.Service)
	}
	return x.Starts
}

func overlapText(x *pb.Schedule) string {
	if x.OverlapMax > 0 {
		return fmt.Sprintf("%s %d", x.Overlap, x.OverlapMax)
	}
	return x.Overlap
}

func misfireText(x *pb.Schedule) string {
	out := x.Misfire
	if x.MisfireMax > 0 {
		out = fmt.Sprintf("%s %d", out, x.MisfireMax)
	}
	if d := x.MisfireDeadline.AsDuration(); d > 0 {
		out += " within " + d.String()
	}
	return out
}

func scheduleNote(x *pb.Schedule) string {
	switch {
	case x.Problem != "":
		return x.Problem
	case x.State == schedule.CatchingUp:
		return fmt.Sprintf("%d waiting for a running one", len(x.Pending))
	case len(x.Pending) > 0:
		return fmt.Sprintf("%d due, undecided", len(x.Pending))
	case x.Note != "":
		return x.Note
	case x.State == "waiting" && x.Next == nil:
		return "no more firings"
	}
	return ""
}

func cronListVerb(c *cli) *cobra.Command {
	q := &pb.ListSchedulesRequest{}
	var watch bool
	var sel selector
	ls := &cobra.Command{
		Use: "ls", Short: "List schedules", Args: atMost(0, "none"),
		Example: "  cantina cron ls\n  cantina cron ls -o wide --domain demo\n  cantina cron ls -l app=shop",
		RunE: func(*cobra.Command, []string) error {
			return listing(c, scheduleTable(c), watch, eventsOf("schedule"),
				func(cursor string) ([]*pb.Schedule, *pb.Listing, error) {
					q.Page, q.Selector = &pb.Page{Cursor: cursor, Limit: api.MaxPage}, sel.text
					l, err := call(c, calls.ListSchedules, q)
					return l.GetSchedules(), l.GetListing(), err
				}, func(e *pb.Event) (*pb.Schedule, bool) {
					x := e.Schedule
					return x, x != nil && (q.Domain == "" || x.Domain == q.Domain) && sel.parts.Selects(x.Labels)
				})
		},
	}
	ls.Flags().StringVar(&q.Domain, "domain", "", "list only this domain")
	sel.add(ls, "list only schedules")
	resumeFlag(c, ls, &watch)
	return c.reading(ls)
}

// scheduleVerb makes a verb about one schedule.
func scheduleVerb(c *cli, use, short, long, example string, run func(s subject) error) *cobra.Command {
	var domain string
	cmd := &cobra.Command{
		Use: use + " NAME", Short: short, Long: long, Example: example, Args: exactly(1, "NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := findWhole(c, "schedule", args[0], domain)
			if err != nil {
				return err
			}
			return run(s)
		},
	}
	domainFlag(cmd, &domain)
	return c.reading(cmd)
}

func cronShowVerb(c *cli) *cobra.Command {
	return scheduleVerb(c, "show", "Show one schedule",
		"show prints a schedule with its settings, undecided times and history. -o yaml or json prints "+
			"all of it.",
		"  cantina cron show nightly -o yaml", func(s subject) error {
			got, err := call(c, calls.GetSchedule, &pb.GetScheduleRequest{Domain: s.domain, Name: s.name})
			if err != nil {
				return err
			}
			return one(c, scheduleTable(c), got.Schedule)
		})
}

func historyTable(c *cli) table[*pb.ScheduleEntry] {
	return table[*pb.ScheduleEntry]{
		id: func(x *pb.ScheduleEntry) string { return x.At.AsTime().Format(time.RFC3339Nano) },
		columns: []column[*pb.ScheduleEntry]{
			{name: "AT", text: func(x *pb.ScheduleEntry) string { return c.when(x.At) }},
			{name: "UNTIL", text: func(x *pb.ScheduleEntry) string { return c.when(x.Until) }},
			{name: "COUNT", text: func(x *pb.ScheduleEntry) string { return number(x.Count) }},
			{name: "WHAT", text: func(x *pb.ScheduleEntry) string { return x.What }},
			{name: "OUTCOME", text: func(x *pb.ScheduleEntry) string { return x.Outcome }},
			{name: "NOTE", text: func(x *pb.ScheduleEntry) string { return x.Text }},
			{name: "DECIDED", wide: true, text: func(x *pb.ScheduleEntry) string { return c.when(x.Decided) }},
			{name: "BY", wide: true, text: func(x *pb.ScheduleEntry) string { return x.By }},
		},
	}
}

func cronHistoryVerb(c *cli) *cobra.Command {
	var watch bool
	cmd := scheduleVerb(c, "history", "Show the outcome of recent logical times",
		"history lists about twenty decisions, newest last: started runs with their outcome, and skipped times with the "+
			"reason.",
		"  cantina cron history nightly", func(s subject) error {
			return ofSchedule(c, historyTable(c), watch, s, func() ([]*pb.ScheduleEntry, string, error) {
				got, err := call(c, calls.GetSchedule, &pb.GetScheduleRequest{Domain: s.domain, Name: s.name})
				return got.GetSchedule().GetHistory(), got.GetPosition(), err
			})
		})
	watchFlag(cmd, &watch)
	return cmd
}

func missedTable(c *cli) table[*pb.Missed] {
	return table[*pb.Missed]{
		id: func(x *pb.Missed) string { return x.At.AsTime().Format(time.RFC3339) },
		columns: []column[*pb.Missed]{
			{name: "AT", text: func(x *pb.Missed) string { return c.when(x.At) }},
			{name: "UTC", text: func(x *pb.Missed) string { return x.At.AsTime().Format(time.RFC3339) }},
			{name: "REASON", text: func(x *pb.Missed) string { return x.Reason }},
		},
	}
}

func cronMissedVerb(c *cli) *cobra.Command {
	var limit int
	var watch bool
	cmd := scheduleVerb(c, "missed", "List the logical times that did not fire",
		"missed lists logical times that passed without a run. Run them with cron backfill, or a single "+
			"one with cron run --at. Times while paused, or before the schedule was created or changed, do "+
			"not count as missed.",
		"  cantina cron missed nightly", func(s subject) error {
			return ofSchedule(c, missedTable(c), watch, s, func() ([]*pb.Missed, string, error) {
				before, err := call(c, calls.GetSchedule, &pb.GetScheduleRequest{Domain: s.domain, Name: s.name})
				if err != nil {
					return nil, "", err
				}
				got, err := call(c, calls.ListMissed, &pb.ListMissedRequest{Domain: s.domain, Name: s.name, Limit: int32(limit)})
				if got.GetMore() > 0 && !watch {
					c.notef("and %d more\n", got.More)
				}
				return got.GetMissed(), before.Position, err
			})
		})
	watchFlag(cmd, &watch)
	numberVar(cmd.Flags(), &limit, "number", "n", 100, 1, api.MaxPage, "maximum number of times to list")
	return cmd
}

// moment reads a flag that is a time.
func moment(flag, text string) (*timestamppb.Timestamp, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil, failf(api.ExitUsage, "--%s must be a time like 2026-01-02T15:04:05Z, not %q", flag, text)
	}
	return timestamppb.New(t), nil
}

func cronRunVerb(c *cli) *cobra.Command {
	var at string
	cmd := scheduleVerb(c, "run", "Start a run now",
		"run starts the task, job or signal of the schedule now. --at runs a given logical time of the "+
			"schedule that has not fired yet; each logical time fires at most once. The overlap policy "+
			"applies: with forbid, the run is refused while an earlier one may still run. A signal goes "+
			"once to each running instance; failed deliveries are recorded in the history and not retried.",
		"  cantina cron run nightly\n  cantina cron run nightly --at 2026-03-01T02:00:00Z", func(s subject) error {
			q := &pb.RunScheduleRequest{Domain: s.domain, Name: s.name}
			if at != "" {
				t, err := moment("at", at)
				if err != nil {
					return err
				}
				q.At = t
			}
			got, err := call(c, calls.RunSchedule, q)
			if err != nil {
				return err
			}
			if got.Run == "" {
				c.notef("the run starts when the earlier one has ended\n")
				return nil
			}
			if got.Schedule.Signal != nil {
				c.notef("%s; see the number of instances reached: cantina cron history %s/%s\n", startsText(got.Schedule),
					s.domain, s.name)
			}
			return one(c, table[*pb.RunScheduleResponse]{
				id: func(x *pb.RunScheduleResponse) string { return x.Run },
				columns: []column[*pb.RunScheduleResponse]{{name: "RUN", whole: true,
					text: func(x *pb.RunScheduleResponse) string { return x.Run }}},
			}, got)
		})
	cmd.Flags().StringVar(&at, "at", "", "logical time, RFC 3339 (default: now, outside the calendar)")
	return cmd
}

func cronPauseVerb(c *cli, verb string, paused bool, short, long string) *cobra.Command {
	return scheduleVerb(c, verb, short, long, "  cantina cron "+verb+" nightly", func(s subject) error {
		got, err := call(c, calls.PauseSchedule, &pb.PauseScheduleRequest{Domain: s.domain, Name: s.name, Paused: paused})
		if err != nil {
			return err
		}
		return one(c, scheduleTable(c), got.Schedule)
	})
}

func cronBackfillVerb(c *cli) *cobra.Command {
	var from, to string
	var most int
	cmd := scheduleVerb(c, "backfill", "Run logical times that did not fire",
		"backfill runs missed logical times from --from to --to, oldest first and at most --max, within "+
			"the overlap policy. It also accepts times before the schedule was created. Each run gets its "+
			"logical time as CANTINA_SCHEDULED_AT.",
		"  cantina cron backfill nightly --from 2026-03-01T00:00:00Z --to 2026-03-08T00:00:00Z --max 7",
		func(s subject) error {
			q := &pb.BackfillScheduleRequest{Domain: s.domain, Name: s.name, Max: int32(most)}
			if from == "" || to == "" || most < 1 {
				return failf(api.ExitUsage, "--from, --to and --max are required; see cantina cron backfill --help")
			}
			var err error
			if q.From, err = moment("from", from); err != nil {
				return err
			}
			if q.To, err = moment("to", to); err != nil {
				return err
			}
			got, err := call(c, calls.BackfillSchedule, q)
			if err != nil {
				return err
			}
			c.notef("%s started or waiting\n", text.Count(got.Queued, "run"))
			return one(c, scheduleTable(c), got.Schedule)
		})
	cmd.Flags().StringVar(&from, "from", "", "first logical time, RFC 3339")
	cmd.Flags().StringVar(&to, "to", "", "last logical time, RFC 3339")
	numberVar(cmd.Flags(), &most, "max", "", 0, 1, api.MaxPage, "maximum number of runs, up to 1000")
	return cmd
}

func cronResetVerb(c *cli) *cobra.Command {
	return scheduleVerb(c, "reset", "Reset a schedule that a wrong clock has moved ahead",
		"reset returns a schedule that a wrong clock has moved ahead to the current time. Such a "+
			"schedule does not fire until the time it has reached, because each logical time fires at most "+
			"once. After reset, future times that have not started fire as usual; started ones never fire "+
			"again. @every measures elapsed time: it needs no reset and would start counting anew.",
		"  cantina cron reset nightly", func(s subject) error {
			got, err := call(c, calls.ResetSchedule, &pb.ResetScheduleRequest{Domain: s.domain, Name: s.name})
			if err != nil {
				return err
			}
			if got.Cursor == nil {
				c.notef("nothing to set back: it is not ahead of the clock\n")
			}
			return one(c, scheduleTable(c), got.Schedule)
		})
}

// printScheduleNext lists the coming firings of a schedule.
func printScheduleNext(c *cli, f *cronFlags, text string) error {
	if f.from != "" || f.gap != "" || f.fold != "" || f.id != "" || f.strict {
		return failf(api.ExitUsage, "--from, --gap, --fold, --name and --strict apply to a crontab line only")
	}
	s, err := findWhole(c, "schedule", text, f.domain)
	if err != nil {
		return err
	}
	got, err := call(c, calls.GetSchedule, &pb.GetScheduleRequest{Domain: s.domain, Name: s.name, Upcoming: int32(f.n)})
	if err != nil {
		return err
	}
	x := got.Schedule
	if j := x.Jitter.AsDuration(); j > 0 {
		c.notef("each starts up to %s later (jitter)\n", j)
	}
	if x.State == "paused" {
		c.notef("paused; to resume: cantina cron resume %s/%s\n", x.Domain, x.Name)
	}
	if x.Timezone != "" {
		x.Words = "in " + x.Timezone + ": " + x.Words
	}
	c.notef("%s\n", x.Words)
	zone := c.zone
	if loader, err := zones(); err == nil && c.tz == "" && !c.utc && x.Timezone != "" {
		if z, err := loader.Load(x.Timezone); err == nil {
			zone = z.Location
		}
	}
	return list(c, firingTable(c), firingsOf(x.Upcoming, zone))
}
