package apitest

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"maps"
	"regexp"
	"slices"
	"sync"
	"time"

	"cantina/logstore"
	pb "cantina/wire/cantinav1"
)

// Logs is the output of several cells, with the cursors of the real log store.
type Logs struct {
	mu    sync.Mutex
	cells map[string][]line
	down  map[string]error
	usage map[string][]*pb.ReadUsageResponse
	next  uint64
	wake  chan struct{}
}

type line struct {
	position uint64
	source   *pb.LogSource
	stream   pb.LogStream
	data     []byte
	gap      *pb.LogGap
}

// NewLogs returns cells without output.
func NewLogs() *Logs {
	return &Logs{cells: map[string][]line{}, down: map[string]error{}, wake: make(chan struct{})}
}

// Write adds a line of a container on a cell.
func (l *Logs) Write(cell, container string, labels map[string]string, stream pb.LogStream, data string) {
	l.add(cell, line{source: &pb.LogSource{Id: container, Labels: labels, Cell: cell}, stream: stream, data: []byte(data)})
}

// Lose adds a gap.
func (l *Logs) Lose(cell, container string, labels map[string]string, bytes int64) {
	l.add(cell, line{source: &pb.LogSource{Id: container, Labels: labels, Cell: cell},
		gap: &pb.LogGap{Reason: "rate_limited", Bytes: bytes}})
}

func (l *Logs) add(cell string, x line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	x.position = l.next
	l.cells[cell] = append(l.cells[cell], x)
	close(l.wake)
	l.wake = make(chan struct{})
}

// Cut makes a cell unreachable; nil mends it.
func (l *Logs) Cut(cell string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down[cell] = err
	close(l.wake)
	l.wake = make(chan struct{})
}

// Leave takes cells away with their output.
func (l *Logs) Leave(cells ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range cells {
		delete(l.cells, c)
	}
}

// Holders implements api.Logs: all cells.
func (l *Logs) Holders(*pb.LogQuery) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.cells))
}

func cursor(p uint64) string {
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64([]byte{1}, p))
}

func position(c string) (uint64, error) {
	b, err := base64.RawURLEncoding.DecodeString(c)
	if err != nil || len(b) != 9 {
		return 0, errors.New("bad cursor")
	}
	return binary.BigEndian.Uint64(b[1:]), nil
}

func (l *Logs) matching(cell string, q *pb.LogQuery) []line {
	var out []line
	match := regexp.MustCompile(q.Grep)
	for _, x := range l.cells[cell] {
		ok := len(q.Containers) == 0 || slices.Contains(q.Containers, x.source.Id)
		ok = ok && (x.gap != nil || match.Match(x.data))
		for k, v := range q.Labels {
			ok = ok && x.source.Labels[k] == v
		}
		if ok && (x.gap != nil || slices.Contains(q.Streams, x.stream)) {
			out = append(out, x)
		}
	}
	slices.SortFunc(out, compareLines)
	return out
}

// ReadLogs implements api.Logs.
func (l *Logs) ReadLogs(_ context.Context, cell string, m *pb.ReadLogsRequest) (*pb.ReadLogsResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.down[cell]; err != nil {
		return nil, err
	}
	all := l.matching(cell, m.Query)
	from, err := uint64(0), error(nil)
	if m.Cursor != "" {
		if from, err = position(m.Cursor); err != nil {
			return nil, err
		}
	}
	limit := int(m.Limit)
	if m.Query.Backward {
		if m.Cursor != "" {
			all = slices.DeleteFunc(all, func(x line) bool { return x.position > from })
		}
		end := len(all) <= limit
		all = all[max(0, len(all)-limit):]
		return pageOf(all, l.next, end), nil
	}
	all = slices.DeleteFunc(all, func(x line) bool { return x.position <= from })
	end := len(all) <= limit
	all = all[:min(limit, len(all))]
	out := pageOf(all, from, end)
	if len(all) == 0 {
		out.Next, out.Previous = cursor(from), cursor(from)
	}
	return out, nil
}

func pageOf(all []line, empty uint64, end bool) *pb.ReadLogsResponse {
	out := &pb.ReadLogsResponse{End: end, Next: cursor(empty), Previous: cursor(empty)}
	out.Lines = pack(all)
	if n := len(all); n > 0 {
		out.Previous, out.Next = cursor(all[0].position-1), cursor(all[n-1].position)
	}
	return out
}

func pack(all []line) *pb.LogLines {
	lines := make([]logstore.CellLine, 0, len(all))
	for _, x := range all {
		l := logstore.Line{
			Position: logstore.Position(x.position), Time: time.Unix(1_700_000_000+int64(x.position), 0), Seq: x.position,
			Source: &logstore.Source{ID: x.source.Id, Labels: x.source.Labels, Attempt: x.source.Attempt},
			Stream: logstore.Stream(x.stream), Data: x.data, Terminated: true,
		}
		if g := x.gap; g != nil {
			l.Gap = &logstore.Gap{Reason: logstore.RateLimited, Bytes: g.Bytes, Lines: g.Lines, AtMost: g.AtMost}
		}
		lines = append(lines, logstore.CellLine{Cell: x.source.Cell, Line: l})
	}
	return logstore.PackMerged(lines)
}

// FollowLogs implements api.Logs.
func (l *Logs) FollowLogs(ctx context.Context, cell string, m *pb.FollowLogsRequest,
	each func(*pb.FollowLogsResponse) error) error {
	from, err := uint64(0), error(nil)
	if m.Cursor != "" {
		if from, err = position(m.Cursor); err != nil {
			return err
		}
	}
	for {
		l.mu.Lock()
		err, wake := l.down[cell], l.wake
		var fresh []line
		for _, x := range l.matching(cell, m.Query) {
			if x.position > from {
				fresh = append(fresh, x)
			}
		}
		l.mu.Unlock()
		if err != nil {
			return err
		}
		if len(fresh) > 0 {
			out := &pb.FollowLogsResponse{Lines: pack(fresh)}
			from = fresh[len(fresh)-1].position
			if err := each(out); err != nil {
				return err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wake:
		}
	}
}

// compareLines orders output as the cells do.
func compareLines(a, b line) int { return cmp.Compare(a.position, b.position) }

// SetUsage has a cell answer with these measurements, one after the other; the last one stays.
func (l *Logs) SetUsage(cell string, all ...*pb.ReadUsageResponse) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.usage == nil {
		l.usage = map[string][]*pb.ReadUsageResponse{}
	}
	l.usage[cell] = all
}

// ReadUsage implements api.Logs.
func (l *Logs) ReadUsage(_ context.Context, cell string) (*pb.ReadUsageResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.down[cell]; err != nil {
		return nil, err
	}
	all := l.usage[cell]
	if len(all) == 0 {
		return &pb.ReadUsageResponse{}, nil
	}
	if len(all) > 1 {
		l.usage[cell] = all[1:]
	}
	return all[0], nil
}
