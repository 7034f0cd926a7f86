package logstore

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Place is a place in the merged output of several cells: per cell a cursor of
// its store. A cell that is not in it is read from where its query begins.
type Place map[string]string

// Cursor encodes it as one opaque cursor.
func (p Place) Cursor() string {
	b := []byte{placeVersion}
	for _, cell := range slices.Sorted(maps.Keys(p)) {
		pos, err := parseCursor(p[cell])
		if err != nil || p[cell] == "" {
			continue
		}
		b = binary.BigEndian.AppendUint64(appendText(b, cell), uint64(pos))
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

const placeVersion = 2

// ParsePlace parses a result of Place.Cursor; empty is the empty place. ErrCursor.
func ParsePlace(cursor string) (Place, error) {
	p := Place{}
	if cursor == "" {
		return p, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(b) == 0 || b[0] != placeVersion {
		return nil, fmt.Errorf("%w: %q", ErrCursor, cursor)
	}
	d := decoder{b: b[1:]}
	for len(d.b) > 0 {
		cell := d.text()
		if d.err != nil || len(d.b) < 8 {
			return nil, fmt.Errorf("%w: %q", ErrCursor, cursor)
		}
		p[cell] = formatCursor(Position(binary.BigEndian.Uint64(d.b)))
		d.b = d.b[8:]
	}
	return p, nil
}

// Forget removes cells without output, except the newest keep of them, once p names more than keep
// and one for each holder: so it stays small while cells change. A removed cell that returns is
// read from the beginning of its query.
func (p Place) Forget(holders []string, keep int) {
	if len(p) <= len(holders)+keep {
		return
	}
	gone := maps.Clone(p)
	for _, cell := range holders {
		delete(gone, cell)
	}
	newest := slices.SortedFunc(maps.Keys(gone), func(a, b string) int {
		x, _ := parseCursor(p[a]) // an invalid cursor counts as the oldest
		y, _ := parseCursor(p[b])
		return cmp.Or(cmp.Compare(y, x), cmp.Compare(a, b))
	})
	for _, cell := range newest[min(keep, len(newest)):] {
		delete(p, cell)
	}
}

// Cursor is the place after the line in its own store.
func (l Line) Cursor() string { return l.Position.Cursor() }

// Cursor is the place after a position.
func (p Position) Cursor() string { return formatCursor(p) }

// Part is the answer of one cell: a Page (only its exported fields count), or the
// error that was met on the way to it.
type Part struct {
	Cell string
	Page Page
	Err  error
}

// CellLine is a line and where it was written.
type CellLine struct {
	Cell string
	Line
}

// Merged is a page over several cells, in the order of (position, cell).
type Merged struct {
	Lines      []CellLine
	Prev, Next Place
	More       bool
	// Missing are the cells that did not answer; their places are unchanged, so that later pages
	// include their output.
	Missing []string
}

// Merge makes one page of at most limit lines (0 = 1000) from the answers of several cells to one
// query, each from its place in from. Lines that do not fit, or that a cell with more output may
// still precede, are left for the next page. It is exact in both directions while the clocks of
// the cells agree; otherwise lines of different cells may be out of order, but none is lost or
// duplicated. ErrCursor if a page has an invalid cursor.
func Merge(from Place, backward bool, limit int, parts []Part) (Merged, error) {
	if limit <= 0 {
		limit = defaultLimit
	}
	m := Merged{Prev: maps.Clone(from), Next: maps.Clone(from)}
	if m.Prev == nil {
		m.Prev, m.Next = Place{}, Place{}
	}
	horizon, err := findHorizon(backward, parts)
	if err != nil {
		return Merged{}, err
	}
	total := 0
	for _, p := range parts {
		if p.Err != nil {
			m.Missing = append(m.Missing, p.Cell)
			continue
		}
		total += len(p.Page.Lines)
		m.More = m.More || p.Page.More
		for _, l := range p.Page.Lines {
			if backward && l.Position > horizon || !backward && l.Position <= horizon {
				m.Lines = append(m.Lines, CellLine{p.Cell, l})
			}
		}
	}
	slices.SortStableFunc(m.Lines, func(a, b CellLine) int {
		return cmp.Or(cmp.Compare(a.Position, b.Position), cmp.Compare(a.Cell, b.Cell))
	})
	if extra := len(m.Lines) - limit; extra > 0 && backward {
		m.Lines = m.Lines[extra:]
	} else if extra > 0 {
		m.Lines = m.Lines[:limit]
	}
	m.More = m.More || len(m.Lines) < total
	m.place(backward, parts)
	slices.Sort(m.Missing)
	return m, nil
}

// findHorizon is the place beyond which a cell that has more to come may still have lines.
func findHorizon(backward bool, parts []Part) (Position, error) {
	horizon := Position(math.MaxUint64)
	if backward {
		horizon = 0
	}
	for _, p := range parts {
		if p.Err != nil || !p.Page.More {
			continue
		}
		cursor := p.Page.Next
		if backward {
			cursor = p.Page.Prev
		}
		pos, err := parseCursor(cursor)
		if err != nil {
			return 0, fmt.Errorf("page of cell %s: %w", p.Cell, err)
		}
		if backward {
			horizon = max(horizon, pos)
		} else {
			horizon = min(horizon, pos)
		}
	}
	return horizon, nil
}

// place sets where each cell's lines of this page begin and end.
func (m *Merged) place(backward bool, parts []Part) {
	first, last, count := map[string]Position{}, map[string]Position{}, map[string]int{}
	for _, l := range m.Lines {
		if count[l.Cell] == 0 {
			first[l.Cell] = l.Position
		}
		last[l.Cell] = l.Position
		count[l.Cell]++
	}
	for _, p := range parts {
		if p.Err != nil {
			continue
		}
		prev, next := p.Page.Prev, p.Page.Next
		switch n := count[p.Cell]; {
		case n == len(p.Page.Lines): // all of them: the cell knows best
		case backward && n == 0:
			prev = next
		case backward:
			prev = formatCursor(first[p.Cell] - 1)
		case n == 0:
			next = prev
		default:
			next = formatCursor(last[p.Cell])
		}
		m.Prev[p.Cell], m.Next[p.Cell] = prev, next
	}
}
