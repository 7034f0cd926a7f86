package logstore

import (
	"container/heap"
	"context"
	"slices"
	"sort"
	"time"
)

// candidate is a segment that may hold wanted lines, with its bounds when it was looked at.
type candidate struct {
	*segment
	from, to Position
}

func (g *segment) mayHold(q *query, lo, hi Position) (candidate, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := candidate{g, g.first, g.last}
	if g.first == 0 || g.last <= lo || g.first > hi || g.maxTime < q.since || g.minTime >= q.until {
		return c, false
	}
	if g.own {
		return c, q.wants(g.owner)
	}
	return c, !g.sealed || g.filter == nil || q.mayHold(g.filter)
}

func (g *segment) gone() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.collected
}

// merger is a heap of readers by their next line.
type merger struct {
	readers  []*reader
	backward bool
}

func (m *merger) Len() int { return len(m.readers) }
func (m *merger) Less(i, j int) bool {
	a, b := m.readers[i].lines[m.readers[i].at].Position, m.readers[j].lines[m.readers[j].at].Position
	return (a < b) != m.backward && a != b
}
func (m *merger) Swap(i, j int) { m.readers[i], m.readers[j] = m.readers[j], m.readers[i] }
func (m *merger) Push(x any)    { m.readers = append(m.readers, x.(*reader)) }
func (m *merger) Pop() any {
	r := m.readers[len(m.readers)-1]
	m.readers = m.readers[:len(m.readers)-1]
	return r
}

// add takes r in when it has a line.
func (m *merger) add(r *reader) error {
	l, err := r.peek()
	if err != nil || l == nil {
		r.close()
		return err
	}
	heap.Push(m, r)
	return nil
}

// advance drops the smallest line.
func (m *merger) advance() error {
	r := m.readers[0]
	r.at++
	l, err := r.peek()
	if err != nil {
		return err
	}
	if l == nil {
		r.close()
		heap.Pop(m)
		return nil
	}
	heap.Fix(m, 0)
	return nil
}

func (m *merger) close() {
	for _, r := range m.readers {
		r.close()
	}
}

// tryPage reads a page, or fails with fs.ErrNotExist when a segment went meanwhile.
func (st *Store) tryPage(ctx context.Context, q *query) (Page, error) {
	visible, err := st.pos.resolved(ctx) // before the segments are looked at: all up to here is in them
	if err != nil {
		return Page{}, err
	}
	lo, hi := q.from, visible
	if q.backward {
		lo, hi = 0, min(q.from, visible)
	}
	waiting := st.dir.candidates(q, lo, hi)
	sort.SliceStable(waiting, func(i, j int) bool { return waiting[i].before(waiting[j], q.backward) })
	m := &merger{backward: q.backward}
	defer func() { m.close() }()
	c := collector{q: q, seen: map[key]*mileage{}, page: Page{prev: q.from, next: max(q.from, visible)}}
	if q.begin != nil {
		c.add = q.begin(sizeHint(waiting, q.maxBytes))
	}
	if q.backward {
		c.page.next, c.page.prev = hi, 0
	}
	for {
		for len(waiting) > 0 && (m.Len() == 0 || waiting[0].reaches(m.readers[0].lines[m.readers[0].at].Position,
			q.backward)) {
			g := waiting[0]
			waiting = waiting[1:]
			r, err := g.open(q, lo, hi)
			if err == nil && r != nil {
				err = m.add(r)
			}
			if err != nil {
				return Page{}, err
			}
		}
		if m.Len() == 0 {
			return c.finish(false), ctx.Err()
		}
		if err := ctx.Err(); err != nil {
			return Page{}, err
		}
		r := m.readers[0]
		if c.take(&r.lines[r.at], r.share) {
			if err := m.advance(); err != nil {
				return Page{}, err
			}
			continue
		}
		return c.finish(true), nil
	}
}

// sizeHint is about how much text a page of these segments has at most.
func sizeHint(segments []candidate, most int) int {
	n := int64(0)
	for _, g := range segments {
		g.mu.Lock()
		n += g.size
		g.mu.Unlock()
	}
	return int(min(n, int64(most)))
}

// before orders segments by where their lines begin, in the direction of reading.
func (c candidate) before(o candidate, backward bool) bool {
	if backward {
		return c.to > o.to
	}
	return c.from < o.from
}

// reaches reports whether c may have a line before p.
func (c candidate) reaches(p Position, backward bool) bool {
	if backward {
		return c.to >= p
	}
	return c.from <= p
}

// collector fills a page.
type collector struct {
	q       *query
	page    Page
	add     func(*Line) // takes lines instead of page.Lines; nil = not
	lines   int
	any     bool
	bytes   int
	scanned int
	first   Position // of the lines that are wanted; 0 = none yet
	last    Position
	seen    map[key]*mileage
	source  *Source  // of the last line
	behind  *mileage // its entry in seen
}

// take looks at a line; false, and the line is not looked at, when the page is full.
func (c *collector) take(l *Line, share bool) bool {
	if c.lines >= c.q.limit || c.bytes > 0 && c.bytes+len(l.Data) > c.q.maxBytes || c.scanned > pageScanBytes {
		return false
	}
	c.last, c.any = l.Position, true
	c.scanned += len(l.Data) + 16
	wanted := c.q.accepts(l)
	if !c.q.backward && l.Seq != 0 {
		wanted = c.pass(l) && wanted
	}
	if !wanted {
		return true
	}
	if c.first == 0 {
		c.first = l.Position
	}
	c.lines++
	c.bytes += len(l.Data)
	if c.add != nil {
		c.add(l)
		return true
	}
	c.page.Lines = append(c.page.Lines, *l)
	if !share {
		n := &c.page.Lines[len(c.page.Lines)-1]
		n.Data = append([]byte(nil), n.Data...)
	}
	return true
}

// pass records how far the source is read. Of a collected part it leaves only the unread amount;
// false if there is none.
func (c *collector) pass(l *Line) bool {
	known := true
	if l.Source != c.source {
		c.source, c.behind = l.Source, c.seen[l.Source.key()]
		if c.behind == nil {
			var had mileage
			had, known = c.q.seen[l.Source.key()]
			c.behind = &had
			c.seen[l.Source.key()] = c.behind
		}
	}
	had := *c.behind
	*c.behind = mileage{l.end, l.Seq}
	if l.Gap == nil || l.Gap.Reason != Collected || !known {
		return true
	}
	g := *l.Gap
	l.Gap = &g
	g.AtMost = false
	g.Bytes = int64(l.end - min(l.end, max(l.start.cum, had.cum)))
	g.Lines = int64(l.Seq - min(l.Seq, max(l.start.seq, had.seq)))
	return g.Bytes > 0 || g.Lines > 0
}

func (c *collector) finish(more bool) Page {
	p := &c.page
	p.More = more
	if c.q.seen != nil {
		for k, m := range c.seen {
			c.q.seen[k] = *m
		}
	}
	if more && c.q.backward {
		p.prev = c.last - 1
	}
	if more && !c.q.backward {
		p.next = c.last
	}
	if c.q.backward {
		slices.Reverse(p.Lines)
	} else if c.first > 0 {
		p.prev = c.first - 1
	}
	return *p
}
