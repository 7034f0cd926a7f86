package logstore

import (
	"encoding/binary"
	"hash/crc32"
)

// A segment file is segmentMagic followed by chunks.
const segmentMagic = "cantlog1"

const (
	headerSize = 48
	// pieceSize is the longest run of bytes in one record; longer lines are a chain of
	// fragments and a last piece.
	pieceSize = 128 * kib
	// chunkTarget is the payload after which a chunk is written out.
	chunkTarget = 256 * kib
	maxPayload  = chunkTarget + pieceSize + 64
)

// kind is the kind of a chunk's content.
type kind uint8

const (
	kindSource   kind = iota + 1 // introduces a source in this segment
	kindLines                    // lines of one source
	kindFragment                 // the beginning or middle of a long line; the first byte is its stream
	kindEnd                      // the source's last writer was closed
)

// header is the fixed part of a chunk.
//
//	0  checksum of the bytes 4..48
//	4  size of the payload
//	8  checksum of the payload
//	12 kind (8 bits), number of the source within the segment (24 bits)
//	16 position of the first line
//	24 wall clock in ns
//	32 sequence number of the first line
//	40 raw bytes of the source before this chunk
type header struct {
	kind kind
	src  uint32
	size int
	sum  uint32
	pos  Position
	time int64
	seq  uint64
	cum  uint64
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// put fills the first headerSize bytes of a chunk.
func (h header) put(b []byte) {
	binary.LittleEndian.PutUint32(b[4:], uint32(h.size))
	binary.LittleEndian.PutUint32(b[8:], h.sum)
	binary.LittleEndian.PutUint32(b[12:], uint32(h.kind)<<24|h.src)
	binary.LittleEndian.PutUint64(b[16:], uint64(h.pos))
	binary.LittleEndian.PutUint64(b[24:], uint64(h.time))
	binary.LittleEndian.PutUint64(b[32:], h.seq)
	binary.LittleEndian.PutUint64(b[40:], h.cum)
	binary.LittleEndian.PutUint32(b, crc32.Checksum(b[4:headerSize], castagnoli))
}

// parseHeader reads a chunk's header; false when it is short or damaged.
func parseHeader(b []byte) (header, bool) {
	if len(b) < headerSize || binary.LittleEndian.Uint32(b) != crc32.Checksum(b[4:headerSize], castagnoli) {
		return header{}, false
	}
	ks := binary.LittleEndian.Uint32(b[12:])
	h := header{
		kind: kind(ks >> 24), src: ks & 0xffffff,
		size: int(binary.LittleEndian.Uint32(b[4:])),
		sum:  binary.LittleEndian.Uint32(b[8:]),
		pos:  Position(binary.LittleEndian.Uint64(b[16:])),
		time: int64(binary.LittleEndian.Uint64(b[24:])),
		seq:  binary.LittleEndian.Uint64(b[32:]),
		cum:  binary.LittleEndian.Uint64(b[40:]),
	}
	return h, h.kind >= kindSource && h.kind <= kindEnd && h.size <= maxPayload
}

// nextChunk cuts the first chunk off b; false when it is torn or damaged.
func nextChunk(b []byte) (h header, payload, rest []byte, ok bool) {
	h, ok = parseHeader(b)
	if !ok || len(b) < headerSize+h.size {
		return h, nil, nil, false
	}
	payload = b[headerSize : headerSize+h.size]
	if crc32.Checksum(payload, castagnoli) != h.sum {
		return h, nil, nil, false
	}
	return h, payload, b[headerSize+h.size:], true
}

// The flags of a record in a lines chunk: stream in the low two bits.
const (
	flagStream     = 0x03
	flagTerminated = 0x04
	flagContinues  = 0x08
	flagJoined     = 0x10 // the fragments of this stream since its last line come first
	flagGap        = 0x20
	flagFirst      = 0x40 // of a fragment: the earlier text on this stream was never finished
)

// record is one line within a chunk: flags, length, bytes.
type record struct {
	flags byte
	data  []byte
}

func appendRecord(b []byte, flags byte, parts ...[]byte) []byte {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	b = append(b, flags)
	b = binary.AppendUvarint(b, uint64(n))
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

// nextRecord cuts the first record off a lines payload.
func nextRecord(b []byte) (r record, rest []byte, ok bool) {
	if len(b) == 0 {
		return r, nil, false
	}
	n, w := binary.Uvarint(b[1:])
	if w <= 0 || uint64(len(b)-1-w) < n {
		return r, nil, false
	}
	end := 1 + w + int(n)
	return record{b[0], b[1+w : end : end]}, b[end:], true
}

// raw is the number of the process's bytes in the record, without its fragments.
func (r record) raw() int64 {
	if r.flags&flagGap != 0 {
		return parseGap(r.data).Bytes
	}
	n := int64(len(r.data))
	if r.flags&flagTerminated != 0 {
		n++
	}
	return n
}

func appendGap(b []byte, g Gap) []byte {
	b = append(b, byte(g.Reason))
	b = binary.AppendUvarint(b, uint64(g.Bytes))
	return binary.AppendUvarint(b, uint64(g.Lines))
}

func parseGap(b []byte) *Gap {
	g := &Gap{Reason: Damaged}
	if len(b) == 0 {
		return g
	}
	g.Reason = Reason(b[0])
	n, w := binary.Uvarint(b[1:])
	if w > 0 {
		g.Bytes = int64(n)
		if l, v := binary.Uvarint(b[1+w:]); v > 0 {
			g.Lines = int64(l)
		}
	}
	return g
}
