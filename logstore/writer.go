package logstore

import (
	"bytes"
	"sync"
)

// tailSize is how many bytes of each stream a Writer remembers for Tail.
const tailSize = 2 * kib

// Writer takes one stream of one source.
type Writer struct {
	s      *source
	stream Stream
	closed bool // guarded by s.mu
}

// fate is the handling of the line that is being written.
type fate uint8

const (
	undecided fate = iota
	kept
	dropped // by the rate limit
	lost    // to a disk error
)

// part is one stream of a source.
type part struct {
	held  []byte // the beginning of a line, not yet on disk
	chain int    // bytes of fragments on disk that wait for their line to end
	fate  fate
	tail  []byte // the newest raw bytes
}

// source is the writing side of a Source: its streams share sequence numbers,
// batches and segments.
type source struct {
	st      *Store
	info    *Source
	writers int // open ones; guarded by sources.mu

	mu    sync.Mutex // also held while a batch is written: a stream's lines are in order
	seq   uint64
	cums  [streams]uint64
	parts [streams]part
	limit limiter
	lost  [streams]Gap   // refused by the disk, not reported yet
	gone  [streams]int64 // bytes that the disk has refused

	buf   []byte // the batch being built, headerSize bytes free in front
	lines int
	each  [streams]int64 // lines per stream in buf
	raw   [streams]uint64
	clean bool

	own     *segment // own active segment
	seg     *segment // where entry is
	entry   *entry
	shares  int   // shared segments it has lines in
	refuse  bool  // the store is closed
	written int64 // bytes on disk in shared segments
	owned   int64 // bytes on disk in own segments
}

var buffers = sync.Pool{New: func() any { b := make([]byte, headerSize, headerSize+4*kib); return &b }}

// Write accepts raw output, always all of it: bytes that the disk refuses are counted and reported
// in the stream. It fails only with ErrClosed. When it returns, every complete line is readable.
func (w *Writer) Write(p []byte) (int, error) {
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.closed || s.refuse {
		return 0, ErrClosed
	}
	s.remember(w.stream, p)
	pooled := s.borrow()
	rest := p
	for len(rest) > 0 {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			s.hold(w.stream, rest)
			break
		}
		s.line(w.stream, rest[:i], true)
		rest = rest[i+1:]
	}
	s.flush()
	s.giveBack(pooled)
	return len(p), nil
}

// Written is the number of raw bytes of this stream that are on disk or counted as missing,
// including those of earlier processes of the cell; the held part of an unfinished line is
// excluded. The owner of a copy of the stream (a shim) continues from here after a crash, and no
// byte is lost or duplicated.
func (w *Writer) Written() int64 {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	return int64(w.s.cums[w.stream])
}

// Lost is how many bytes of this stream the disk has refused since the source was opened.
func (w *Writer) Lost() int64 {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	return w.s.gone[w.stream]
}

// Tail is at most the last n lines of the stream from its newest 2 KiB, including lines that the
// rate limit dropped: for the crash report.
func (w *Writer) Tail(n int) []string {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	t := bytes.TrimSuffix(w.s.parts[w.stream].tail, []byte("\n"))
	if len(t) == 0 || n <= 0 {
		return nil
	}
	lines := bytes.Split(t, []byte("\n"))
	lines = lines[max(0, len(lines)-n):]
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = string(l)
	}
	return out
}

// Close ends the stream: an unfinished last line is stored as it is. With the
// last writer of a source the source has ended. Close twice does nothing.
func (w *Writer) Close() error {
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.closed || s.refuse {
		return nil
	}
	w.closed = true
	pooled := s.borrow()
	if p := &s.parts[w.stream]; len(p.held) > 0 || p.chain > 0 || p.fate != undecided {
		s.line(w.stream, nil, false)
	}
	s.reportDropped()
	s.flush()
	if !s.reportLost(true) {
		s.st.sources.owe(s.info, s.lost)
		s.lost = [streams]Gap{}
	}
	if s.st.sources.leave(s, s.st.cfg.Clock.Wall()) {
		s.end()
	}
	s.giveBack(pooled)
	return nil
}

func (s *source) borrow() *[]byte {
	b := buffers.Get().(*[]byte)
	s.buf = (*b)[:headerSize]
	return b
}

func (s *source) giveBack(b *[]byte) {
	*b, s.buf = s.buf[:headerSize], nil
	buffers.Put(b)
}

func (s *source) remember(stream Stream, p []byte) {
	t := &s.parts[stream].tail
	p = p[max(0, len(p)-tailSize):]
	if len(*t)+len(p) > 2*tailSize {
		keep := max(0, min(len(*t), tailSize-len(p)))
		*t = append((*t)[:0], (*t)[len(*t)-keep:]...)
	}
	*t = append(*t, p...)
}

// decide fixes the fate of a line at its beginning.
func (s *source) decide(stream Stream) fate {
	p := &s.parts[stream]
	if p.fate == undecided {
		p.fate = kept
		if stream != Event && s.limit.rate > 0 { // reading the clock costs more than the line
			if !s.limit.allow(s.st.cfg.Clock.Boot()) {
				p.fate = dropped
			} else {
				s.reportDropped()
			}
		}
	}
	return p.fate
}

// hold keeps the beginning of a line; long ones go to disk piece by piece.
func (s *source) hold(stream Stream, data []byte) {
	p := &s.parts[stream]
	for len(p.held)+len(data) > pieceSize {
		n := pieceSize - len(p.held)
		p.held = append(p.held, data[:n]...)
		data = data[n:]
		s.spill(stream)
	}
	p.held = append(p.held, data...)
}

// line finishes a line.
func (s *source) line(stream Stream, data []byte, terminated bool) {
	p := &s.parts[stream]
	if len(p.held)+len(data) > pieceSize {
		s.hold(stream, data)
		data = nil
	}
	n, flags := len(p.held)+len(data), byte(stream)
	if terminated {
		n++
		flags |= flagTerminated
	}
	switch s.decide(stream) {
	case dropped:
		s.limit.drop(stream, n, true)
		s.st.limited.add(int64(n), 1)
	case lost:
		s.lose(stream, n, true)
		if p.chain > 0 {
			s.add(stream, byte(stream)|flagJoined|flagContinues, 0)
		}
	default:
		if p.chain > 0 {
			flags |= flagJoined
		}
		s.add(stream, flags, n, p.held, data)
	}
	p.chain, p.fate = 0, undecided
	if p.held = p.held[:0]; cap(p.held) > 4*kib {
		p.held = nil
	}
}

// spill writes the held part of an unfinished line as a fragment.
func (s *source) spill(stream Stream) {
	p := &s.parts[stream]
	n := len(p.held)
	switch s.decide(stream) {
	case dropped:
		s.limit.drop(stream, n, false)
		s.st.limited.add(int64(n), 0)
	case lost:
		s.lose(stream, n, false)
	default:
		if p.chain+n > s.st.cfg.MaxLine && p.chain > 0 {
			s.add(stream, byte(stream)|flagJoined|flagContinues, 0)
			p.chain = 0
		}
		s.flush()
		if s.own != nil && s.own.size > 2*s.st.cfg.Own {
			s.cut()
		}
		if stream != Event {
			s.limit.charge(n)
		}
		if s.fragment(stream, p.held) {
			p.chain += n
		} else {
			p.fate = lost
			s.lose(stream, n, false)
		}
	}
	p.held = p.held[:0]
}

func (s *source) fragment(stream Stream, data []byte) bool {
	mark := byte(stream)
	if s.parts[stream].chain == 0 {
		mark |= flagFirst
	}
	chunk := append(append(make([]byte, headerSize, headerSize+1+len(data)), mark), data...)
	b := batch{kind: kindFragment, chunk: chunk, at: s.st.cfg.Clock.Wall(), clean: !s.chained()}
	b.raw[stream] = uint64(len(data))
	return s.put(b)
}

func (s *source) chained() bool {
	for i := range s.parts {
		if s.parts[i].chain > 0 {
			return true
		}
	}
	return false
}

// add adds a record to the batch; raw is the number of its raw bytes.
func (s *source) add(stream Stream, flags byte, raw int, data ...[]byte) {
	if s.lines == 0 {
		s.clean = !s.chained()
	}
	s.buf = appendRecord(s.buf, flags, data...)
	s.lines++
	s.each[stream]++
	s.raw[stream] += uint64(raw)
	if flags&flagGap == 0 && stream != Event {
		s.limit.charge(raw)
	}
	if len(s.buf) >= chunkTarget {
		s.flush()
	}
}

// reportDropped reports the amount that the rate limit dropped since its last report.
func (s *source) reportDropped() { s.report(&s.limit.dropped, RateLimited) }

func (s *source) report(gaps *[streams]Gap, why Reason) {
	for i := range gaps {
		if g := gaps[i]; g.Bytes > 0 {
			g.Reason = why
			gaps[i] = Gap{}
			s.add(Stream(i), byte(i)|flagGap, int(g.Bytes), appendGap(nil, g))
		}
	}
}

// flush writes the batch. A failed write is counted and reported with the next batch that
// succeeds.
func (s *source) flush() {
	if s.lines == 0 {
		return
	}
	b := batch{kind: kindLines, chunk: s.buf, lines: s.lines, raw: s.raw, at: s.st.cfg.Clock.Wall(), clean: s.clean}
	each := s.each
	s.buf, s.lines, s.raw, s.each = s.buf[:headerSize], 0, [streams]uint64{}, [streams]int64{}
	if s.lost != ([streams]Gap{}) && !s.reportLost(false) || !s.put(b) {
		for i := range s.lost {
			s.lost[i].Bytes += int64(b.raw[i])
			s.lost[i].Lines += each[i]
			s.st.refused.add(int64(b.raw[i]), each[i])
			s.gone[i] += int64(b.raw[i])
		}
	}
}

// lose counts the bytes that the disk has refused.
func (s *source) lose(stream Stream, bytes int, lineEnds bool) {
	before := s.lost[stream].Lines
	addLoss(&s.lost[stream], bytes, lineEnds)
	s.st.refused.add(int64(bytes), s.lost[stream].Lines-before)
	s.gone[stream] += int64(bytes)
}

// reportLost writes how much the disk refused; false when it refuses that too. The last time it
// may take the room that is kept for that.
func (s *source) reportLost(last bool) bool {
	b := batch{kind: kindLines, chunk: make([]byte, headerSize, headerSize+64), at: s.st.cfg.Clock.Wall(), last: last}
	for i, g := range s.lost {
		if g.Bytes > 0 {
			g.Reason = DiskError
			b.chunk = appendRecord(b.chunk, byte(i)|flagGap, appendGap(nil, g))
			b.raw[i] = uint64(g.Bytes)
			b.lines++
		}
	}
	if b.lines > 0 && !s.put(b) {
		return false
	}
	s.lost = [streams]Gap{}
	return true
}

// put appends one chunk where the source writes now.
func (s *source) put(b batch) bool {
	if err := s.write(b); err != nil {
		s.st.dir.troubled(err)
		return false
	}
	s.seq += uint64(b.lines)
	for i, n := range b.raw {
		s.cums[i] += n
	}
	return true
}

// write appends b to the segment where the source writes now, and keeps to the limits.
func (s *source) write(b batch) (err error) {
	st := s.st
	if s.own == nil && s.promotes(b) {
		st.shared.ensure() // final records of sources without their own space are written there
		if s.own, err = st.dir.create(s.info); err != nil {
			return err
		}
	}
	if s.own != nil {
		err = s.writeOwn(b)
	} else {
		err = st.shared.put(s, b)
	}
	if err != nil {
		return err
	}
	if b.lines > 0 {
		st.followers.wake(s.info)
	}
	if s.owned+s.written > st.cfg.MaxContainer {
		st.retention.trim(s)
	}
	if st.dir.total.Load() > st.cfg.MaxTotal {
		st.retention.shrink()
	}
	return nil
}

// maxShares limits the shared segments with lines of a source before it gets its own: old shared
// segments are kept until all of their sources are gone, so no source may hold many of them.
const maxShares = 3

func (s *source) promotes(b batch) bool {
	if b.last {
		return false
	}
	if b.kind == kindFragment || s.written+int64(len(b.chunk)) > s.st.cfg.Promote {
		return true
	}
	return s.shares >= maxShares && s.seg != s.st.shared.active()
}

func (s *source) writeOwn(b batch) error {
	n, err := s.own.append(s, b)
	if err != nil {
		return err
	}
	s.owned += n
	if s.own.size >= s.st.cfg.Own && b.kind != kindFragment && !s.chained() {
		next, err := s.st.dir.create(s.info)
		if err != nil { // it continues here
			s.st.dir.troubled(err)
			return nil
		}
		s.sealOwn()
		s.own = next
	}
	return nil
}

func (s *source) sealOwn() {
	if s.own != nil {
		s.st.dir.seal(s.own)
		s.own = nil
	}
}

// cut closes a partly written line, so that the segment may be changed.
func (s *source) cut() {
	for i := range s.parts {
		if p := &s.parts[i]; p.chain > 0 {
			s.add(Stream(i), byte(i)|flagJoined|flagContinues, 0)
			p.chain = 0
		}
	}
	s.flush()
}

// end marks the source as ended and releases its segment.
func (s *source) end() {
	if s.entry != nil && (s.own == nil || s.seg == s.own) {
		s.put(batch{kind: kindEnd, chunk: make([]byte, headerSize), at: s.st.cfg.Clock.Wall(), last: true})
	}
	s.sealOwn()
	s.st.followers.wake(s.info)
}

// shut writes the held data of a live source and refuses more.
func (s *source) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	pooled := s.borrow()
	s.cut()
	s.giveBack(pooled)
	s.sealOwn()
	s.refuse = true
}

// sealIdle seals a source's own segment if no write is in progress.
func (s *source) sealIdle() bool {
	if !s.mu.TryLock() {
		return false
	}
	defer s.mu.Unlock()
	if s.own == nil || s.own.first == 0 || s.chained() {
		return false
	}
	s.sealOwn()
	return true
}
