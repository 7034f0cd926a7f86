package mux

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"cantina/internal/run"
)

var (
	// ErrNotSent reports a request that certainly never left.
	ErrNotSent = errors.New("not sent: the connection has ended")
	// ErrEnded reports a connection that ended while a request was in progress: its outcome is
	// unknown.
	ErrEnded  = errors.New("the connection ended before the answer")
	errClose  = errors.New("closed here")
	errSilent = fmt.Errorf("%w: the other machine does not acknowledge", errClose)
)

const (
	// maxServed bounds the requests of the other end that are served at once, or wait for that, and
	// maxUrgent the urgent ones.
	maxServed = 256
	maxUrgent = 64
	// writeTime bounds the writing of one frame; then the connection ends.
	writeTime = 10 * time.Second
)

// Service is how the requests of other ends are served.
type Service struct {
	Handler http.Handler
	// Urgent reports the paths of requests that go before all others, on the wire and when they are
	// served; nil = none. Both ends must have the same.
	Urgent func(path string) bool
	// Others has a place for each request that is not urgent and is served, over all connections;
	// requests beyond it wait. A handler that only waits leaves its place (run.LeavePlace). nil = no bound.
	Others chan struct{}
	// Waiting, if set, counts those that wait now, and Waited gets for how long each one did.
	Waiting *atomic.Int64
	Waited  func(time.Duration)
}

// enter takes a place for a request that is not urgent, false = none before ctx was done.
func (s Service) enter(ctx context.Context) bool {
	select {
	case s.Others <- struct{}{}:
		return true
	default:
	}
	if s.Waiting != nil {
		s.Waiting.Add(1)
		defer s.Waiting.Add(-1)
	}
	begun := time.Now()
	select {
	case s.Others <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	if s.Waited != nil {
		s.Waited(time.Since(begun))
	}
	return true
}

func (s Service) urgent(path string) bool { return s.Urgent != nil && s.Urgent(path) }

// Conn is one connection with requests in both directions. Its methods may be used
// from any goroutine.
type Conn struct {
	conn    net.Conn
	reader  *bufio.Reader
	service Service
	ctx     context.Context // of what is served
	cancel  context.CancelFunc
	writing turns
	frames  atomic.Int64 // frames that have come
	behind  atomic.Int64 // urgent requests that have come and are not being served yet
	more    atomic.Bool  // the reader holds what is not handled

	mu      sync.Mutex
	waiting map[uint32]chan *frame
	last    uint32
	err     error // why it ended

	serving sync.WaitGroup
	served  chan struct{} // one token for each request that is served, or waits for that
	hurried chan struct{} // the same of urgent ones
	done    chan struct{} // closed when Run has returned
}

// newConn returns a connection over conn; reader may hold what has come already. Requests
// of the other end are served within ctx.
func newConn(ctx context.Context, conn net.Conn, reader *bufio.Reader, service Service) *Conn {
	l := &Conn{conn: conn, reader: reader, service: service, waiting: map[uint32]chan *frame{},
		served: make(chan struct{}, maxServed), hurried: make(chan struct{}, maxUrgent), done: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(ctx)
	return l
}

// run reads until the connection ends, and returns why when all that was served has
// returned.
func (l *Conn) run() error {
	defer close(l.done)
	stop := context.AfterFunc(l.ctx, func() { l.fail(errClose) })
	defer stop()
	for {
		f, err := read(l.reader)
		if err != nil {
			l.fail(err)
			break
		}
		l.frames.Add(1)
		if f.answer {
			l.answered(f)
		} else {
			l.asked(f)
		}
		l.more.Store(l.reader.Buffered() > 0)
	}
	l.serving.Wait()
	return l.ended()
}

// ended returns why the connection ended, or nil.
func (l *Conn) ended() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// fail ends the connection, once: waiting callers get the error, served requests are cancelled.
func (l *Conn) fail(err error) {
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		return
	}
	l.err = err
	waiting := l.waiting
	l.waiting = nil
	l.mu.Unlock()
	l.cancel()
	l.conn.Close()
	for _, c := range waiting {
		close(c)
	}
}

// End ends the connection and does not wait.
func (l *Conn) End() { l.fail(errClose) }

// Close ends the connection and waits for the requests that it serves.
func (l *Conn) Close() {
	l.fail(errClose)
	<-l.done
}

func (l *Conn) answered(f *frame) {
	l.mu.Lock()
	c := l.waiting[f.id]
	delete(l.waiting, f.id)
	l.mu.Unlock()
	if c != nil { // otherwise no caller waits for it any more
		c <- f
	}
}

// asked serves a request of the other end; one too many is refused.
func (l *Conn) asked(f *frame) {
	urgent := l.service.urgent(f.path)
	room, others := l.served, l.service.Others
	if urgent {
		room, others = l.hurried, nil
		l.behind.Add(1)
	}
	over := func() {
		if urgent {
			l.behind.Add(-1)
		}
	}
	select {
	case room <- struct{}{}:
	default:
		l.reply(f.id, urgent, &answer{status: http.StatusServiceUnavailable})
		over()
		return
	}
	l.serving.Go(func() {
		defer func() { <-room }()
		over()
		ctx, leave := l.ctx, func() {}
		if others != nil {
			if !l.service.enter(l.ctx) {
				return
			}
			leave = sync.OnceFunc(func() { <-others })
			ctx = run.WithPlace(ctx, leave)
		}
		a := &answer{}
		l.serve(ctx, f, a)
		leave()
		l.reply(f.id, urgent, a)
	})
}

// Behind reports whether something has arrived that is not handled: an urgent request that is not
// served yet, or bytes that were not read.
func (l *Conn) Behind() bool { return l.behind.Load() > 0 || l.more.Load() || unread(l.conn) }

func (l *Conn) serve(ctx context.Context, f *frame, a *answer) {
	defer func() {
		if p := recover(); p != nil { // as an HTTP server does: remote input ends no process
			*a = answer{status: http.StatusInternalServerError, body: fmt.Appendf(nil, "panic: %v", p)}
		}
	}()
	q := &http.Request{Method: http.MethodPost, URL: &url.URL{Path: f.path}, RequestURI: f.path, Header: f.header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(bytes.NewReader(f.body)), ContentLength: int64(len(f.body)),
		RemoteAddr: l.conn.RemoteAddr().String()}
	l.service.Handler.ServeHTTP(a, q.WithContext(ctx))
}

func (l *Conn) reply(id uint32, urgent bool, a *answer) {
	f := frame{answer: true, id: id, status: a.code(), header: a.header, body: a.body}
	b, err := f.encode()
	if err != nil {
		f = frame{answer: true, id: id, status: http.StatusInternalServerError, body: []byte(err.Error())}
		if b, err = f.encode(); err != nil {
			l.fail(err)
			return
		}
	}
	if err := l.write(l.ctx, urgent, b); err != nil {
		l.fail(err)
	}
}

// write writes a whole frame. The error is ErrNotSent when nothing of it left.
func (l *Conn) write(ctx context.Context, urgent bool, b []byte) error {
	if err := l.writing.take(ctx, urgent); err != nil {
		return err
	}
	defer l.writing.give()
	if l.ended() != nil {
		return ErrNotSent
	}
	// Not ctx's own: a frame that is cut ends the connection, and with it all other requests.
	if err := l.conn.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return err
	}
	_, err := l.conn.Write(b)
	return err
}

// Do sends a request and returns its answer: connect's HTTPClient. When the
// request's time is over and nothing at all has come meanwhile, the connection ends. After
// ErrNotSent the request has its body again.
func (l *Conn) Do(q *http.Request) (*http.Response, error) {
	var body []byte
	if q.Body != nil {
		var err error
		body, err = io.ReadAll(q.Body)
		q.Body.Close()
		if err != nil {
			return nil, fmt.Errorf("body of the request: %w", err)
		}
	}
	a, err := l.do(q, body)
	if errors.Is(err, ErrNotSent) {
		q.Body = io.NopCloser(bytes.NewReader(body))
	}
	return a, err
}

func (l *Conn) do(q *http.Request, body []byte) (*http.Response, error) {
	f := frame{path: q.URL.Path, header: q.Header, body: body}
	c := make(chan *frame, 1)
	if !l.enlist(&f, c) {
		return nil, ErrNotSent
	}
	b, err := f.encode()
	if err != nil {
		l.forget(f.id)
		return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	before := l.frames.Load()
	if err := l.write(q.Context(), l.service.urgent(f.path), b); err != nil {
		l.forget(f.id)
		if !errors.Is(err, ErrNotSent) {
			l.fail(err)
		}
		return nil, err
	}
	select {
	case a, ok := <-c:
		if !ok {
			return nil, fmt.Errorf("%w: %w", ErrEnded, l.ended())
		}
		return a.response(q), nil
	case <-q.Context().Done():
		l.forget(f.id)
		if errors.Is(q.Context().Err(), context.DeadlineExceeded) && l.frames.Load() == before && cut(l.conn) {
			l.fail(errSilent)
		}
		return nil, q.Context().Err()
	}
}

// enlist gives f its id; false = the connection has ended.
func (l *Conn) enlist(f *frame, c chan *frame) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return false
	}
	for l.last++; l.waiting[l.last] != nil; l.last++ {
	}
	f.id = l.last
	l.waiting[f.id] = c
	return true
}

func (l *Conn) forget(id uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, id)
}

func (f *frame) response(q *http.Request) *http.Response {
	return &http.Response{Status: strconv.Itoa(f.status) + " " + http.StatusText(f.status), StatusCode: f.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: f.header, Body: io.NopCloser(bytes.NewReader(f.body)), ContentLength: int64(len(f.body)), Request: q}
}

// answer collects the response of a handler.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a *answer) code() int {
	if a.status == 0 {
		return http.StatusOK
	}
	return a.status
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header {
	if a.header == nil {
		a.header = http.Header{}
	}
	return a.header
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	a.body = append(a.body, b...)
	return len(b), nil
}
