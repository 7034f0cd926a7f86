package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"cantina/api"
	"cantina/cron"
	pb "cantina/wire/cantinav1"
	"cantina/zone"
)

// zones finds time zones by name.
func zones() (*zone.Loader, error) { return zone.New(zone.Options{}) }

// cronFlags are the flags of cron next.
type cronFlags struct {
	n                   int
	gap, fold, from, id string
	domain              string
	strict              bool
}

func cronVerb(c *cli) *cobra.Command {
	f := &cronFlags{}
	next := &cobra.Command{
		Use:   "next NAME|LINE",
		Short: "Print the next firings of a schedule or of a crontab line",
		Long: "next prints the next firings of a schedule. An argument with a space or a leading @ is a " +
			"crontab line and needs no server: five fields, six with seconds first, @daily or @every 90s; " +
			"L, # and H are supported. For a line, next prints its meaning in words, warnings, and the " +
			"firings in the zone --tz, with marks at clock changes. A line that can fire in a skipped or " +
			"repeated hour needs --gap and --fold.",
		Example: "  cantina cron next nightly -n 3\n" +
			"  cantina cron next '0 9 * * 1-5' --tz Europe/Berlin\n" +
			"  cantina cron next '30 2 * * *' --tz America/New_York --gap run --fold first -n 5\n" +
			"  cantina cron next '@every 90s' -o jsonl",
		Args: exactly(1, "NAME or LINE"),
		RunE: func(_ *cobra.Command, args []string) error {
			if !strings.ContainsAny(args[0], " \t") && !strings.HasPrefix(args[0], "@") {
				return printScheduleNext(c, f, args[0])
			}
			return printCronNext(c, f, args[0])
		},
	}
	// --tz of reading verbs is the zone of the output; here it is the zone of the
	// line too, so the flag is shared.
	numberVar(next.Flags(), &f.n, "number", "n", 10, 1, api.MaxPage, "number of firings to print")
	choiceVar(next.Flags(), &f.gap, "gap", "", "", []string{"run", "skip"},
		"for a line: run or skip a time that the clock change skips")
	choiceVar(next.Flags(), &f.fold, "fold", "", "", []string{"first", "last", "both"},
		"for a line: first, last or both, for a time that the clock change repeats")
	next.Flags().StringVar(&f.from, "from", "", "for a line: start time, RFC 3339 (default now)")
	next.Flags().StringVar(&f.id, "name", "", "for a line: name that seeds H")
	next.Flags().BoolVar(&f.strict, "strict", false, "treat warnings as errors (exit code 1)")
	domainFlag(next, &f.domain)
	return group("cron", "Manage schedules and check crontab lines", cronListVerb(c), cronShowVerb(c), c.reading(next),
		cronRunVerb(c),
		cronPauseVerb(c, "pause", true, "Pause a schedule",
			"Nothing fires until resume. Times that pass in between do not count as missed."),
		cronPauseVerb(c, "resume", false, "Resume a paused schedule", "The schedule continues with its next time."),
		cronMissedVerb(c), cronBackfillVerb(c), cronHistoryVerb(c), cronResetVerb(c), cronImportVerb(c), cronLintVerb(c))
}

func printCronNext(c *cli, f *cronFlags, text string) error {
	if f.domain != "" {
		return failf(api.ExitUsage, "--domain needs the name of a schedule")
	}
	opt := cron.LineOptions{Now: c.Now(), Name: f.id}
	var err error
	if f.gap != "" {
		if opt.Gap, err = cron.ParseGap(f.gap); err != nil {
			return failf(api.ExitUsage, "--gap: %v", err)
		}
	}
	if f.fold != "" {
		if opt.Fold, err = cron.ParseFold(f.fold); err != nil {
			return failf(api.ExitUsage, "--fold: %v", err)
		}
	}
	if f.from != "" {
		if opt.Now, err = time.Parse(time.RFC3339, f.from); err != nil {
			return failf(api.ExitUsage, "--from must be a time like 2026-01-02T15:04:05Z, not %q", f.from)
		}
	}
	if opt.Zone, err = cronZone(c); err != nil {
		return err
	}
	r := cron.Lint(text, opt, f.n)
	for _, w := range r.Warnings {
		c.sayf("warning: %s\n", w)
	}
	if r.Err != nil {
		return failf(api.ExitUsage, "%v", r.Err)
	}
	c.notef("in %s: %s\n", opt.Zone, r.Words)
	if err := list(c, firingTable(c), firings(r.Next, opt.Zone)); err != nil {
		return err
	}
	if f.strict && len(r.Warnings) > 0 {
		return code(api.ExitFailed)
	}
	return nil
}

// cronZone is --tz, --utc, or the zone of this machine.
func cronZone(c *cli) (*time.Location, error) {
	if c.tz != "" || c.utc {
		return c.zone, nil
	}
	loader, err := zones()
	if err != nil {
		return nil, err
	}
	z, err := loader.System(c.Getenv("TZ"))
	if err != nil {
		return nil, failf(api.ExitUsage, "cannot determine this machine's time zone (%v); give --tz", err)
	}
	return z.Location, nil
}

// firings are the occurrences as messages, so that they print like all other results.
func firings(list []cron.Occurrence, zone *time.Location) []*structpb.Struct {
	var out []*structpb.Struct
	for _, o := range list {
		s := func(v string) *structpb.Value { return structpb.NewStringValue(v) }
		x := &structpb.Struct{Fields: map[string]*structpb.Value{
			"at": s(o.At.In(zone).Format(time.RFC3339)), "utc": s(o.At.UTC().Format(time.RFC3339)),
			"weekday": s(o.At.In(zone).Weekday().String()[:3]), "mark": s(""), "skip": s(""),
		}}
		if o.Mark != cron.MarkNone {
			x.Fields["mark"] = s(fmt.Sprint(o.Mark))
		}
		if o.Skip != cron.SkipNone {
			x.Fields["skip"] = s(fmt.Sprint(o.Skip))
		}
		out = append(out, x)
	}
	return out
}

// firingsOf are the firings that a server lists.
func firingsOf(all []*pb.ScheduleTime, zone *time.Location) []*structpb.Struct {
	var out []*structpb.Struct
	for _, o := range all {
		s := func(v string) *structpb.Value { return structpb.NewStringValue(v) }
		at := o.At.AsTime()
		out = append(out, &structpb.Struct{Fields: map[string]*structpb.Value{
			"at": s(at.In(zone).Format(time.RFC3339)), "utc": s(at.Format(time.RFC3339)),
			"weekday": s(at.In(zone).Weekday().String()[:3]),
			"mark":    s(o.Mark), "skip": s(o.Skip),
		}})
	}
	return out
}

func firingTable(c *cli) table[*structpb.Struct] {
	get := textOfField
	return table[*structpb.Struct]{
		id: get("at"),
		columns: []column[*structpb.Struct]{
			{name: "AT", text: get("at")}, {name: "DAY", text: get("weekday")}, {name: "UTC", text: get("utc")},
			{name: "NOTE", text: func(x *structpb.Struct) string {
				if skip := get("skip")(x); skip != "" {
					return skip
				}
				return get("mark")(x)
			}},
		},
	}
}
