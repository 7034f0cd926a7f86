package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cantina/api"
	logstore "cantina/logstore"
	pb "cantina/wire/cantinav1"
)

// outputFlags are the flags of logs.
type outputFlags struct {
	domain        string
	follow, raw   bool
	tail          int32
	since, until  string
	grep, attempt string
	streams       []string
	node          string
	timestamps    bool
	noPrefix      bool
	prefix        *bool // of --prefix; nil = if there are several sources
	previous      bool
	limit         int64 // bytes; 0 = all
}

// prefixed reports whether the source is printed before each line.
func (f *outputFlags) prefixed(several bool) bool {
	switch {
	case f.raw, f.noPrefix:
		return false
	case f.prefix != nil:
		return *f.prefix
	}
	return several
}

func logsVerb(c *cli) *cobra.Command {
	f := &outputFlags{}
	var sel selector
	var prefix bool
	cmd := &cobra.Command{
		Use:   "logs SUBJECT | -l SELECTOR",
		Short: "Print the output of a service, task or job",
		Long: "logs prints the output of a service, task or job, also after its end, merged over instances " +
			"and cells by time. Each line begins with its instance if there are several. -f follows until " +
			"the task or job ends. --raw prints the original bytes. Lines of standard error go to standard " +
			"output too, unless --stream selects one.\n" +
			"\n" +
			"-p prints the last attempt of an instance or batch task that has ended: the crashed one, while its " +
			"replacement runs. -l merges the output of up to 32 services, jobs and tasks; --tail counts for each.\n" +
			"\n" + subjectHelp,
		Example: "  cantina logs web\n" +
			"  cantina logs -f -n 20 web/0\n" +
			"  cantina logs count --since 10m --grep 'error|panic'\n" +
			"  cantina logs -p web/0\n" +
			"  cantina logs -f -l app=shop\n" +
			"  cantina logs --raw --stream stdout report > report.txt",
		Args: func(cmd *cobra.Command, args []string) error {
			if err := sel.argsOr("SUBJECT")(cmd, args); err != nil || len(args) == 0 {
				return err
			}
			return exactly(1, "SUBJECT")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("prefix") {
				f.prefix = &prefix
			}
			f.lastLines(c)
			if err := f.checkPrevious(&sel); err != nil {
				return err
			}
			if len(args) == 0 {
				return printSelected(c, f, &sel)
			}
			return printLogs(c, f, args[0])
		},
	}
	fl := cmd.Flags()
	domainFlag(cmd, &f.domain)
	sel.add(cmd, "instead of SUBJECT: the services, jobs and tasks")
	fl.BoolVarP(&f.previous, "previous", "p", false, "print the last attempt that has ended, of an instance or batch task")
	fl.BoolVarP(&f.follow, "follow", "f", false, "follow: print new lines as they arrive")
	numberVar(fl, &f.tail, "tail", "n", allLines, allLines, api.MaxPage,
		"number of last lines to print, at most 1000; 0: only new lines, with -f; -1: all")
	fl.StringVar(&f.since, "since", "", "print only lines since this time: a duration ago like 10m, or RFC 3339")
	fl.StringVar(&f.since, "since-time", "", "same as --since")
	fl.StringVar(&f.until, "until", "", "print only lines before this time")
	fl.StringVar(&f.grep, "grep", "", "print only lines that match this regular expression (RE2)")
	fl.StringVar(&f.attempt, "attempt", "",
		"print only this attempt: a number for a job (1 is the first), an instance id for a service (ps -o wide)")
	choicesVar(fl, &f.streams, "stream", []string{"stdout", "stderr", "event"}, "stdout, stderr or event (stdout,stderr)")
	fl.StringVar(&f.node, "node", "", "for a job: print only this node")
	fl.StringVar(&f.node, "shard", "", "same as --node")
	numberVar(fl, &f.limit, "limit-bytes", "", 0, 1, unbounded, "end after this many bytes")
	fl.BoolVar(&f.raw, "raw", false, "print the original bytes")
	fl.BoolVar(&f.timestamps, "timestamps", false, "print the time before each line")
	fl.BoolVar(&f.noPrefix, "no-prefix", false, "do not print the instance before each line")
	fl.BoolVar(&prefix, "prefix", true, "print the instance before each line (default: if there are several)")
	fl.Lookup("prefix").DefValue = "false" // not shown
	oneOf(cmd, "since", "since-time")
	oneOf(cmd, "node", "shard")
	oneOf(cmd, "prefix", "no-prefix")
	c.waiting(cmd)
	return c.reading(cmd)
}

func printLogs(c *cli, f *outputFlags, text string) error {
	s, err := findOutput(c, text, f.domain)
	if err != nil {
		return err
	}
	q, err := logQuery(c, f, s)
	if err != nil {
		return err
	}
	if f.previous {
		id, err := previousAttempt(c, s)
		if err != nil {
			return err
		}
		q.Container = []string{id}
	}
	p := &linePrinter{
		c: c, raw: f.raw, timestamps: f.timestamps, form: c.output, limit: f.limit,
		prefix: f.prefixed(s.kind == "service" || s.kind == "job"),
	}
	if f.follow {
		return c.detachable("cantina logs -f "+s.String(), nil, func(ctx context.Context) error {
			return followOutput(ctx, c, &pb.FollowOutputRequest{Query: q}, p)
		})
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	ctx, cancel := c.limited()
	defer cancel()
	missing := map[string]bool{}
	err = client.ReadOutput(ctx, patience, q, func(m *pb.ReadOutputResponse) error {
		noteIncomplete(c, m.Missing, missing)
		return p.print(m.Packed)
	})
	if err != nil && !p.full {
		return err
	}
	if len(missing) > 0 {
		return code(api.ExitConnection)
	}
	if p.printed == 0 {
		return whyEmpty(c, s, q)
	}
	return nil
}

// whyEmpty distinguishes empty output from output of a resource that never existed.
func whyEmpty(c *cli, s subject, q *pb.OutputQuery) error {
	if s.kind == "instance" {
		if err := knownInstance(c.ctx, c, s); err != nil {
			return err
		}
	}
	if q.Attempt == "" {
		return nil
	}
	all := proto.CloneOf(q)
	all.Since, all.Until, all.Grep, all.Stream = nil, nil, "", []string{"stdout", "stderr", "event"}
	got, err := call(c, calls.ReadOutput, &pb.ReadOutputRequest{Query: all, Page: &pb.Page{Limit: 1}})
	if err != nil || len(got.Lines) > 0 {
		return err
	}
	return failf(api.ExitNotFound, "%s: no output in attempt %s", s, q.Attempt)
}

// allLines is the value of --tail for all lines.
const allLines = -1

// lastLines replaces values of --tail that mean all lines, or none.
func (f *outputFlags) lastLines(c *cli) {
	switch f.tail {
	case allLines:
		f.tail = 0
	case 0:
		f.since = c.Now().Format(time.RFC3339Nano)
	}
}

func logQuery(c *cli, f *outputFlags, s subject) (*pb.OutputQuery, error) {
	q := &pb.OutputQuery{Grep: f.grep, Attempt: f.attempt, Stream: f.streams, Tail: f.tail, Node: f.node}
	switch s.kind {
	case "service":
		q.Domain, q.Service = s.domain, s.name
	case "instance":
		q.Domain, q.Service, q.Index = s.domain, s.name, &s.index
	case "task":
		q.Task = s.name
	case "job":
		q.Domain, q.Job = s.domain, s.name
	case "node":
		q.Domain, q.Job, q.Node = s.domain, s.name, s.node
	default:
		return nil, failf(api.ExitUsage, "a %s has no output of its own", s.kind)
	}
	if _, err := regexp.Compile(f.grep); err != nil {
		return nil, failf(api.ExitUsage, "--grep %q: %s", f.grep, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	var err error
	if q.Since, err = outputTime(c, "--since", f.since); err != nil {
		return nil, err
	}
	q.Until, err = outputTime(c, "--until", f.until)
	return q, err
}

// outputTime reads a time: a duration ago, or RFC 3339.
func outputTime(c *cli, flag, text string) (*timestamppb.Timestamp, error) {
	if text == "" {
		return nil, nil
	}
	d := time.Duration(0)
	if (&durationFlag{d: &d}).Set(text) == nil {
		return timestamppb.New(c.Now().Add(-d)), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return nil, failf(api.ExitUsage, "%s must be a duration ago like 10m, or a time like 2026-01-02T15:04:05Z, not %q",
			flag, text)
	}
	return timestamppb.New(t), nil
}

// maxSaid is how many messages are kept so that none is printed twice. A follower may run for
// months, and messages name ports and times.
const maxSaid = 100

// noteIncomplete prints once which output is missing. said has the printed notes; it is cleared
// when it is full.
func noteIncomplete(c *cli, missing []string, said map[string]bool) {
	for _, x := range missing {
		if !said[x] {
			if len(said) >= maxSaid {
				clear(said)
			}
			said[x] = true
			c.sayf("incomplete: %s\n", printable(x))
		}
	}
}

// followOutput prints an output stream until it ends.
func followOutput(ctx context.Context, c *cli, q *pb.FollowOutputRequest, p *linePrinter) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	q.Packed = true
	missing := map[string]bool{} // each queried leader may report it
	return client.FollowOutput(ctx, q, func(m *pb.FollowOutputResponse) error {
		noteIncomplete(c, m.Missing, missing)
		return p.print(m.Packed)
	})
}

// linePrinter prints lines of output.
type linePrinter struct {
	c          *cli
	raw        bool
	form       string // of -o
	prefix     bool
	timestamps bool
	split      bool // stderr goes to stderr, as if the program ran here
	joined     bool // there are several sources: a missing newline is added
	printed    int  // lines
	// limit is how many bytes are printed at most; 0 = all. full: that many are.
	limit, bytes int64
	full         bool

	buf    []byte
	to     io.Writer        // where buf goes
	source *logstore.Source // of the last line
	name   []byte           // and its prefix
	// sources are those whose names were printed, with -o name.
	sources map[string]bool
}

// print writes the lines of a message, in as few pieces as their streams allow, and
// always whole lines: other programs may write to the same terminal or file.
func (p *linePrinter) print(m *pb.LogLines) error {
	p.printed += len(m.GetSize())
	if err := logstore.EachPacked(m, p.line); err != nil {
		return err
	}
	if err := p.flush(); err != nil || !p.full {
		return err
	}
	return api.Stop()
}

func (p *linePrinter) flush() error {
	if len(p.buf) == 0 {
		return nil
	}
	if p.limit > 0 {
		p.buf = p.buf[:min(int64(len(p.buf)), p.limit-p.bytes)]
		p.bytes += int64(len(p.buf))
		p.full = p.bytes == p.limit
	}
	_, err := p.to.Write(p.buf)
	p.buf = p.buf[:0]
	return err
}

// printBuffer is how much is written at once, at least.
const printBuffer = 64 << 10

func (p *linePrinter) line(l *logstore.Line, cell string) error {
	w := p.c.Out
	if p.split && l.Stream == logstore.Stderr {
		w = p.c.Err
	}
	if w != p.to || len(p.buf) >= printBuffer || l.Gap != nil {
		if err := p.flush(); err != nil {
			return err
		}
		p.to = w
	}
	switch {
	case p.form == "json" || p.form == "jsonl":
		p.buf = append(append(p.buf, lineJSON(l, cell)...), '\n')
		return nil
	case p.form == "yaml":
		return p.yaml(l, cell)
	case p.form == "name":
		p.nameOnce(api.SourceName(l.Source))
		return nil
	case l.Gap != nil:
		p.c.sayf("%s\n", gapText(api.SourceName(l.Source), l.Gap.Reason.String(), l.Gap.Bytes, l.Gap.At))
		return nil
	case p.timestamps:
		p.buf = append(l.Time.In(p.c.location()).AppendFormat(p.buf, "2006-01-02T15:04:05.000Z07:00"), ' ')
	}
	if p.prefix {
		if l.Source != p.source {
			p.source, p.name = l.Source, []byte(printable(api.SourceName(l.Source))+" | ")
		}
		p.buf = append(p.buf, p.name...)
	}
	p.buf = append(p.buf, l.Data...)
	// A line that continues in the next piece stays one line; elsewhere a missing newline would join
	// it to another source's line.
	if l.Terminated || !p.raw && (!p.split || p.joined) && !l.Continues {
		p.buf = append(p.buf, '\n')
	}
	return nil
}

func lineJSON(l *logstore.Line, cell string) []byte {
	return api.JSON(api.OutputLine(logstore.CellLine{Cell: cell, Line: *l}))
}

// yaml prints a line as an item of a list: so all of them are one document.
func (p *linePrinter) yaml(l *logstore.Line, cell string) error {
	b := bytes.NewBuffer(p.buf)
	err := printYAML(b, slices.Concat([]byte{'['}, lineJSON(l, cell), []byte{']'}))
	p.buf = b.Bytes()
	return err
}

// nameOnce prints a source of output, once.
func (p *linePrinter) nameOnce(source string) {
	if !p.sources[source] {
		if p.sources == nil {
			p.sources = map[string]bool{}
		}
		p.sources[source] = true
		p.buf = append(append(p.buf, printable(source)...), '\n')
	}
}

// gapText describes output that is missing; at is when it was removed, zero = unknown.
func gapText(source, reason string, bytes int64, at time.Time) string {
	text := fmt.Sprintf("[%s: %d bytes of output are missing: %s", printable(source), bytes,
		strings.ReplaceAll(reason, "_", " "))
	if !at.IsZero() {
		text += " at " + at.Format(time.RFC3339)
	}
	return text + "]"
}
