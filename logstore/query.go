package logstore

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"regexp"
	"slices"
	"time"

	pb "cantina/wire/cantinav1"
)

// Query selects lines. Empty fields match everything.
type Query struct {
	IDs     []string          // container ids, any of them
	Except  []string          // container ids, none of them
	Labels  map[string]string // all of them
	Attempt string
	Streams []Stream
	// Since is inclusive, Until exclusive; by the lines' wall clock.
	Since, Until time.Time
	// Match must be found in a line's text; gaps always match.
	Match *regexp.Regexp
	// AtSeq skips lines with a lower Seq: a jump to a line number of one source.
	AtSeq uint64

	// Cursor is a place between two lines, from Page.Next or Page.Prev. A page holds
	// the lines after it, or with Backward those before it. Empty = the oldest line,
	// with Backward the newest: Backward without a cursor is "the last Limit lines".
	Cursor   string
	Backward bool
	// Limit bounds the lines of a page; 0 = 1000.
	Limit int
	// MaxBytes bounds the text of a page, but a page always has one line; 0 = 8 MiB.
	MaxBytes int
	// UntilEnd lets Follow return when all wanted sources have ended.
	UntilEnd bool
}

// Page is the answer to a Query: lines in the order of their positions, in either direction.
type Page struct {
	Lines []Line
	// Prev and Next are the places before the first and after the last line that was
	// looked at; paging on from either is exact in both directions.
	Prev, Next string
	// More: there may be more lines in the direction of the query. A page may be short,
	// even empty, with More set, when very much was looked at and did not match.
	More bool

	prev, next Position
}

const (
	defaultLimit  = 1000
	pageBytes     = 8 * mib  // of text in one page, but always one line
	pageScanBytes = 64 * mib // of text looked at for one page
)

// query is a Query made ready.
type query struct {
	ids      map[string]bool // nil = all
	except   []string
	labels   map[string]string
	attempt  string
	streams  [streams]bool
	since    int64
	until    int64
	match    *regexp.Regexp
	atSeq    uint64
	from     Position
	backward bool
	limit    int
	maxBytes int
	seen     map[key]mileage // how far each source was read; nil = not kept
	// begin is called when a page is begun, also again, and returns the receiver of its lines, each
	// valid during the call; nil = they are collected in Page.Lines. size is the approximate amount
	// of text.
	begin func(size int) func(*Line)
}

// mileage is how much of a source lies behind a reader.
type mileage struct{ cum, seq uint64 }

func (q Query) compile() (*query, error) {
	c := &query{except: q.Except, labels: q.Labels,
		attempt: q.Attempt, match: q.Match, atSeq: q.AtSeq, backward: q.Backward, limit: q.Limit,
		maxBytes: q.MaxBytes, since: math.MinInt64, until: math.MaxInt64}
	if len(q.IDs) > 0 {
		c.ids = make(map[string]bool, len(q.IDs))
		for _, id := range q.IDs {
			c.ids[id] = true
		}
	}
	for i := range c.streams {
		c.streams[i] = len(q.Streams) == 0
	}
	for _, s := range q.Streams {
		if s < streams {
			c.streams[s] = true
		}
	}
	if !q.Since.IsZero() {
		c.since = q.Since.UnixNano()
	}
	if !q.Until.IsZero() {
		c.until = q.Until.UnixNano()
	}
	if c.since >= c.until {
		return nil, fmt.Errorf("output query from %v to %v: %w", q.Since, q.Until, ErrRange)
	}
	if c.limit <= 0 {
		c.limit = defaultLimit
	}
	if c.maxBytes <= 0 {
		c.maxBytes = pageBytes
	}
	var err error
	c.from, err = parseCursor(q.Cursor)
	if q.Cursor == "" && q.Backward {
		c.from = math.MaxUint64
	}
	return c, err
}

// wants reports whether the lines of s match at all.
func (q *query) wants(s *Source) bool {
	if q.ids != nil && !q.ids[s.ID] || q.attempt != "" && q.attempt != s.Attempt {
		return false
	}
	if slices.Contains(q.except, s.ID) {
		return false
	}
	for k, v := range q.labels {
		if got, ok := s.Labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// accepts reports whether a line of a matching source matches.
func (q *query) accepts(l *Line) bool {
	t := l.Time.UnixNano()
	if !q.streams[l.Stream] && (l.Gap == nil || l.Gap.Reason != Collected) || t < q.since || t >= q.until ||
		l.Seq < q.atSeq {
		return false
	}
	return l.Gap != nil || q.match == nil || q.match.Match(l.Data)
}

// mayHold reports whether a matching source may be in a sealed segment, according to its filter.
func (q *query) mayHold(f filter) bool {
	for k, v := range q.labels {
		if !f.has(labelHash(k, v)) {
			return false
		}
	}
	if q.ids == nil {
		return true
	}
	for id := range q.ids {
		if f.has(idHash(id)) {
			return true
		}
	}
	return false
}

const cursorVersion = 1

func formatCursor(p Position) string {
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64([]byte{cursorVersion}, uint64(p)))
}

func parseCursor(s string) (Position, error) {
	if s == "" {
		return 0, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != 9 || b[0] != cursorVersion {
		return 0, fmt.Errorf("%w: %q", ErrCursor, s)
	}
	return Position(binary.BigEndian.Uint64(b[1:])), nil
}

// Query reads one page. ErrCursor, ErrRange, ctx's error, or an error of the disk.
func (st *Store) Query(ctx context.Context, q Query) (Page, error) {
	plan, err := q.compile()
	if err != nil {
		return Page{}, err
	}
	return st.page(ctx, plan)
}

// QueryPacked is Query with the lines in columns, as lines of a cell; Page.Lines is empty.
func (st *Store) QueryPacked(ctx context.Context, q Query, cell string) (*pb.LogLines, Page, error) {
	if q.Backward {
		page, err := st.Query(ctx, q)
		m := Pack(cell, page.Lines)
		page.Lines = nil
		return m, page, err
	}
	plan, err := q.compile()
	if err != nil {
		return nil, Page{}, err
	}
	var c *columns
	plan.begin = func(size int) func(*Line) {
		c = newColumns(size/64, size)
		return func(l *Line) { c.add(cell, l) }
	}
	page, err := st.page(ctx, plan)
	if err != nil {
		return nil, Page{}, err
	}
	return c.m, page, nil
}

// maxTries bounds planning again, for a directory from which an unknown process removes files.
const maxTries = 100

// page reads one page. If a segment is collected between planning and opening, it plans again:
// then the loss is known and reported as a gap.
func (st *Store) page(ctx context.Context, q *query) (Page, error) {
	for try := 0; ; try++ {
		p, err := st.tryPage(ctx, q)
		if errors.Is(err, fs.ErrNotExist) && ctx.Err() == nil && try < maxTries {
			continue
		}
		if err == nil {
			p.Prev, p.Next = formatCursor(p.prev), formatCursor(p.next)
		}
		return p, err
	}
}

// Summary describes the store's output of one source.
type Summary struct {
	Source *Source
	Live   bool // a writer is open
	// FirstSeq is the oldest readable line, NextSeq the next one.
	FirstSeq, NextSeq uint64
	Bytes             int64 // raw output that can be read
	Missing           int64 // raw output that was collected
	First, Last       time.Time
}

// Sources sums up the sources that q wants (IDs, Labels, Attempt and times alone
// count), in no particular order; sources that never wrote are not known.
func (st *Store) Sources(ctx context.Context, q Query) ([]Summary, error) {
	plan, err := q.compile()
	if err != nil {
		return nil, err
	}
	plan.from = 0
	sums, at := []Summary(nil), map[key]int{}
	for _, g := range st.dir.candidates(plan, 0, math.MaxUint64) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		entries, err := g.matching(plan)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		gone := g.gone()
		for i := range entries {
			e := &entries[i]
			n, ok := at[e.source.key()]
			if !ok {
				n = len(sums)
				at[e.source.key()] = n
				sums = append(sums, Summary{Source: e.source, FirstSeq: e.seqNext, First: time.Unix(0, e.minTime).UTC()})
			}
			sums[n].count(e, gone)
		}
	}
	for i := range sums {
		sums[i].Live = st.sources.isLive(sums[i].Source.key())
	}
	return sums, nil
}

func (s *Summary) count(e *entry, gone time.Time) {
	n := int64(e.cum() - e.cumStart)
	s.NextSeq = max(s.NextSeq, e.seqNext)
	if last := time.Unix(0, e.maxTime).UTC(); last.After(s.Last) {
		s.Last = last
	}
	if !gone.IsZero() {
		s.Missing += n
		return
	}
	if s.Bytes == 0 {
		s.FirstSeq = e.seqStart
	}
	s.FirstSeq = min(s.FirstSeq, e.seqStart)
	s.Bytes += n
}
