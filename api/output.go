package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"cantina/fault"
	"cantina/internal/text"
	"cantina/logstore"
	"cantina/plan"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
)

// ReadOutput reads one page of output, merged over the cells that may have it.
func (c streamCalls) ReadOutput(ctx context.Context,
	q *request[pb.ReadOutputRequest]) (*response[pb.ReadOutputResponse], error) {
	b, err := c.now()
	if err != nil {
		return nil, err
	}
	r, err := rangeOf(q.Msg.Page)
	if err != nil {
		return nil, err
	}
	query := q.Msg.Query
	unproven, err := c.known(ctx, b, query)
	if err != nil {
		return nil, err
	}
	size := pageSize{lines: r.Limit}
	if q.Msg.Packed {
		size = packedPage
	}
	page, err := readOutput(ctx, b.Logs, query, r.After, size)
	if err != nil {
		return nil, err
	}
	if unproven != nil && (len(page.Missing) > 0 || page.empty() && r.After == "") {
		return nil, unproven
	}
	m := &pb.ReadOutputResponse{Missing: page.Missing, Previous: page.Prev.Cursor(), Next: page.Next.Cursor(),
		More: page.More}
	if q.Msg.Packed {
		m.Packed = page.packed()
	} else {
		m.Lines = page.lines()
	}
	return answer(m, nil)
}

// known refuses a query about a resource that does not exist and left no output; err is the error
// of the resource (not found, collected).
//
// Cells have the output: it can be read while this server cannot prove that it leads, which a busy
// disk may delay. Then known returns that uncertainty, for the case that a cell does not answer or
// no output is found: the next leader may succeed.
func (s *Server) known(ctx context.Context, b *Backend, q *pb.OutputQuery) (unproven, err error) {
	err = s.subjectIs(b, q)
	switch {
	case errors.Is(err, fault.ErrTermOver):
		return err, nil
	case q.GetTask() != "", !errors.Is(err, fault.ErrNotFound):
		return nil, err
	}
	// Kept output outlives a service and a job.
	kept := &pb.OutputQuery{Domain: q.GetDomain(), Service: q.GetService(), Index: q.Index, Job: q.GetJob(),
		Node: q.GetNode(), Stream: []string{"stdout", "stderr", "event"}}
	page, rerr := readOutput(ctx, b.Logs, kept, "", pageSize{lines: 1})
	if rerr != nil || page.empty() {
		return nil, cmp.Or(rerr, err)
	}
	return nil, nil
}

// subjectIs looks up the subject of a query.
func (s *Server) subjectIs(b *Backend, q *pb.OutputQuery) error {
	var err error
	switch {
	case q.GetService() != "":
		_, err = b.Services.GetService(serviceKey(q.GetDomain(), q.GetService()))
	case q.GetTask() != "":
		_, err = b.Tasks.GetTask(q.GetTask())
	case q.GetJob() != "":
		if _, err = b.Jobs.GetJob(jobKey(q.GetDomain(), q.GetJob())); err == nil {
			err = knownNodes(b, plan.JobNodeFilter{Job: jobKey(q.GetDomain(), q.GetJob()), Node: q.GetNode()})
		}
	case len(q.GetContainer()) == 0:
		return invalid("query", "a service, task, job or container is required")
	}
	return err
}

// logQuery turns a public query into the cells' own: by the labels that every
// container carries.
func logQuery(q *pb.OutputQuery) (*pb.LogQuery, error) {
	m := &pb.LogQuery{
		Containers: q.GetContainer(), ExceptContainers: q.GetExceptContainer(),
		Attempt: q.GetAttempt(), Since: q.GetSince(), Until: q.GetUntil(), Grep: q.GetGrep(),
		Labels: map[string]string{}, Backward: q.GetBackward() || q.GetTail() > 0,
	}
	set := func(label, value string) {
		if value != "" {
			m.Labels[label] = value
		}
	}
	subjects := 0
	for _, s := range []string{q.GetService(), q.GetTask(), q.GetJob()} {
		if s != "" {
			subjects++
		}
	}
	if subjects > 1 {
		return nil, invalid("query", "only one of service, task and job is allowed")
	}
	set("service", q.GetService())
	if q.GetService() != "" || q.GetJob() != "" {
		set("domain", orDefault(q.GetDomain()))
	}
	if q.Index != nil {
		set("index", strconv.Itoa(int(q.GetIndex())))
	}
	set("task", q.GetTask())
	set("job", q.GetJob())
	set("node", q.GetNode())
	streams := q.GetStream()
	if len(streams) == 0 {
		streams = []string{"stdout", "stderr"}
	}
	for _, name := range streams {
		s, ok := logstore.ParseStream(name)
		if !ok {
			return nil, invalid("query.stream", "invalid stream %q: must be one of stdout, stderr, event",
				text.Shorten(name, 60))
		}
		m.Streams = append(m.Streams, pb.LogStream(s))
	}
	if _, err := regexp.Compile(q.GetGrep()); err != nil {
		return nil, invalid("query.grep", "%v", err)
	}
	if q.GetAt() < 0 {
		return nil, invalid("query.at", "must not be negative")
	}
	if q.GetTail() < 0 {
		return nil, invalid("query.tail", "must not be negative")
	}
	return m, nil
}

// pageSize bounds a page of output. With bytes the page will be packed.
type pageSize struct{ lines, bytes int }

// packedPage is the size of a packed page.
var packedPage = pageSize{lines: 1 << 16, bytes: 4 << 20}

// outputPage is one merged page: lines, or the answer of the only cell as it came.
type outputPage struct {
	Lines      []logstore.CellLine
	only       *pb.ReadLogsResponse
	Next, Prev logstore.Place
	More       bool
	Missing    []string
}

func (p *outputPage) empty() bool {
	return len(p.Lines) == 0 && len(p.only.GetLines().GetSize()) == 0
}

// lines are the page's lines as public messages.
func (p *outputPage) lines() []*pb.OutputLine {
	out := make([]*pb.OutputLine, 0, len(p.Lines))
	for _, l := range p.Lines {
		out = append(out, OutputLine(l))
	}
	return out
}

// packed are the page's lines in columns.
func (p *outputPage) packed() *pb.LogLines {
	if p.only != nil {
		return p.only.Lines
	}
	return logstore.PackMerged(p.Lines)
}

// readOutput queries every cell that may have output and merges the answers. A cell that does not
// answer is named in the page and loses nothing: its place is kept.
func readOutput(ctx context.Context, logs Logs, q *pb.OutputQuery, cursor string, size pageSize) (*outputPage, error) {
	from, err := logstore.ParsePlace(cursor)
	if err != nil {
		return nil, &FieldError{Err: err, Field: "page.cursor"}
	}
	query, err := logQuery(q)
	if err != nil {
		return nil, err
	}
	if at := q.GetAt(); at > 0 && cursor == "" {
		for _, cell := range logs.Holders(query) {
			from[cell] = logstore.Position(at - 1).Cursor()
		}
	}
	if tail := int(q.GetTail()); tail > 0 {
		size.lines = min(tail, MaxPage)
	}
	return readPlace(ctx, logs, query, from, size)
}

// readOnly reads a page for packing of the only cell, without taking it apart.
func readOnly(ctx context.Context, logs Logs, query *pb.LogQuery, from logstore.Place, cell string,
	size pageSize) (*outputPage, error) {
	m, err := logs.ReadLogs(ctx, cell, readRequest(query, from[cell], size, 1))
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	page := &outputPage{Next: maps.Clone(from), Prev: maps.Clone(from)}
	if err != nil {
		page.Missing = []string{ofCell(cell, err)}
		return page, nil
	}
	page.only, page.More = m, !m.End
	page.Next[cell], page.Prev[cell] = m.Next, m.Previous
	return page, nil
}

// readRequest divides the bytes of a page among the cells that are queried concurrently.
func readRequest(query *pb.LogQuery, cursor string, size pageSize, cells int) *pb.ReadLogsRequest {
	bytes := size.bytes
	if bytes > 0 {
		bytes = max(bytes/cells, minPageBytes)
	}
	return &pb.ReadLogsRequest{Query: query, Cursor: cursor, Limit: int32(size.lines), MaxBytes: int32(bytes)}
}

// minPageBytes is the smallest share of a page that is requested from one cell.
const minPageBytes = 256 << 10

// maxCells is the number of cells that are queried concurrently.
const maxCells = 32

// eachCell calls ask for every cell, for at most maxCells at a time, and returns when all calls have.
func eachCell(cells []string, ask func(i int, cell string)) {
	var wg sync.WaitGroup
	gate := make(chan struct{}, maxCells)
	for i, cell := range cells {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			ask(i, cell)
		})
	}
	wg.Wait()
}

func readPlace(ctx context.Context, logs Logs, query *pb.LogQuery, from logstore.Place, size pageSize) (*outputPage,
	error) {
	cells := logs.Holders(query)
	if size.bytes > 0 && len(cells) == 1 {
		return readOnly(ctx, logs, query, from, cells[0], size)
	}
	parts := make([]logstore.Part, len(cells))
	eachCell(cells, func(i int, cell string) {
		parts[i] = readCell(ctx, logs, cell, readRequest(query, from[cell], size, len(cells)))
	})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	merged, err := logstore.Merge(from, query.Backward, size.lines, parts)
	if err != nil {
		return nil, err
	}
	page := &outputPage{Lines: merged.Lines, Next: merged.Next, Prev: merged.Prev, More: merged.More}
	for _, p := range parts {
		if p.Err != nil {
			page.Missing = append(page.Missing, ofCell(p.Cell, p.Err))
		}
	}
	return page, nil
}

// ofCell names the cell of an error, once.
func ofCell(cell string, err error) string {
	prefix := "cell " + cell + ": "
	return prefix + strings.TrimPrefix(err.Error(), prefix)
}

func readCell(ctx context.Context, logs Logs, cell string, q *pb.ReadLogsRequest) logstore.Part {
	m, err := logs.ReadLogs(ctx, cell, q)
	if err != nil {
		return logstore.Part{Cell: cell, Err: err}
	}
	part := logstore.Part{Cell: cell, Page: logstore.Page{Prev: m.Previous, Next: m.Next, More: !m.End}}
	part.Page.Lines, err = logstore.Unpack(m.Lines)
	if err != nil {
		return logstore.Part{Cell: cell, Err: fmt.Errorf("%w: %w", wire.ErrMalformed, err)}
	}
	return part
}

// OutputLine is a line as a public message.
func OutputLine(l logstore.CellLine) *pb.OutputLine {
	m := &pb.OutputLine{
		Time: wire.FromTime(l.Time), Source: SourceName(l.Source), Container: l.Source.ID, Cell: l.Cell,
		Stream:       l.Stream.String(),
		Unterminated: !l.Terminated, Continues: l.Continues, Position: int64(l.Position),
	}
	if g := l.Gap; g != nil {
		m.Gap = &pb.LogGap{Reason: g.Reason.String(), Bytes: g.Bytes, Lines: g.Lines, AtMost: g.AtMost,
			At: wire.FromTime(g.At)}
		return m
	}
	if m.Text = text.Clean(string(l.Data)); !utf8.Valid(l.Data) {
		m.Raw = l.Data
	}
	return m
}

// SourceName is the prefix of a line: "web/0", "job[node]", the task's id.
func SourceName(s *logstore.Source) string {
	l := s.Labels
	switch {
	case l["service"] != "":
		return text.Clean(l["service"] + "/" + l["index"])
	case l["job"] != "":
		return text.Clean(l["job"] + "[" + l["node"] + "]")
	case l["task"] != "":
		return text.Clean(l["task"])
	}
	return s.ID
}
