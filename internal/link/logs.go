package link

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"

	"connectrpc.com/connect"

	"cantina/logstore"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
)

// ReadLogs reads one page of output from the store of this cell.
func (l *Local) ReadLogs(ctx context.Context, m *pb.ReadLogsRequest) (*pb.ReadLogsResponse, error) {
	q, err := queryOf(m.GetQuery())
	if err != nil {
		return nil, err
	}
	q.Cursor, q.Limit, q.MaxBytes = m.GetCursor(), int(m.GetLimit()), int(m.GetMaxBytes())
	if tail := m.GetQuery().GetTail(); tail > 0 && q.Cursor == "" {
		q.Backward, q.Limit = true, int(tail)
	}
	conns, page, err := l.Output.QueryPacked(ctx, q, string(l.Name))
	if err != nil {
		return nil, logError(err)
	}
	return &pb.ReadLogsResponse{Next: page.Next, Previous: page.Prev, End: !page.More, Lines: conns}, nil
}

// FollowLogs hands out the lines after the cursor and those that come, until ctx
// is done or, when the query wants it, its sources have ended.
func (l *Local) FollowLogs(ctx context.Context, m *pb.FollowLogsRequest,
	each func(*pb.FollowLogsResponse) error) error {
	q, err := queryOf(m.GetQuery())
	if err != nil {
		return err
	}
	q.Cursor = m.GetCursor()
	send := func(conns []logstore.Line, cursor string) error {
		return each(&pb.FollowLogsResponse{Cursor: cursor, Lines: logstore.Pack(string(l.Name), conns)})
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
	err = l.Output.FollowPages(ctx, q, func(p logstore.Page) error { return send(p.Lines, p.Next) })
	if err != nil {
		return logError(err)
	}
	return each(&pb.FollowLogsResponse{End: true})
}

// logError gives an error of the log store its code.
func logError(err error) error {
	if errors.Is(err, logstore.ErrCursor) || errors.Is(err, logstore.ErrRange) {
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	return err
}

// queryOf reads a query of output.
func queryOf(m *pb.LogQuery) (logstore.Query, error) {
	q := logstore.Query{IDs: m.GetContainers(), Except: m.GetExceptContainers(),
		Labels: maps.Clone(m.GetLabels()), Attempt: m.GetAttempt(),
		Backward: m.GetBackward()}
	for _, s := range m.GetStreams() {
		q.Streams = append(q.Streams, logstore.Stream(s))
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
