package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"unicode/utf8"

	"connectrpc.com/connect"

	"cantina/batch"
	"cantina/executor/output"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
)

// ReadOutput reads one page of output, merged over the cells that may have it.
func (c *calls) ReadOutput(ctx context.Context, q *connect.Request[pb.ReadOutputRequest]) (*connect.Response[pb.ReadOutputResponse], error) {
	b, err := c.now()
	if err != nil {
		return nil, err
	}
	r, err := rangeOf(q.Msg.Page)
	if err != nil {
		return nil, err
	}
	query := q.Msg.Query
	doubt, err := c.known(ctx, b, query)
	if err != nil {
		return nil, err
	}
	page, err := readOutput(ctx, b.Logs, query, r.After, r.Limit)
	if err != nil {
		return nil, err
	}
	if doubt != nil && (len(page.Missing) > 0 || len(page.Lines) == 0 && r.After == "") {
		return nil, doubt
	}
	return answer(page.message(), nil)
}

// known refuses a query about something that does not exist and left no output; err
// is the error of the thing (not found, collected).
//
// Output is the cells': it can be read while this server cannot prove that it
// leads, which a busy disk may delay for a moment. Then known returns that doubt,
// for the case that a cell does not answer or nothing is found: the next leader may
// do better.
func (s *Server) known(ctx context.Context, b *Backend, q *pb.OutputQuery) (doubt, err error) {
	err = s.subjectIs(b, q)
	switch as := s.translate(err); {
	case errors.Is(as, ErrTermOver):
		return err, nil
	case q.GetTask() != "", !errors.Is(as, ErrNotFound) && !errors.Is(as, batch.ErrUnknownJob) && !errors.Is(as, batch.ErrUnknownNode):
		return nil, err
	}
	// Kept output outlives a service and a job.
	kept := &pb.OutputQuery{Domain: q.GetDomain(), Service: q.GetService(), Index: q.Index, Job: q.GetJob(), Node: q.GetNode(), Stream: []string{"stdout", "stderr", "event"}}
	page, rerr := readOutput(ctx, b.Logs, kept, "", 1)
	if rerr != nil || len(page.Lines) == 0 {
		return nil, cmp.Or(rerr, err)
	}
	return nil, nil
}

// subjectIs looks up what a query is about.
func (s *Server) subjectIs(b *Backend, q *pb.OutputQuery) error {
	var err error
	switch {
	case q.GetService() != "":
		_, err = b.Services.GetService(serviceKey(q.GetDomain(), q.GetService()))
	case q.GetTask() != "":
		_, err = b.Tasks.GetTask(q.GetTask())
	case q.GetJob() != "":
		if _, err = b.Jobs.GetJob(q.GetJob()); err == nil {
			err = knownNodes(b, PairFilter{Job: q.GetJob(), Node: q.GetNode()})
		}
	case len(q.GetContainer()) == 0:
		return invalid("query", "names no service, task, job or container")
	}
	return err
}

// logQuery turns a public query into the cells' own: by the labels that every
// container carries.
func logQuery(q *pb.OutputQuery) (*pb.LogQuery, error) {
	m := &pb.LogQuery{
		Containers: q.GetContainer(), Attempt: q.GetAttempt(), Since: q.GetSince(), Until: q.GetUntil(), Grep: q.GetGrep(),
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
		return nil, invalid("query", "names more than one of service, task and job")
	}
	set("service", q.GetService())
	if q.GetService() != "" {
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
		s, ok := output.ParseStream(name)
		if !ok {
			return nil, invalid("query.stream", "%q is none of stdout, stderr, event", shorten(name))
		}
		m.Streams = append(m.Streams, pb.LogStream(s))
	}
	if _, err := regexp.Compile(q.GetGrep()); err != nil {
		return nil, invalid("query.grep", "%v", err)
	}
	if q.GetTail() < 0 {
		return nil, invalid("query.tail", "must not be negative")
	}
	return m, nil
}

// outputPage is one merged page.
type outputPage struct {
	Lines      []*pb.OutputLine
	Next, Prev output.Place
	More       bool
	Missing    []string
}

func (p *outputPage) message() *pb.ReadOutputResponse {
	m := &pb.ReadOutputResponse{Lines: p.Lines, Missing: p.Missing, Previous: p.Prev.Cursor(), Next: p.Next.Cursor()}
	return m
}

// readOutput asks every cell that may have output and merges what they answer. A
// cell that does not answer is named in the page and loses nothing: its place stays.
func readOutput(ctx context.Context, logs Logs, q *pb.OutputQuery, cursor string, limit int) (*outputPage, error) {
	from, err := output.ParsePlace(cursor)
	if err != nil {
		return nil, &FieldError{Err: err, Field: "page.cursor"}
	}
	query, err := logQuery(q)
	if err != nil {
		return nil, err
	}
	if tail := int(q.GetTail()); tail > 0 {
		limit = min(tail, MaxPage)
	}
	return readPlace(ctx, logs, query, from, logs.Holders(query), limit)
}

// maxCells is how many cells are asked at the same time.
const maxCells = 32

func readPlace(ctx context.Context, logs Logs, query *pb.LogQuery, from output.Place, cells []string, limit int) (*outputPage, error) {
	parts := make([]output.Part, len(cells))
	var wg sync.WaitGroup
	gate := make(chan struct{}, maxCells)
	for i, cell := range cells {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			parts[i] = readCell(ctx, logs, query, cell, from[cell], limit)
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	merged, err := output.Merge(from, query.Backward, limit, parts)
	if err != nil {
		return nil, err
	}
	page := &outputPage{Next: merged.Next, Prev: merged.Prev, More: merged.More}
	for _, l := range merged.Lines {
		page.Lines = append(page.Lines, outputLine(l))
	}
	for _, p := range parts {
		if p.Err != nil {
			page.Missing = append(page.Missing, fmt.Sprintf("cell %s: %v", p.Cell, p.Err))
		}
	}
	return page, nil
}

func readCell(ctx context.Context, logs Logs, query *pb.LogQuery, cell, cursor string, limit int) output.Part {
	m, err := logs.ReadLogs(ctx, cell, &pb.ReadLogsRequest{Query: query, Cursor: cursor, Limit: int32(limit)})
	if err != nil {
		return output.Part{Cell: cell, Err: err}
	}
	part := output.Part{Cell: cell, Page: output.Page{Prev: m.Previous, Next: m.Next, More: !m.End}}
	part.Page.Lines, err = lines(m.Lines, m.Sources, nil)
	if err != nil {
		return output.Part{Cell: cell, Err: err}
	}
	return part
}

// lines reads the lines of a message; sources named in earlier messages are in
// known, which grows.
func lines(ms []*pb.LogLine, fresh []*pb.LogSource, known *[]*output.Source) ([]output.Line, error) {
	var all []*output.Source
	if known != nil {
		all = *known
	}
	for _, s := range fresh {
		all = append(all, &output.Source{ID: s.GetId(), Labels: s.GetLabels(), Attempt: s.GetAttempt()})
	}
	if known != nil {
		*known = all
	}
	out := make([]output.Line, 0, len(ms))
	for _, m := range ms {
		if m.GetSource() < 0 || int(m.GetSource()) >= len(all) {
			return nil, fmt.Errorf("a line of an unknown source: %w", wire.ErrMalformed)
		}
		at, err := wire.ToTime(m.GetTime())
		if err != nil {
			return nil, err
		}
		l := output.Line{
			Position: output.Position(m.GetPosition()), Time: at, Seq: m.GetSeq(), Source: all[m.GetSource()], Stream: output.Stream(m.GetStream()),
			Data: m.GetData(), Terminated: !m.GetUnterminated(), Continues: m.GetContinues(),
		}
		if g := m.GetGap(); g != nil {
			l.Gap = &output.Gap{Reason: gapReason(g.GetReason()), Bytes: g.GetBytes(), Lines: g.GetLines(), AtMost: g.GetAtMost()}
			if l.Gap.At, err = wire.ToTime(g.GetAt()); err != nil {
				return nil, err
			}
		}
		out = append(out, l)
	}
	return out, nil
}

func gapReason(name string) output.Reason {
	for r := output.RateLimited; r <= output.Damaged; r++ {
		if r.String() == name {
			return r
		}
	}
	return output.Damaged
}

// outputLine puts a line on the public wire.
func outputLine(l output.CellLine) *pb.OutputLine {
	m := &pb.OutputLine{
		Time: wire.FromTime(l.Time), Source: sourceName(l.Source), Container: l.Source.ID, Cell: l.Cell, Stream: l.Stream.String(),
		Unterminated: !l.Terminated, Continues: l.Continues,
	}
	switch {
	case l.Gap != nil:
		g := l.Gap
		m.Gap = &pb.LogGap{Reason: g.Reason.String(), Bytes: g.Bytes, Lines: g.Lines, AtMost: g.AtMost, At: wire.FromTime(g.At)}
	case utf8.Valid(l.Data):
		m.Text = string(l.Data)
	default:
		m.Raw = l.Data
	}
	return m
}

// sourceName is what a line is prefixed with: "web/0", "job[node]", the task's id.
func sourceName(s *output.Source) string {
	l := s.Labels
	switch {
	case l["service"] != "":
		return clean(l["service"] + "/" + l["index"])
	case l["job"] != "":
		return clean(l["job"] + "[" + l["node"] + "]")
	case l["task"] != "":
		return clean(l["task"])
	}
	return s.ID
}
