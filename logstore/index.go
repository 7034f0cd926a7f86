package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"sort"
)

// indexHead is where the parts of an index file are.
type indexHead struct {
	rows int
	sum  uint32
	body int64 // offset of the table
}

// readHead loads the head of g's index into g.
func (g *segment) readHead(f *os.File) (indexHead, error) {
	fixed := make([]byte, indexHeadFrom)
	if _, err := f.ReadAt(fixed, 0); err != nil {
		return indexHead{}, err
	}
	size := binary.LittleEndian.Uint32(fixed[8:])
	info, err := f.Stat()
	if err != nil {
		return indexHead{}, err
	}
	if string(fixed[:8]) != indexMagic || int64(size) > info.Size() {
		return indexHead{}, errFormat
	}
	head := make([]byte, size)
	if _, err := f.ReadAt(head, int64(indexHeadFrom)); err != nil {
		return indexHead{}, err
	}
	if crc32.Checksum(head, castagnoli) != binary.LittleEndian.Uint32(fixed[12:]) {
		return indexHead{}, errFormat
	}
	d := decoder{b: head}
	g.size = int64(d.number())
	g.first, g.last = Position(d.number()), Position(d.number())
	g.minTime, g.maxTime = int64(d.number()), int64(d.number())
	h := indexHead{rows: int(d.number()), sum: uint32(d.number()), body: int64(indexHeadFrom) + int64(size)}
	g.marks = make([]mark, 0, 4)
	for range d.number() {
		if d.err != nil {
			return h, d.err
		}
		g.marks = append(g.marks, mark{int64(d.number()), Position(d.number())})
	}
	g.unended = nil
	for range d.number() {
		if d.err != nil {
			return h, d.err
		}
		g.unended = append(g.unended, key{d.text(), d.text()})
	}
	g.filter = append(filter(nil), d.bytes()...)
	g.index, g.sealed = info.Size(), true
	return h, d.err
}

// readEntries decodes all entries; the index is checked as a whole.
func readEntries(f *os.File, h indexHead, keep func(*entry) bool) ([]*entry, error) {
	body, err := io.ReadAll(io.NewSectionReader(f, h.body, 1<<40))
	if err != nil {
		return nil, err
	}
	if crc32.Checksum(body, castagnoli) != h.sum || len(body) < h.rows*tableRowSize {
		return nil, errFormat
	}
	d := decoder{b: body[h.rows*tableRowSize:]}
	var all []*entry
	for range h.rows {
		e := d.fullEntry()
		if d.err != nil {
			return nil, d.err
		}
		if keep(e) {
			all = append(all, e)
		}
	}
	return all, nil
}

// findEntries decodes the entries of one id.
func findEntries(f *os.File, h indexHead, id string) ([]*entry, error) {
	var fail error
	row := func(i int) tableRow {
		var b [tableRowSize]byte
		if _, err := f.ReadAt(b[:], h.body+int64(i)*tableRowSize); err != nil {
			fail = errors.Join(fail, err)
		}
		return tableRow{binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint32(b[8:])}
	}
	want := idHash(id)
	var found []*entry
	for i := sort.Search(h.rows, func(i int) bool { return row(i).hash >= want }); i < h.rows && fail == nil; i++ {
		r := row(i)
		if r.hash != want {
			break
		}
		e, err := entryAt(f, h.body+int64(h.rows)*tableRowSize+int64(r.at))
		if err != nil {
			return nil, err
		}
		if e.source.ID == id {
			found = append(found, e)
		}
	}
	return found, fail
}

// entryAt decodes one entry.
func entryAt(f *os.File, at int64) (*entry, error) {
	var head [entryHead]byte
	if _, err := f.ReadAt(head[:], at); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(head[:])
	if size > mib {
		return nil, errFormat
	}
	b := make([]byte, entryHead+size)
	if _, err := f.ReadAt(b, at); err != nil {
		return nil, err
	}
	d := decoder{b: b}
	return d.fullEntry(), d.err
}

// matching returns the entries of g that match q; the copies are the caller's. An unreadable index
// is rebuilt from the data.
func (g *segment) matching(q *query) ([]entry, error) {
	if out, ok := g.inMemory(q); ok {
		return out, nil
	}
	found, err := g.onDiskMatching(q)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && g.gone().IsZero() {
		fresh := &segment{id: g.id, own: g.own, dir: g.dir, entries: map[string][]*entry{}}
		if _, _, bad := fresh.scan(); bad != nil {
			return nil, errors.Join(err, bad)
		}
		g.mu.Lock()
		g.entries, g.order = fresh.entries, fresh.order
		g.mu.Unlock()
		out, _ := g.inMemory(q)
		return out, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read output index %x: %w", g.id, err)
	}
	var out []entry
	for _, e := range found {
		if e.first != 0 && q.wants(e.source) {
			out = append(out, *e)
		}
	}
	return out, nil
}

func (g *segment) onDiskMatching(q *query) ([]*entry, error) {
	f, err := os.Open(g.path("idx"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	var on segment
	h, err := on.readHead(f)
	if err != nil {
		return nil, err
	}
	if q.ids == nil || len(q.ids) > 16 {
		return readEntries(f, h, func(e *entry) bool { return q.wants(e.source) })
	}
	var all []*entry
	for id := range q.ids {
		found, err := findEntries(f, h, id)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// inMemory answers from memory; false when the index is only on disk.
func (g *segment) inMemory(q *query) (out []entry, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.entries == nil {
		return nil, false
	}
	take := func(es []*entry) {
		for _, e := range es {
			if e.first != 0 && q.wants(e.source) {
				out = append(out, *e)
			}
		}
	}
	if q.ids == nil {
		take(g.order)
		return out, true
	}
	for id := range q.ids {
		take(g.entries[id])
	}
	return out, true
}
