package logstore

import "time"

// parser turns a block into lines.
type parser struct {
	r      *reader
	pieces map[uint32]*[streams][][]byte
	at     Position // last position seen
	time   int64
}

// parse returns how many bytes at the end it could not read.
func (p *parser) parse(b []byte) int {
	for len(b) > 0 {
		h, ok := parseHeader(b)
		if !ok || len(b) < headerSize+h.size {
			return len(b)
		}
		e := p.r.want[h.src]
		if e == nil || h.kind != kindLines && h.kind != kindFragment || h.kind == kindLines && h.pos > p.r.hi {
			b = b[headerSize+h.size:]
			continue
		}
		_, payload, rest, ok := nextChunk(b)
		if !ok {
			return len(b)
		}
		if h.kind == kindFragment {
			p.fragment(h.src, payload)
		} else {
			p.chunk(h, e, payload)
		}
		b = rest
	}
	return 0
}

func (p *parser) fragment(src uint32, payload []byte) {
	if len(payload) == 0 {
		return
	}
	if p.pieces == nil {
		p.pieces = map[uint32]*[streams][][]byte{}
	}
	if p.pieces[src] == nil {
		p.pieces[src] = new([streams][][]byte)
	}
	list := &p.pieces[src][payload[0]&flagStream%byte(streams)]
	if payload[0]&flagFirst != 0 {
		*list = nil
	}
	*list = append(*list, payload[1:])
}

func (p *parser) chunk(h header, e *entry, payload []byte) {
	cum := h.cum
	for i := 0; len(payload) > 0; i++ {
		rec, rest, ok := nextRecord(payload)
		if !ok {
			return
		}
		payload = rest
		cum += uint64(rec.raw())
		l := Line{Position: h.pos + Position(i), Time: time.Unix(0, h.time).UTC(), Seq: h.seq + uint64(i), Source: e.source,
			Stream: Stream(rec.flags & flagStream % byte(streams)), end: cum}
		p.at, p.time = l.Position, h.time
		data := rec.data
		if rec.flags&flagJoined != 0 {
			data = p.join(h.src, l.Stream, data)
		}
		if l.Position <= p.r.lo || l.Position > p.r.hi {
			continue
		}
		if rec.flags&flagGap != 0 {
			l.Gap = parseGap(data)
		} else {
			l.Data, l.Terminated, l.Continues = data, rec.flags&flagTerminated != 0, rec.flags&flagContinues != 0
		}
		p.r.lines = append(p.r.lines, l)
	}
}

func (p *parser) join(src uint32, s Stream, tail []byte) []byte {
	list := p.pieces[src]
	if list == nil {
		return tail
	}
	var whole []byte
	for _, piece := range list[s] {
		whole = append(whole, piece...)
	}
	list[s] = nil
	return append(whole, tail...)
}

// damage records that n bytes before position after cannot be read.
func (p *parser) damage(n int, after Position) {
	at := min(after-1, p.r.hi)
	if at <= p.at || at <= p.r.lo {
		return
	}
	for _, e := range p.r.want {
		t := p.time
		if t == 0 {
			t = e.minTime
		}
		p.r.lines = append(p.r.lines, Line{Position: at, Time: time.Unix(0, t).UTC(), Source: e.source,
			Gap: &Gap{Reason: Damaged, Bytes: int64(n), AtMost: true}})
		return
	}
}
