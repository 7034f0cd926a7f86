package logstore

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// mark is a place in a segment where reading may begin: a chunk's first byte at
// which no line is half written, with the position of the next line.
type mark struct {
	offset int64
	pos    Position
}

// markEvery is the distance between two marks in bytes.
const markEvery = 256 * kib

// segment is one file of chunks. Its appender is the holder of the mutex of the sharedLog (shared)
// or of the only source (own).
type segment struct {
	id    uint64
	own   bool
	owner *Source // of an own segment
	dir   string

	file *os.File // the appender's; nil when not active
	room int64    // bytes from the beginning that the file system keeps for it; the appender's
	free bool     // the file system keeps none

	mu          sync.Mutex
	size        int64
	first, last Position
	minTime     int64
	maxTime     int64
	marks       []mark
	entries     map[string][]*entry // by id; nil when they are only in the index on disk
	order       []*entry
	sealed      bool
	collected   time.Time // when the data were removed; zero = they are there
	filter      filter    // sealed only
	unended     []key     // sources that had not ended when the segment was sealed
	index       int64     // size of the index file
}

func (g *segment) path(ext string) string {
	sort := "s"
	if g.own {
		sort = "o"
	}
	return filepath.Join(g.dir, fmt.Sprintf("%016x.%s.%s", g.id, sort, ext))
}

// onDisk is the size of the data, 0 when they were removed, and of the index.
func (g *segment) onDisk() (data, index int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.collected.IsZero() {
		data = g.size
	}
	return data, g.index
}

func createSegment(dir string, id uint64, owner *Source) (*segment, error) {
	g := &segment{id: id, own: owner != nil, owner: owner, dir: dir, entries: map[string][]*entry{}}
	f, err := os.OpenFile(g.path("log"), os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o640)
	if err != nil {
		return nil, err
	}
	if _, err := f.WriteString(segmentMagic); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(g.path("log")))
	}
	g.file, g.size = f, int64(len(segmentMagic))
	if err := g.reserve(g.size + g.tail()); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(g.path("log")))
	}
	return g, nil
}

// On a full disk, the last records of a source are the amount of its missing output and its end. A
// segment reserves space for that: shared ones for many sources.
const (
	ownTail    = 4 * kib
	sharedTail = 64 * kib
	// reserveStep is the space that is reserved at a time.
	reserveStep = 256 * kib
)

func (g *segment) tail() int64 {
	if g.own {
		return ownTail
	}
	return sharedTail
}

// reserve has the file system keep the first bytes of the segment for it, up to a number. Where
// it cannot do that, nothing is kept and nothing is wrong.
func (g *segment) reserve(to int64) error {
	if g.free || to <= g.room {
		return nil
	}
	err := unix.EINTR
	for err == unix.EINTR {
		err = asErrno(unix.Fallocate(int(g.file.Fd()), unix.FALLOC_FL_KEEP_SIZE, g.room, to-g.room))
	}
	switch err {
	case 0:
		g.room = to
	case unix.ENOSPC, unix.EDQUOT, unix.EIO:
		return err
	default:
		g.free = true
	}
	return nil
}

func asErrno(err error) unix.Errno {
	if err == nil {
		return 0
	}
	if e, ok := err.(unix.Errno); ok {
		return e
	}
	return unix.EINVAL
}

// makeRoom refuses a record that would use the space reserved for the final records of sources.
func (g *segment) makeRoom(n int64, last bool) error {
	if last {
		return nil
	}
	want := g.size + n + g.tail()
	if want <= g.room || g.free {
		return nil
	}
	if g.reserve(want+reserveStep) == nil {
		return nil
	}
	return g.reserve(want)
}

// giveBack gives the room back that the segment did not need.
func (g *segment) giveBack() {
	if g.room > g.size { // space that is not returned is freed with the file
		_ = unix.Fallocate(int(g.file.Fd()), unix.FALLOC_FL_KEEP_SIZE|unix.FALLOC_FL_PUNCH_HOLE, g.size, g.room-g.size)
	}
}

// batch is one chunk to be appended. chunk has headerSize free bytes in front.
type batch struct {
	kind  kind
	chunk []byte
	lines int
	raw   [streams]uint64
	at    time.Time
	clean bool // no line of the source is half written where the chunk begins
	last  bool // how much is missing, or the end: it may take the room that is kept for that
}

// append writes b for source s as one system call and returns the bytes it took on disk. On an
// error the file is unchanged. It runs outside g.mu: only the appender changes size, and readers
// use the values published at its end.
func (g *segment) append(s *source, b batch) (int64, error) {
	e, known := s.entry, s.seg == g
	var intro []byte
	if !known {
		e = &entry{local: uint32(len(g.order)), source: s.info, seqStart: s.seq, seqNext: s.seq, cums: s.cums, from: g.size}
		e.cumStart = e.cum()
		intro = introduce(e)
	}
	h := header{kind: b.kind, src: e.local, size: len(b.chunk) - headerSize, time: b.at.UnixNano(), seq: s.seq,
		cum: e.cum()}
	h.sum = crc32.Checksum(b.chunk[headerSize:], castagnoli)
	if b.lines > 0 {
		h.pos = s.st.pos.begin(b.lines, b.at)
		defer func() {
			if s.st.pos.end(h.pos) {
				s.st.followers.wake(nil)
			}
		}()
	}
	h.put(b.chunk)
	out := b.chunk
	if intro != nil {
		out = append(intro, b.chunk...)
	}
	if err := g.makeRoom(int64(len(out)), b.last); err != nil {
		return 0, fmt.Errorf("append to output segment %x: %w", g.id, err)
	}
	if n, err := g.file.Write(out); err != nil {
		if n > 0 {
			err = errors.Join(err, g.file.Truncate(g.size))
			g.room = g.size // the space reserved beyond is freed with that
		}
		return 0, fmt.Errorf("append to output segment %x: %w", g.id, err)
	}
	g.publish(e, !known, h, b, int64(len(out)))
	s.entry, s.seg = e, g
	s.st.dir.total.Add(int64(len(out)))
	return int64(len(out)), nil
}

func introduce(e *entry) []byte {
	b := appendSource(make([]byte, headerSize, 512), e)
	h := header{kind: kindSource, src: e.local, size: len(b) - headerSize, sum: crc32.Checksum(b[headerSize:], castagnoli)}
	h.put(b)
	return b
}

// publish makes an appended chunk known to readers.
func (g *segment) publish(e *entry, fresh bool, h header, b batch, written int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if fresh {
		g.entries[e.source.ID] = append(g.entries[e.source.ID], e)
		g.order = append(g.order, e)
	}
	g.note(e, h, b.lines, b.raw, g.size, g.size+written, b.clean)
	g.size += written
}

// note counts a chunk at [from, to) in the segment's index; g.mu is held or g not shared yet.
func (g *segment) note(e *entry, h header, lines int, raw [streams]uint64, from, to int64, clean bool) {
	for i, n := range raw {
		e.cums[i] += n
	}
	e.to = to
	e.seqNext += uint64(lines)
	e.ended = h.kind == kindEnd
	if lines == 0 {
		return
	}
	last := h.pos + Position(lines) - 1
	if e.first == 0 {
		e.first, e.minTime, e.maxTime = h.pos, h.time, h.time
	}
	if g.first == 0 {
		g.first, g.minTime, g.maxTime = h.pos, h.time, h.time
		g.marks = append(g.marks, mark{int64(len(segmentMagic)), h.pos})
	} else if clean && from-g.marks[len(g.marks)-1].offset >= markEvery {
		g.marks = append(g.marks, mark{from, h.pos})
	}
	e.last, g.last = last, last
	e.minTime, e.maxTime = min(e.minTime, h.time), max(e.maxTime, h.time)
	g.minTime, g.maxTime = min(g.minTime, h.time), max(g.maxTime, h.time)
}

const indexMagic = "cantidx1"

// writeIndex puts the index of a segment that gets no more chunks beside it.
//
//	magic, size and checksum of the head, head, table, entries
//
// The head is all that a running store keeps in memory; the table finds an entry
// by the hash of its id; entries end the file.
func (g *segment) writeIndex() error {
	entries, table, keys := []byte(nil), make([]tableRow, 0, len(g.order)), map[uint64]bool{}
	g.unended = nil
	for _, e := range g.order {
		h := idHash(e.source.ID)
		table = append(table, tableRow{h, uint32(len(entries))})
		entries = appendEntry(entries, e)
		keys[h] = true
		for k, v := range e.source.Labels {
			keys[labelHash(k, v)] = true
		}
		if !e.ended && e.first != 0 { // one without a line may be a torn beginning: its data is elsewhere
			g.unended = append(g.unended, e.source.key())
		}
	}
	slices.SortFunc(table, func(a, b tableRow) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.at, b.at)) })
	g.filter = newFilter(len(keys))
	for h := range keys {
		g.filter.fill(h)
	}
	body := make([]byte, 0, len(table)*tableRowSize+len(entries))
	for _, r := range table {
		body = binary.LittleEndian.AppendUint64(body, r.hash)
		body = binary.LittleEndian.AppendUint32(body, r.at)
	}
	body = append(body, entries...)
	head := g.appendHead(nil, len(table), crc32.Checksum(body, castagnoli))
	out := binary.LittleEndian.AppendUint32([]byte(indexMagic), uint32(len(head)))
	out = binary.LittleEndian.AppendUint32(out, crc32.Checksum(head, castagnoli))
	out = append(append(out, head...), body...)
	tmp := g.path("tmp")
	if err := os.WriteFile(tmp, out, 0o640); err != nil {
		return fmt.Errorf("write output index %x: %w", g.id, errors.Join(err, os.Remove(tmp)))
	}
	g.index = int64(len(out))
	return os.Rename(tmp, g.path("idx"))
}

type tableRow struct {
	hash uint64
	at   uint32
}

const (
	tableRowSize  = 12
	indexHeadFrom = len(indexMagic) + 8
)

func (g *segment) appendHead(b []byte, rows int, sum uint32) []byte {
	for _, n := range []uint64{uint64(g.size), uint64(g.first), uint64(g.last), uint64(g.minTime), uint64(g.maxTime),
		uint64(rows), uint64(sum), uint64(len(g.marks))} {
		b = binary.AppendUvarint(b, n)
	}
	for _, m := range g.marks {
		b = binary.AppendUvarint(b, uint64(m.offset))
		b = binary.AppendUvarint(b, uint64(m.pos))
	}
	b = binary.AppendUvarint(b, uint64(len(g.unended)))
	for _, k := range g.unended {
		b = appendText(appendText(b, k.id), k.attempt)
	}
	b = binary.AppendUvarint(b, uint64(len(g.filter)))
	return append(b, g.filter...)
}
