package logstore

import (
	"bytes"
	"fmt"
	"os"
)

// repair is a segment whose writer died: it is finished when the positions of all segments are
// known.
type repair struct {
	g      *segment
	chains [streams]int // fragments of a line that was never finished (own segments only)
}

// rebuild makes the index in memory from the data and cuts a torn tail.
func (g *segment) rebuild() (*repair, error) {
	r, left, err := g.scan()
	if err == nil && left > 0 {
		if err = os.Truncate(g.path("log"), g.size); err != nil {
			err = fmt.Errorf("cut torn output: %w", err)
		}
	}
	return r, err
}

// scan makes the index in memory from the data; left is how many bytes at the end are torn.
func (g *segment) scan() (r *repair, left int, err error) {
	b, err := os.ReadFile(g.path("log"))
	if err != nil {
		return nil, 0, err
	}
	r = &repair{g: g}
	if !bytes.HasPrefix(b, []byte(segmentMagic)) {
		g.size = 0
		return r, len(b), nil
	}
	g.size = int64(len(segmentMagic))
	rest := b[len(segmentMagic):]
	for len(rest) > 0 {
		h, payload, next, ok := nextChunk(rest)
		if !ok || !r.count(h, payload, int64(len(b)-len(next))) {
			break
		}
		rest = next
		g.size = int64(len(b) - len(rest))
	}
	return r, len(rest), nil
}

// count takes one chunk that ends at offset to into the index.
func (r *repair) count(h header, payload []byte, to int64) bool {
	g := r.g
	if h.kind == kindSource {
		d := decoder{b: payload}
		e := d.entry(h.src)
		if d.err != nil || int(h.src) != len(g.order) || g.own && h.src != 0 {
			return false
		}
		if e.from = g.size; g.own {
			g.owner = e.source
		}
		g.order = append(g.order, e)
		g.entries[e.source.ID] = append(g.entries[e.source.ID], e)
		return true
	}
	if int(h.src) >= len(g.order) {
		return false
	}
	clean := r.chains == [streams]int{}
	lines, raw := r.measure(h, payload)
	from := g.size
	g.note(g.order[h.src], h, lines, raw, from, to, clean)
	return true
}

func (r *repair) measure(h header, payload []byte) (lines int, raw [streams]uint64) {
	switch h.kind {
	case kindFragment:
		if len(payload) > 0 {
			s := payload[0] & flagStream % byte(streams)
			raw[s] = uint64(len(payload) - 1)
			if r.g.own {
				r.chains[s] += len(payload) - 1
			}
		}
	case kindLines:
		for len(payload) > 0 {
			rec, rest, ok := nextRecord(payload)
			if !ok {
				break
			}
			s := rec.flags & flagStream % byte(streams)
			raw[s] += uint64(rec.raw())
			r.chains[s] = 0
			lines++
			payload = rest
		}
	}
	return lines, raw
}

// finish delivers a dead writer's fragments of an unfinished line, and seals the segment.
func (st *Store) finish(r *repair) {
	g := r.g
	f, err := os.OpenFile(g.path("log"), os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		st.dir.troubled(err)
		return
	}
	g.file = f
	if r.chains != ([streams]int{}) {
		e := g.order[0]
		s := &source{st: st, info: e.source, seq: e.seqNext, cums: e.cums, entry: e, seg: g}
		b := batch{kind: kindLines, chunk: make([]byte, headerSize, headerSize+64), at: st.cfg.Clock.Wall()}
		for i, n := range r.chains {
			if n > 0 {
				b.chunk = appendRecord(b.chunk, byte(i)|flagJoined|flagContinues)
				b.lines++
			}
		}
		if _, err := g.append(s, b); err != nil {
			st.dir.troubled(err)
		}
	}
	st.dir.seal(g)
}
