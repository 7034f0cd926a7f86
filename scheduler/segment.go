package scheduler

import (
	"fmt"
	"slices"

	"cantina/batch"
	"cantina/fence"
	"cantina/internal/text"
	"cantina/scheduler/schedulerpb"
	"cantina/store"
)

// Statuses are stored in segments: rows of statuses that were committed together, of limited size,
// so that a thousand ends of short tasks are a few rows. A later segment overrides an earlier one,
// node by node. A segment without current statuses is deleted, and small ones are merged, so the
// store grows with the number of nodes and not with the number of attempts.
const (
	// segmentBytes bounds statuses or data of one segment; it fits a transaction of an
	// unmodified etcd several times over.
	segmentBytes = 48 << 10
	// smallSegment is the size below which segments are merged.
	smallSegment = 8 << 10
)

// segments is the account of one job's segments.
type segments struct {
	next uint32
	of   map[uint32]*segment
	dead []uint32 // nothing of them is current; their rows are still there
}

type segment struct {
	live  int // entries that are current
	bytes int
	data  bool // it has a row of data
	busy  bool // being merged
}

func newSegments() segments { return segments{next: 1, of: make(map[uint32]*segment)} }

// written takes a new segment with so many entries.
func (s *segments) written(n uint32, entries, bytes int, data bool) {
	s.of[n] = &segment{live: entries, bytes: bytes, data: data}
	s.next = max(s.next, n+1)
}

// replaced takes that an entry of a segment is no longer current.
func (s *segments) replaced(n uint32) {
	x := s.of[n]
	if x == nil {
		return
	}
	if x.live--; x.live <= 0 && !x.busy {
		s.dead = append(s.dead, n)
	}
}

// reap returns the ops that delete up to so many dead segments, and forgets them.
func (s *segments) reap(uid string, most int) []store.Op {
	var ops []store.Op
	for len(s.dead) > 0 && most > 0 {
		n := s.dead[0]
		s.dead = s.dead[1:]
		ops = append(ops, store.Op{Key: segmentKey(uid, n)})
		if x := s.of[n]; x != nil && x.data {
			ops = append(ops, store.Op{Key: dataKey(uid, n)})
		}
		delete(s.of, n)
		most--
	}
	return ops
}

// small returns the numbers of small segments to merge, oldest first, when there
// are too many of them.
func (s *segments) small(tooMany int) []uint32 {
	var out []uint32
	for n, x := range s.of {
		if x.live > 0 && !x.busy && x.bytes < smallSegment {
			out = append(out, n)
		}
	}
	if len(out) < tooMany {
		return nil
	}
	slices.Sort(out)
	total := 0
	for i, n := range out {
		if total += s.of[n].bytes; total > segmentBytes {
			return out[:i]
		}
	}
	return out
}

// packer fills one segment.
type packer struct {
	m     schedulerpb.Segment
	data  schedulerpb.SegmentData
	terms map[fence.Term]uint32
	bytes int // of statuses
	more  int // of data
}

// full reports whether the segment should take nothing more.
func (p *packer) full() bool { return p.bytes >= segmentBytes || p.more >= segmentBytes }

// maxReason limits the reason kept with a status.
const maxReason = 1024

func (p *packer) add(node string, s *batch.Status, data []byte) {
	if p.terms == nil {
		p.terms = make(map[fence.Term]uint32)
	}
	t, ok := p.terms[s.Invocation.Term]
	if !ok {
		t = uint32(len(p.m.Terms))
		p.terms[s.Invocation.Term] = t
		p.m.Terms = append(p.m.Terms, &schedulerpb.Segment_Term{Epoch: s.Invocation.Term.Epoch,
			Revision: s.Invocation.Term.Revision})
	}
	reason := s.Reason
	if len(reason) > maxReason {
		reason = reason[:maxReason] + " (truncated)"
	}
	p.m.Entries = append(p.m.Entries, &schedulerpb.Entry{
		Node: []byte(node), Bits: uint32(s.Bits), Time: s.Time, Backoff: int32(s.Backoff), Saved: int32(s.Saved),
		Attempts: int32(s.Attempts),
		Losses:   int32(s.Losses), Term: t, Counter: s.Invocation.Counter, ExitCode: int32(s.ExitCode),
		Signal: int32(s.Signal), Reason: text.Clean(reason),
	})
	p.bytes += len(node) + len(reason) + 40
	if len(data) > 0 {
		p.data.Items = append(p.data.Items, &schedulerpb.SegmentData_Item{Entry: uint32(len(p.m.Entries) - 1), Data: data})
		p.more += len(data) + 8
	}
}

// ops returns the rows of the segment.
func (p *packer) ops(uid string, n uint32) ([]store.Op, error) {
	value, err := encode(kindSegment, &p.m)
	if err != nil {
		return nil, err
	}
	ops := []store.Op{{Key: segmentKey(uid, n), Value: value}}
	if len(p.data.Items) > 0 {
		if value, err = encode(kindData, &p.data); err != nil {
			return nil, err
		}
		ops = append(ops, store.Op{Key: dataKey(uid, n), Value: value})
	}
	return ops, nil
}

// entry is one status as it was stored.
type entry struct {
	node   string
	status batch.Status
}

func decodeSegment(value []byte) ([]entry, error) {
	var m schedulerpb.Segment
	if err := store.Open(value, kindSegment, &m); err != nil {
		return nil, err
	}
	out := make([]entry, len(m.Entries))
	for i, e := range m.Entries {
		if int(e.Term) >= len(m.Terms) || e.Bits > 1<<16-1 {
			return nil, fmt.Errorf("entry %d: %w", i, errRecord)
		}
		t := m.Terms[e.Term]
		out[i] = entry{node: string(e.Node), status: batch.Status{
			Bits: batch.Bits(e.Bits), Time: e.Time, Backoff: int(e.Backoff), Saved: int(e.Saved), Attempts: int(e.Attempts),
			Losses:     int(e.Losses),
			Invocation: fence.Invocation{Term: fence.Term{Epoch: t.Epoch, Revision: t.Revision}, Counter: e.Counter},
			ExitCode:   int(e.ExitCode), Signal: int(e.Signal), Reason: e.Reason,
		}}
		if e.Counter == 0 {
			out[i].status.Invocation = fence.Invocation{}
		}
	}
	return out, nil
}

// decodeData returns the data by place of its entry.
func decodeData(value []byte) (map[int][]byte, error) {
	var m schedulerpb.SegmentData
	if err := store.Open(value, kindData, &m); err != nil {
		return nil, err
	}
	out := make(map[int][]byte, len(m.Items))
	for _, x := range m.Items {
		out[int(x.Entry)] = x.Data
	}
	return out, nil
}
