package logstore

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"slices"
)

// key is the identity of a source in the store.
type key struct{ id, attempt string }

func (s *Source) key() key { return key{s.ID, s.Attempt} }

// entry is the part of one source in a segment.
type entry struct {
	local    uint32
	source   *Source
	seqStart uint64 // sequence number of the first line here
	seqNext  uint64 // and of the next one
	cumStart uint64 // raw bytes before this segment
	cums     [streams]uint64
	first    Position // 0 = no line yet
	last     Position
	from, to int64 // where its chunks lie in the file
	minTime  int64 // wall clock, ns
	maxTime  int64
	ended    bool
}

func (e *entry) cum() uint64 {
	n := uint64(0)
	for _, c := range e.cums {
		n += c
	}
	return n
}

var errFormat = errors.New("bad format")

// appendSource encodes the introduction of a source in a segment.
func appendSource(b []byte, e *entry) []byte {
	b = appendText(b, e.source.ID)
	b = appendText(b, e.source.Attempt)
	b = binary.AppendUvarint(b, uint64(len(e.source.Labels)))
	for _, k := range slices.Sorted(maps.Keys(e.source.Labels)) {
		b = appendText(b, k)
		b = appendText(b, e.source.Labels[k])
	}
	b = binary.AppendUvarint(b, e.seqStart)
	b = binary.AppendUvarint(b, e.cumStart)
	for _, c := range e.cums {
		b = binary.AppendUvarint(b, c)
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// decoder reads the output of the append functions; after the first error all results are zero.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) number() uint64 {
	n, w := binary.Uvarint(d.b)
	if w <= 0 {
		d.b, d.err = nil, errFormat
		return 0
	}
	d.b = d.b[w:]
	return n
}

// bytes returns the next length-prefixed run; it aliases the input.
func (d *decoder) bytes() []byte {
	n := d.number()
	if n > uint64(len(d.b)) {
		d.b, d.err = nil, errFormat
		return nil
	}
	r := d.b[:n]
	d.b = d.b[n:]
	return r
}

func (d *decoder) text() string { return string(d.bytes()) }

func (d *decoder) entry(local uint32) *entry {
	e := &entry{local: local, source: &Source{ID: d.text(), Attempt: d.text()}}
	if n := d.number(); n > 0 && n <= uint64(len(d.b)) {
		e.source.Labels = make(map[string]string, n)
		for range n {
			k := d.text()
			e.source.Labels[k] = d.text()
		}
	}
	e.seqStart = d.number()
	e.seqNext = e.seqStart
	e.cumStart = d.number()
	for i := range e.cums {
		e.cums[i] = d.number()
	}
	return e
}

// appendEntry encodes an entry of a sealed segment: size, checksum, content.
func appendEntry(b []byte, e *entry) []byte {
	c := binary.AppendUvarint(nil, uint64(e.local))
	c = appendSource(c, e)
	for _, n := range []uint64{e.seqNext, uint64(e.first), uint64(e.last), uint64(e.from), uint64(e.to), uint64(e.minTime),
		uint64(e.maxTime)} {
		c = binary.AppendUvarint(c, n)
	}
	ended := uint64(0)
	if e.ended {
		ended = 1
	}
	c = binary.AppendUvarint(c, ended)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(c)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(c, castagnoli))
	return append(b, c...)
}

// entryHead is the size of an entry's size and checksum.
const entryHead = 8

// fullEntry reads the output of appendEntry.
func (d *decoder) fullEntry() *entry {
	if len(d.b) < entryHead {
		d.b, d.err = nil, errFormat
		return &entry{}
	}
	size, sum := binary.LittleEndian.Uint32(d.b), binary.LittleEndian.Uint32(d.b[4:])
	d.b = d.b[entryHead:]
	if uint64(size) > uint64(len(d.b)) || crc32.Checksum(d.b[:size], castagnoli) != sum {
		d.b, d.err = nil, errFormat
		return &entry{}
	}
	c := decoder{b: d.b[:size]}
	d.b = d.b[size:]
	e := c.entry(uint32(c.number()))
	e.seqNext = c.number()
	e.first, e.last = Position(c.number()), Position(c.number())
	e.from, e.to = int64(c.number()), int64(c.number())
	e.minTime, e.maxTime = int64(c.number()), int64(c.number())
	e.ended = c.number() == 1
	if c.err != nil {
		d.err = c.err
	}
	return e
}
