package logstore

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"time"
)

// reader hands out the wanted lines of one segment in (lo, hi], by rising or
// falling position.
type reader struct {
	path     string
	file     *os.File // opened at the first read
	size     int64
	marks    []mark
	want     map[uint32]*entry
	lo, hi   Position
	backward bool
	first    Position // limits of this read
	last     Position
	block    int // next block
	end      int // block at which it stops (exclusive, in its direction)
	lines    []Line
	at       int
	share    bool // lines may share the block's memory
	reuse    bool // lines are not kept: each block may take the memory of the one before
	buf      []byte
}

// open makes a reader for g; nil when nothing is wanted.
func (g *segment) open(q *query, lo, hi Position) (*reader, error) {
	entries, err := g.matching(q)
	entries = slices.DeleteFunc(entries, func(e entry) bool { return e.seqNext <= q.atSeq })
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	g.mu.Lock()
	r := &reader{path: g.path("log"), size: g.size, marks: g.marks[:len(g.marks):len(g.marks)], lo: lo, hi: hi,
		backward: q.backward, share: g.own, reuse: q.begin != nil}
	collected := g.collected
	g.mu.Unlock()
	if !collected.IsZero() {
		r.gaps(entries, collected)
		return r, nil
	}
	r.want = make(map[uint32]*entry, len(entries))
	from, to := entries[0].from, entries[0].to
	r.first, r.last = entries[0].first, entries[0].last
	for i := range entries {
		e := &entries[i]
		r.want[e.local] = e
		from, to = min(from, e.from), max(to, e.to)
		r.first, r.last = min(r.first, e.first), max(r.last, e.last)
	}
	r.span(from, to)
	return r, nil
}

// span chooses the blocks between two offsets that can hold lines in (lo, hi].
func (r *reader) span(from, to int64) {
	at := func(f func(m mark) bool) int {
		return max(0, sort.Search(len(r.marks), func(i int) bool { return f(r.marks[i]) }))
	}
	low := max(at(func(m mark) bool { return m.offset > from }), at(func(m mark) bool { return m.pos > r.lo+1 })) - 1
	high := min(at(func(m mark) bool { return m.offset >= to }), at(func(m mark) bool { return m.pos > r.hi }))
	low = max(low, 0)
	if r.backward {
		r.block, r.end = high-1, low-1
	} else {
		r.block, r.end = low, max(high, low)
	}
}

// gaps makes the lines of a collected segment: one gap per source.
func (r *reader) gaps(entries []entry, at time.Time) {
	for i := range entries {
		e := &entries[i]
		if e.last <= r.lo || e.last > r.hi {
			continue
		}
		g := &Gap{Reason: Collected, At: at, AtMost: e.first <= r.lo,
			Bytes: int64(e.cum() - e.cumStart), Lines: int64(e.seqNext - e.seqStart)}
		r.lines = append(r.lines, Line{Position: e.last, Time: time.Unix(0, e.maxTime).UTC(), Seq: e.seqNext - 1,
			Source: e.source, Gap: g,
			start: mileage{e.cumStart, e.seqStart - 1}, end: e.cum()})
	}
	slices.SortFunc(r.lines, func(a, b Line) int { return cmp.Compare(a.Position, b.Position) })
	r.reverse()
}

func (r *reader) reverse() {
	if r.backward {
		slices.Reverse(r.lines)
	}
}

// peek is the next line; nil at the end.
func (r *reader) peek() (*Line, error) {
	for r.at >= len(r.lines) {
		if r.block == r.end {
			return nil, nil
		}
		k := r.block
		if r.backward {
			r.block--
		} else {
			r.block++
		}
		if err := r.load(k); err != nil {
			return nil, err
		}
	}
	return &r.lines[r.at], nil
}

func (r *reader) close() {
	if r.file != nil {
		_ = r.file.Close() // read only
	}
}

// load reads block k.
func (r *reader) load(k int) error {
	if r.file == nil {
		f, err := os.Open(r.path)
		if err != nil {
			return err
		}
		r.file = f
	}
	from, to, after := r.marks[k].offset, r.size, r.last+1
	if k+1 < len(r.marks) {
		to, after = r.marks[k+1].offset, r.marks[k+1].pos
	}
	if !r.reuse || int64(cap(r.buf)) < to-from {
		r.buf = make([]byte, to-from)
	}
	b := r.buf[:to-from]
	n, err := r.file.ReadAt(b, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read output: %w", err)
	}
	r.lines, r.at = r.lines[:0], 0
	p := parser{r: r}
	if left := p.parse(b[:n]); left > 0 || n < len(b) {
		p.damage(left+len(b)-n, after)
	}
	r.reverse()
	return nil
}
