package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"cantina/internal/mux"
)

// errLarge reports a body that is larger than it may be.
var errLarge = errors.New("too large")

// How slowly a body may come: after bodyGrace at least bodyRate bytes a second.
const (
	bodyGrace = 10 * time.Second
	bodyRate  = 64 << 10
)

// Body limits the bodies of the requests that h reads whole. A body that declares more than limit
// bytes is refused before it is read. One that turns out to be larger ends there, and one that
// arrives too slowly ends with its connection.
func Body(limit int64, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > limit {
			x := &refusal{fmt.Errorf("a body of %d bytes, at most %d: %w", r.ContentLength, limit, errLarge), "body", "split it"}
			x.write(w, r)
			return
		}
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = http.MaxBytesReader(w, &hurried{r.Body, http.NewResponseController(w), time.Now(), 0, false}, limit)
		}
		h.ServeHTTP(w, r)
	})
}

// hurried is a body that must come fast enough.
type hurried struct {
	io.ReadCloser
	conn  *http.ResponseController
	begin time.Time
	read  int64
	ended bool
}

// Read implements io.Reader.
func (b *hurried) Read(p []byte) (int, error) {
	if !b.ended {
		// Where there is no deadline, as in tests without a network, nothing is slow.
		_ = b.conn.SetReadDeadline(b.begin.Add(bodyGrace + time.Duration(b.read)*time.Second/bodyRate))
	}
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if err != nil {
		b.end(errors.Is(err, io.EOF))
	}
	return n, err
}

// Close implements io.Closer.
func (b *hurried) Close() error {
	b.end(true)
	return b.ReadCloser.Close()
}

// end lets the connection wait for the next request; one that was too slow stays at its end.
func (b *hurried) end(well bool) {
	if !b.ended && well {
		_ = b.conn.SetReadDeadline(time.Time{})
	}
	b.ended = true
}

// Endless permits any speed for a request and its answer: a stream in both directions, whose reader may
// pause. Pings find a connection that is gone.
func Endless(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // where there is none, there is no deadline
	for at := w; at != nil; {
		if h, ok := at.(*hurrying); ok {
			h.deadline(false)
			h.endless = true
		}
		inner, ok := at.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return
		}
		at = inner.Unwrap()
	}
}

// writeTime is how long a caller may leave an answer unread before its connection is closed.
const writeTime = time.Minute

// hurrying is the writer of an answer that must be read.
type hurrying struct {
	http.ResponseWriter
	conn    *http.ResponseController
	endless bool
}

// Unwrap is for http.ResponseController.
func (w *hurrying) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *hurrying) deadline(on bool) {
	if w.endless {
		return
	}
	at := time.Time{}
	if on {
		at = time.Now().Add(writeTime)
	}
	_ = w.conn.SetWriteDeadline(at) // where there is none, nothing is slow
}

// Write implements io.Writer.
func (w *hurrying) Write(p []byte) (int, error) {
	w.deadline(true)
	defer w.deadline(false)
	return w.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (w *hurrying) Flush() { _ = w.FlushError() } // as http.Flusher does

// FlushError is for http.ResponseController.
func (w *hurrying) FlushError() error {
	w.deadline(true)
	defer w.deadline(false)
	return w.conn.Flush()
}

// narrowSize is how much of a stream the kernel keeps for a reader, in bytes.
const narrowSize = 64 << 10

// Narrow limits the kernel's buffer for a request's response: a reader that does not read soon
// blocks its stream, and costs no more from then on.
func Narrow(ctx context.Context) {
	c, _ := ctx.Value(connKey{}).(net.Conn)
	if b, ok := mux.Base(c).(interface{ SetWriteBuffer(bytes int) error }); ok {
		_ = b.SetWriteBuffer(narrowSize) // a wish
	}
}
