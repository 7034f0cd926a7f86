package logstore

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"cantina/internal/text"
	pb "cantina/wire/cantinav1"
)

// ErrPacked: a message of packed lines does not fit together.
var ErrPacked = errors.New("bad packed output")

const (
	packedStream       = 0x03
	packedUnterminated = 0x04
	packedContinues    = 0x08
)

// Pack puts lines of one cell into columns.
func Pack(cell string, lines []Line) *pb.LogLines {
	c := newColumns(len(lines), 0)
	for i := range lines {
		c.add(cell, &lines[i])
	}
	return c.m
}

// PackMerged puts lines of several cells into columns.
func PackMerged(lines []CellLine) *pb.LogLines {
	c := newColumns(len(lines), 0)
	for i := range lines {
		c.add(lines[i].Cell, &lines[i].Line)
	}
	return c.m
}

// columns fills a message.
type columns struct {
	m     *pb.LogLines
	pos   Position
	at    int64
	seq   uint64
	cell  string // of the last line
	last  *Source
	index uint32
	known map[sourceKey]uint32
}

type sourceKey struct {
	cell string
	key
}

func newColumns(lines, text int) *columns {
	return &columns{m: &pb.LogLines{
		Text: make([]byte, 0, text), Size: make([]uint32, 0, lines), Position: make([]int64, 0, lines),
		Time: make([]int64, 0, lines),
		Seq:  make([]int64, 0, lines), Source: make([]uint32, 0, lines), Flags: make([]byte, 0, lines),
	}}
}

func (c *columns) add(cell string, l *Line) {
	if l.Source != c.last || cell != c.cell {
		c.cell, c.last, c.index = cell, l.Source, c.number(cell, l.Source)
	}
	m, at := c.m, l.Time.UnixNano()
	flags := byte(l.Stream) & packedStream
	if !l.Terminated {
		flags |= packedUnterminated
	}
	if l.Continues {
		flags |= packedContinues
	}
	if g := l.Gap; g != nil {
		m.Gaps = append(m.Gaps, gapMessage(g, len(m.Size)))
	}
	m.Text = append(m.Text, l.Data...)
	m.Size = append(m.Size, uint32(len(l.Data)))
	m.Position = append(m.Position, int64(l.Position-c.pos))
	m.Time = append(m.Time, at-c.at)
	m.Seq = append(m.Seq, int64(l.Seq-c.seq))
	m.Source = append(m.Source, c.index)
	m.Flags = append(m.Flags, flags)
	c.pos, c.at, c.seq = l.Position, at, l.Seq
}

// number returns the index of a source, which it adds to the message when it is new.
func (c *columns) number(cell string, s *Source) uint32 {
	k := sourceKey{cell, s.key()}
	n, ok := c.known[k]
	if !ok {
		if c.known == nil {
			c.known = map[sourceKey]uint32{}
		}
		n = uint32(len(c.known))
		c.known[k] = n
		c.m.Sources = append(c.m.Sources, &pb.LogSource{Id: s.ID, Labels: validLabels(s.Labels), Attempt: s.Attempt,
			Cell: cell})
	}
	return n
}

// validLabels returns labels that can travel as text: names of nodes may be any bytes.
func validLabels(labels map[string]string) map[string]string {
	out := make(map[string]string, len(labels))
	for k, v := range labels {
		out[k] = text.Clean(v)
	}
	return out
}

func gapMessage(g *Gap, line int) *pb.LogGap {
	m := &pb.LogGap{Reason: g.Reason.String(), Bytes: g.Bytes, Lines: g.Lines, AtMost: g.AtMost, Line: uint32(line)}
	if !g.At.IsZero() {
		m.At = timestamppb.New(g.At)
	}
	return m
}

// Unpack returns the lines of a message. Their text is shared with it. ErrPacked.
func Unpack(m *pb.LogLines) ([]Line, error) {
	out := make([]Line, 0, len(m.GetSize()))
	err := EachPacked(m, func(l *Line, _ string) error {
		out = append(out, *l)
		return nil
	})
	return out, err
}

// EachPacked calls f with each line of a message and its cell; the line is valid during the call,
// its text as long as the message. ErrPacked, or the error of f.
func EachPacked(m *pb.LogLines, f func(l *Line, cell string) error) error {
	n := len(m.GetSize())
	if n == 0 {
		return nil
	}
	if len(m.Position) != n || len(m.Time) != n || len(m.Seq) != n || len(m.Source) != n || len(m.Flags) != n {
		return fmt.Errorf("%w: columns of different lengths", ErrPacked)
	}
	sources := make([]*Source, len(m.Sources))
	for i, s := range m.Sources {
		sources[i] = &Source{ID: s.GetId(), Labels: s.GetLabels(), Attempt: s.GetAttempt()}
	}
	var l Line
	text, gaps, at := m.Text, m.Gaps, int64(0)
	for i, size := range m.Size {
		from := m.Source[i]
		if uint64(size) > uint64(len(text)) || uint64(from) >= uint64(len(sources)) {
			return fmt.Errorf("%w: line %d of %d is outside its text or of an unknown source", ErrPacked, i, n)
		}
		if at += m.Time[i]; i == 0 || m.Time[i] != 0 {
			l.Time = time.Unix(0, at).UTC()
		}
		l.Position += Position(m.Position[i])
		l.Seq += uint64(m.Seq[i])
		l.Source, l.Stream = sources[from], Stream(m.Flags[i]&packedStream)%streams
		l.Terminated, l.Continues = m.Flags[i]&packedUnterminated == 0, m.Flags[i]&packedContinues != 0
		l.Data, l.Gap, text = text[:size:size], nil, text[size:]
		if len(gaps) > 0 && int(gaps[0].GetLine()) == i {
			l.Gap, l.Data, gaps = readGap(gaps[0]), nil, gaps[1:]
		}
		if err := f(&l, m.Sources[from].GetCell()); err != nil {
			return err
		}
	}
	return nil
}

func readGap(m *pb.LogGap) *Gap {
	g := &Gap{Reason: Damaged, Bytes: m.GetBytes(), Lines: m.GetLines(), AtMost: m.GetAtMost()}
	for r := RateLimited; r <= Damaged; r++ {
		if r.String() == m.GetReason() {
			g.Reason = r
		}
	}
	if m.GetAt() != nil {
		g.At = m.GetAt().AsTime()
	}
	return g
}
