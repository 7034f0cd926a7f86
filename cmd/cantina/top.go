package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"cantina/api"
	pb "cantina/wire/cantinav1"
)

// topFlags are the flags of top.
type topFlags struct {
	q        pb.GetUsageRequest
	interval time.Duration
	kinds    []string
}

// maxInterval is the longest measurement that a server makes.
const maxInterval = 10 * time.Second

// usageKinds are the kinds of rows of top, in their order.
func usageKinds() []string { return []string{"cell", "service", "job", "task", "instance", "node"} }

func topVerb(c *cli) *cobra.Command {
	f := &topFlags{interval: 2 * time.Second}
	cmd := &cobra.Command{
		Use:   "top [SUBJECT]",
		Short: "Show the use of processors and memory",
		Long: "top shows the use of processors and memory by cells, services, jobs, tasks, instances and batch tasks. On a " +
			"terminal it is repeated until Ctrl-C; otherwise, and with -o, it is measured once. The cells are asked only " +
			"while top runs.\n" +
			"\n" +
			"CPU is in processors: 0.5 is half of one. MEMORY is without file pages that can be dropped. A cell without " +
			"the controllers sums up the resident memory of the processes, where shared pages count several times. MACHINE " +
			"is the whole machine of a cell: use and size. Unknown values are printed as -.\n" +
			"\n" + subjectHelp,
		Example: "  cantina top\n" +
			"  cantina top web\n" +
			"  cantina top --kind cell --interval 5s\n" +
			"  cantina top --sort memory -o json | jq '.[] | select(.kind == \"service\")'",
		Args: atMost(1, "SUBJECT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.interval > maxInterval {
				return failf(api.ExitUsage, "--interval must be from 100ms to 10s, not %s", f.interval)
			}
			wanted, err := f.wanted(c, args)
			if err != nil {
				return err
			}
			f.q.Window = durationpb.New(f.interval)
			if !c.OutTTY || c.quiet || c.template != "" || c.output != "table" && c.output != "wide" {
				if !cmd.Flags().Changed("interval") {
					f.q.Window = durationpb.New(time.Second)
				}
				return printUsage(c, f, wanted)
			}
			return watchUsage(c, f, wanted)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.q.Domain, "domain", "", "show only work of this domain")
	fl.StringVar(&f.q.Cell, "cell", "", "show only this cell and its work")
	choicesVar(fl, &f.kinds, "kind", usageKinds(), "show only these kinds: cell, service, job, task, instance or node")
	choiceVar(fl, &f.q.Sort, "sort", "", "cpu", []string{"cpu", "memory", "name"}, "order: cpu, memory or name")
	numberVar(fl, &f.q.Limit, "number", "n", 100, 1, 1000, "maximum number of rows of each kind, except cells")
	fl.Var(&durationFlag{d: &f.interval, least: 100 * time.Millisecond}, "interval",
		"time over which the use of processors is measured, up to 10s (default 2s on a terminal, else 1s)")
	c.waiting(cmd)
	mark(cmd, live)
	return c.reading(cmd)
}

// wanted returns which rows are shown.
func (f *topFlags) wanted(c *cli, args []string) (func(*pb.Usage) bool, error) {
	of := func(*pb.Usage) bool { return true }
	if len(args) > 0 {
		s, err := findSubject(c, args[0], f.q.Domain)
		if err != nil {
			return nil, err
		}
		switch s.kind {
		case "cell":
			f.q.Cell = s.name
		case "schedule":
			return nil, failf(api.ExitUsage, "a schedule uses nothing itself; name the task or job that it runs")
		default:
			f.q.Domain, f.q.Limit = s.domain, 1000
			of = s.uses
		}
	}
	return func(x *pb.Usage) bool {
		return (len(f.kinds) == 0 || slices.Contains(f.kinds, x.Kind)) && of(x)
	}, nil
}

// uses reports whether a row is of a subject.
func (s subject) uses(x *pb.Usage) bool {
	if x.Domain != s.domain || x.Name != s.name {
		return false
	}
	switch s.kind {
	case "service":
		return x.Kind == "service" || x.Kind == "instance"
	case "instance":
		return x.Kind == "instance" && x.GetIndex() == s.index
	case "job":
		return x.Kind == "job" || x.Kind == "node"
	case "node":
		return x.Kind == "node" && x.Node == s.node
	}
	return x.Kind == s.kind
}

// measure gets the rows that are shown.
func (f *topFlags) measure(ctx context.Context, c *cli, wanted func(*pb.Usage) bool) (rows []*pb.Usage,
	notes []string, err error) {
	client, err := c.client()
	if err != nil {
		return nil, nil, err
	}
	got, err := api.Call(ctx, client, calls.GetUsage, &f.q)
	if err != nil {
		return nil, nil, err
	}
	for _, x := range got.Missing {
		notes = append(notes, "incomplete: "+printable(x))
	}
	if got.More > 0 {
		notes = append(notes, fmt.Sprintf("and %d more rows; see --number, --kind and --domain", got.More))
	}
	return slices.DeleteFunc(got.Usage, func(x *pb.Usage) bool { return !wanted(x) }), notes, nil
}

// printUsage prints one measurement.
func printUsage(c *cli, f *topFlags, wanted func(*pb.Usage) bool) error {
	ctx, cancel := c.limited()
	defer cancel()
	rows, notes, err := f.measure(ctx, c, wanted)
	if err != nil {
		return err
	}
	for _, n := range notes {
		c.notef("%s\n", n)
	}
	return list(c, usageTable(usageKinds()...), rows)
}

const (
	// otherScreen and oldScreen switch to a screen of its own and back; home begins at its top.
	otherScreen = "\x1b[?1049h\x1b[?25l"
	oldScreen   = "\x1b[?25h\x1b[?1049l"
	home        = "\x1b[H"
	clearLine   = "\x1b[K"
	clearRest   = "\x1b[J"
)

// watchUsage shows measurements on a terminal until Ctrl-C.
func watchUsage(c *cli, f *topFlags, wanted func(*pb.Usage) bool) error {
	screen := c.Out
	if err := put(screen, otherScreen+home+"measuring"+clearRest); err != nil {
		return err
	}
	err := c.watched(func(ctx context.Context) error {
		for ctx.Err() == nil {
			rows, notes, err := f.measure(ctx, c, wanted)
			if err != nil {
				return err
			}
			var page bytes.Buffer
			c.Out = &page
			err = f.page(c, rows, notes)
			c.Out = screen
			if err != nil {
				return err
			}
			if err := put(screen, home+fitted(page.String(), c.Height())+clearRest); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	c.Out = screen
	if back := put(screen, oldScreen); err == nil {
		err = back
	}
	return err
}

func put(w io.Writer, s string) error {
	_, err := io.WriteString(w, s)
	return err
}

// page prints the tables of a screen: cells, work, and its parts.
func (f *topFlags) page(c *cli, rows []*pb.Usage, notes []string) error {
	head := append([]string{fmt.Sprintf("cantina top   %s   every %s, by %s   Ctrl-C ends",
		c.Now().In(c.location()).Format("15:04:05"), f.interval, f.q.Sort)}, notes...)
	for _, text := range head {
		if err := line(c.Out, text); err != nil {
			return err
		}
	}
	for _, kinds := range [][]string{{"cell"}, {"service", "job", "task"}, {"instance", "node"}} {
		var part []*pb.Usage
		for _, x := range rows {
			if slices.Contains(kinds, x.Kind) {
				part = append(part, x)
			}
		}
		if len(part) == 0 {
			continue
		}
		if err := line(c.Out, ""); err != nil {
			return err
		}
		if err := list(c, usageTable(kinds...), part); err != nil {
			return err
		}
	}
	return nil
}

// fitted cuts a text to the lines of a screen and clears the rest of each.
func fitted(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(all) > lines && lines > 1 {
		left := len(all) - lines + 1
		all = append(all[:lines-1], fmt.Sprintf("and %d more lines; see --kind, --number and --cell", left))
	}
	return strings.Join(all, clearLine+"\r\n") + clearLine
}

// usageTable has the columns of some kinds.
func usageTable(kinds ...string) table[*pb.Usage] {
	cells := slices.Contains(kinds, "cell")
	t := table[*pb.Usage]{id: usageName, columns: []column[*pb.Usage]{
		{name: "KIND", text: func(x *pb.Usage) string { return x.Kind }},
		{name: "NAME", whole: true, text: usageName},
	}}
	if len(kinds) > 1 {
		t.columns = append(t.columns,
			column[*pb.Usage]{name: "DOMAIN", spare: 1, text: func(x *pb.Usage) string { return x.Domain }},
			column[*pb.Usage]{name: "CELL", spare: 2, text: func(x *pb.Usage) string { return x.Cell }})
	}
	t.columns = append(t.columns,
		column[*pb.Usage]{name: "CPU", text: func(x *pb.Usage) string { return cpuText(x.CpuMilli) }},
		column[*pb.Usage]{name: "MEMORY", text: func(x *pb.Usage) string { return memoryText(x.MemoryBytes) }},
		column[*pb.Usage]{name: "CONTAINERS", text: func(x *pb.Usage) string { return number(x.Containers) }},
		column[*pb.Usage]{name: "PROCESSES", text: func(x *pb.Usage) string { return number(x.Processes) }})
	if cells {
		t.columns = append(t.columns, column[*pb.Usage]{name: "MACHINE", text: machineText})
	}
	return t
}

func usageName(x *pb.Usage) string {
	switch {
	case x.Kind == "instance":
		return x.Name + "/" + number(x.GetIndex())
	case x.Kind == "node":
		return x.Name + "[" + x.Node + "]"
	}
	return x.Name
}

func cpuText(milli *int32) string {
	if milli == nil {
		return ""
	}
	return fmt.Sprintf("%.2f", float64(*milli)/1000)
}

func memoryText(bytes *int64) string {
	if bytes == nil {
		return ""
	}
	n := float64(*bytes)
	for _, unit := range []string{"B", "Ki", "Mi", "Gi"} {
		if n < 1000 {
			if unit == "B" || n >= 100 {
				return fmt.Sprintf("%.0f%s", n, unit)
			}
			return fmt.Sprintf("%.1f%s", n, unit)
		}
		n /= 1024
	}
	return fmt.Sprintf("%.1fTi", n)
}

// machineText is the use of the machine of a cell, of what it has.
func machineText(x *pb.Usage) string {
	if x.Kind != "cell" || x.MachineMemoryTotalBytes == 0 {
		return ""
	}
	cpu := cpuText(x.MachineCpuMilli)
	if cpu == "" {
		cpu = "-"
	}
	return fmt.Sprintf("%s/%d cpu, %s/%s", cpu, x.MachineProcessors, memoryText(x.MachineMemoryBytes),
		memoryText(&x.MachineMemoryTotalBytes))
}
