package logstore

import (
	"errors"
	"log/slog"
	"time"

	"cantina/fault"
	"cantina/internal/run"
)

// Stream is the output of a container to which a line belongs.
type Stream uint8

// The streams. Event has the executor's own messages about the container.
const (
	Stdout Stream = iota
	Stderr
	Event
	streams // their number
)

// String gives the name that is used at the wire.
func (s Stream) String() string {
	switch s {
	case Stdout:
		return "stdout"
	case Stderr:
		return "stderr"
	case Event:
		return "event"
	}
	return "unknown"
}

// ParseStream reads a name that String gives.
func ParseStream(name string) (Stream, bool) {
	for s := Stdout; s < streams; s++ {
		if s.String() == name {
			return s, true
		}
	}
	return 0, false
}

// Source is one attempt of one container as the store knows it.
type Source struct {
	// ID is the container's id.
	ID string
	// Labels describe the container: kind, service, index, instance, task, job, node … The map must
	// not change afterwards.
	Labels map[string]string
	// Attempt distinguishes several runs under one id; may be empty.
	Attempt string
	// Rate limits the kept output, in bytes per second over all streams except Event; 0 = no limit.
	// It is not stored.
	Rate int
}

// Position is the place of a line in its store: strictly increasing, near the
// wall clock in nanoseconds since 1970.
type Position uint64

// Line is one line of output, or a Gap.
type Line struct {
	Position Position
	// Time is the wall clock at which the line was complete.
	Time time.Time
	// Seq counts the lines (and gaps) of one Source from 1 without holes.
	Seq    uint64
	Source *Source
	Stream Stream
	// Data is the text without its newline; any bytes. The receiver may keep but not change it.
	Data []byte
	// Terminated: a newline followed Data. False only for the last line of a stream and before a cut.
	Terminated bool
	// Continues: the next line of the same source and stream continues this one.
	Continues bool
	// Gap is set instead of Data where output is missing.
	Gap *Gap

	start mileage // of a collected part: the amount before it
	end   uint64  // raw bytes of the source up to and with this line
}

// AppendRaw appends the bytes exactly as the process wrote them. A gap appends nothing.
func (l Line) AppendRaw(b []byte) []byte {
	b = append(b, l.Data...)
	if l.Terminated {
		b = append(b, '\n')
	}
	return b
}

// Reason is why output is missing.
type Reason uint8

// The reasons of a gap.
const (
	RateLimited Reason = iota // more than Source.Rate
	DiskError                 // the cell's disk refused the write (full, I/O error)
	Collected                 // removed by a size limit or by age
	Damaged                   // unreadable on disk
)

// String gives the name that is used at the wire.
func (r Reason) String() string {
	switch r {
	case RateLimited:
		return "rate_limited"
	case DiskError:
		return "disk_error"
	case Collected:
		return "collected"
	case Damaged:
		return "damaged"
	}
	return "unknown"
}

// Gap describes the missing output at its place.
type Gap struct {
	Reason Reason
	Bytes  int64
	Lines  int64
	// AtMost: some of Bytes may have been read before; set only if reading continues from a cursor
	// inside a removed segment.
	AtMost bool
	// At is when the output was removed (Collected only).
	At time.Time
}

// Errors of this package. Read errors of the file system are wrapped with %w.
var (
	// ErrCursor: the cursor was not made by this package.
	ErrCursor = fault.New(fault.ErrInvalid, "bad output cursor")
	// ErrClosed: the store or the writer is closed.
	ErrClosed = errors.New("output store closed")
	// ErrRange: Since is not before Until.
	ErrRange = fault.New(fault.ErrInvalid, "empty time range")
)

// Config bounds a store. Zero fields get the defaults named there.
type Config struct {
	MaxContainer int64         // bytes on disk of one source; 1 GiB
	MaxTotal     int64         // bytes on disk of the store; 10 GiB
	RetainAge    time.Duration // how long the output of a gone container is kept; 24 h
	RetainBytes  int64         // bytes on disk of gone containers; MaxTotal
	Shared       int64         // size of a shared segment; 8 MiB
	Own          int64         // size of a container's own segment; 32 MiB, at most MaxContainer/8
	Promote      int64         // output after which a container gets its own segments; 256 KiB
	MaxLine      int           // longest line that is handed out in one piece; 16 MiB
	// Clock stamps lines (Wall) and measures rates (Boot); the kernel's.
	Clock run.Clock
	// Log receives messages about repairs and disk errors; nil = none.
	Log *slog.Logger
}

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

func (c Config) withDefaults() Config {
	set := func(v *int64, d int64) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&c.MaxContainer, gib)
	set(&c.MaxTotal, 10*gib)
	set(&c.RetainBytes, c.MaxTotal)
	set(&c.Shared, min(8*mib, max(c.MaxTotal/8, 1)))
	set(&c.Own, 32*mib)
	c.Own = max(min(c.Own, c.MaxContainer/8, c.MaxTotal/8), 1)
	set(&c.Promote, 256*kib)
	c.Promote = min(c.Promote, c.Own)
	if c.RetainAge <= 0 {
		c.RetainAge = 24 * time.Hour
	}
	if c.MaxLine <= 0 {
		c.MaxLine = 16 * mib
	}
	if c.Clock.Wall == nil {
		c.Clock = run.Kernel()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}
