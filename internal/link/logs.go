package link

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"

	"connectrpc.com/connect"

	"cantina/executor/output"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
)

// ReadLogs reads one page of output from the store of this cell.
func (l *Local) ReadLogs(ctx context.Context, m *pb.ReadLogsRequest) (*pb.ReadLogsResponse, error) {
	q, err := queryOf(m.GetQuery())
	if err != nil {
		return nil, err
	}
	q.Cursor, q.Limit = m.GetCursor(), int(m.GetLimit())
	if tail := m.GetQuery().GetTail(); tail > 0 && q.Cursor == "" {
		q.Backward, q.Limit = true, int(tail)
	}
	page, err := l.Output.Query(ctx, q)
	if err != nil {
		return nil, logError(err)
	}
	out := &pb.ReadLogsResponse{Next: page.Next, Previous: page.Prev, End: !page.More}
	names := &sources{cell: string(l.Name)}
	for _, line := range page.Lines {
		out.Lines = append(out.Lines, names.line(line))
	}
	out.Sources = names.fresh
	return out, nil
}

// followBatch is how many lines go in one message of a stream at most.
const followBatch = 500

// FollowLogs hands out the lines after the cursor and those that come, until ctx
// is done or, when the query wants it, its sources have ended.
func (l *Local) FollowLogs(ctx context.Context, m *pb.FollowLogsRequest, each func(*pb.FollowLogsResponse) error) error {
	q, err := queryOf(m.GetQuery())
	if err != nil {
		return err
	}
	q.Cursor = m.GetCursor()
	names := &sources{cell: string(l.Name)}
	send := func(lines []output.Line, cursor string) error {
		out := &pb.FollowLogsResponse{Cursor: cursor}
		for _, line := range lines {
			out.Lines = append(out.Lines, names.line(line))
		}
		out.Sources, names.fresh = names.fresh, nil
		return each(out)
	}
	if tail := m.GetQuery().GetTail(); tail > 0 && q.Cursor == "" {
		last := q
		last.Backward, last.Limit = true, int(tail)
		page, err := l.Output.Query(ctx, last)
		if err != nil {
			return logError(err)
		}
		if err := send(page.Lines, page.Next); err != nil {
			return err
		}
		q.Cursor = page.Next
	}
	q.UntilEnd = m.GetUntilEnd()
	err = l.Output.FollowPages(ctx, q, func(p output.Page) error {
		for lines := p.Lines; len(lines) > 0; {
			n := min(len(lines), followBatch)
			cursor := ""
			if n == len(lines) {
				cursor = p.Next
			}
			if err := send(lines[:n], cursor); err != nil {
				return err
			}
			lines = lines[n:]
		}
		return nil
	})
	if err != nil {
		return logError(err)
	}
	return each(&pb.FollowLogsResponse{End: true})
}

// logError gives an error of the log store its code.
func logError(err error) error {
	if errors.Is(err, output.ErrCursor) || errors.Is(err, output.ErrRange) {
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	return err
}

// queryOf reads a query of output.
func queryOf(m *pb.LogQuery) (output.Query, error) {
	q := output.Query{IDs: m.GetContainers(), Labels: maps.Clone(m.GetLabels()), Attempt: m.GetAttempt(), Backward: m.GetBackward()}
	for _, s := range m.GetStreams() {
		q.Streams = append(q.Streams, output.Stream(s))
	}
	var err error
	if m.GetSince() != nil {
		if q.Since, err = wire.ToTime(m.GetSince()); err != nil {
			return q, err
		}
	}
	if m.GetUntil() != nil {
		if q.Until, err = wire.ToTime(m.GetUntil()); err != nil {
			return q, err
		}
	}
	if m.GetGrep() != "" {
		if q.Match, err = regexp.Compile(m.GetGrep()); err != nil {
			return q, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("grep: %w", err))
		}
	}
	return q, nil
}

// sources numbers the sources of lines; fresh has those not told yet.
type sources struct {
	cell  string
	known map[string]int32
	fresh []*pb.LogSource
}

func (s *sources) number(src *output.Source) int32 {
	key := src.ID + "\x00" + src.Attempt
	if n, ok := s.known[key]; ok {
		return n
	}
	if s.known == nil {
		s.known = map[string]int32{}
	}
	n := int32(len(s.known))
	s.known[key] = n
	s.fresh = append(s.fresh, &pb.LogSource{Id: src.ID, Labels: valid(src.Labels), Attempt: src.Attempt, Cell: s.cell})
	return n
}

// valid returns labels that can travel as text: names of nodes may be any bytes.
func valid(labels map[string]string) map[string]string {
	out := make(map[string]string, len(labels))
	for k, v := range labels {
		out[k] = strings.ToValidUTF8(v, "\uFFFD")
	}
	return out
}

func (s *sources) line(l output.Line) *pb.LogLine {
	m := &pb.LogLine{Position: uint64(l.Position), Time: wire.FromTime(l.Time), Seq: l.Seq, Source: s.number(l.Source),
		Stream: pb.LogStream(l.Stream), Data: l.Data, Unterminated: !l.Terminated, Continues: l.Continues}
	if g := l.Gap; g != nil {
		m.Gap = &pb.LogGap{Reason: g.Reason.String(), Bytes: g.Bytes, Lines: g.Lines, AtMost: g.AtMost, At: wire.FromTime(g.At)}
	}
	return m
}
