package line

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Path is where a server takes lines.
const Path = "/line"

const (
	protocol      = "cantina-line"
	headerAddress = "Cantina-Address"
	// openTime bounds the opening of a line.
	openTime = 5 * time.Second
)

// ErrRefused reports a server that answered and takes no line.
var ErrRefused = errors.New("the server takes no line")

// Accept takes a line: it answers the request that asks for one, hands the line to
// opened with the address that the other end can be called at (empty = none), and
// serves it until it ends or ctx is done.
func Accept(ctx context.Context, w http.ResponseWriter, q *http.Request, handler http.Handler, opened func(address string, l *Line)) {
	if !strings.EqualFold(q.Header.Get("Upgrade"), protocol) {
		w.Header().Set("Upgrade", protocol)
		http.Error(w, "this path takes lines of cells, which begin as an upgrade", http.StatusUpgradeRequired)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "a line needs HTTP/1.1: "+err.Error(), http.StatusHTTPVersionNotSupported)
		return
	}
	_ = conn.SetDeadline(time.Time{}) // a connection that is gone is found by reading
	if _, err := fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", protocol); err != nil {
		conn.Close()
		return
	}
	l := newLine(ctx, conn, buffered.Reader, handler)
	opened(q.Header.Get(headerAddress), l)
	_ = l.run() // whoever calls over it is told
}

// Dial makes the connection of a client's next line.
type Dial func(ctx context.Context) (net.Conn, error)

// Config is what a Client needs.
type Config struct {
	// Connect makes a connection; its error is returned as it is.
	Connect Dial
	// TLS protects the line; nil = plain. ServerName must be set.
	TLS *tls.Config
	// Host is what the request for a line is addressed to; Sign, when set, puts into its
	// header what shows who asks.
	Host string
	Sign func(context.Context, http.Header)
	// Handler serves the requests of the other end.
	Handler http.Handler
	// Address is where this end can be called without the line.
	Address string
	// Lost is called when a line ends and Close has not ended it. It must not wait.
	Lost func()
}

// Client is one end that opens its line when there is none. It implements connect's
// HTTPClient.
type Client struct {
	cfg     Config
	opening chan struct{} // one token: one opens at a time

	mu     sync.Mutex
	line   *Line
	closed bool
}

// NewClient returns a client without a line.
func NewClient(cfg Config) *Client {
	if cfg.Host == "" {
		cfg.Host = "localhost"
	}
	if cfg.Handler == nil {
		cfg.Handler = http.NotFoundHandler()
	}
	return &Client{cfg: cfg, opening: make(chan struct{}, 1)}
}

// Do implements connect's HTTPClient: it opens a line first when there is none.
func (c *Client) Do(q *http.Request) (*http.Response, error) {
	for again := false; ; again = true {
		l, err := c.open(q.Context())
		if err != nil {
			return nil, err
		}
		a, err := l.Do(q)
		if again || !errors.Is(err, ErrNotSent) || q.Context().Err() != nil {
			return a, err
		}
	}
}

func (c *Client) current() (*Line, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.line, c.closed
}

// open returns the line, a new one when there is none.
func (c *Client) open(ctx context.Context) (*Line, error) {
	select {
	case c.opening <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w (%w)", ErrNotSent, ctx.Err())
	}
	defer func() { <-c.opening }()
	l, closed := c.current()
	if closed {
		return nil, ErrNotSent
	}
	if l != nil && l.ended() == nil {
		return l, nil
	}
	limit, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	conn, err := c.cfg.Connect(limit)
	if err != nil {
		return nil, err
	}
	l, err = c.upgrade(limit, conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		conn.Close()
		return nil, ErrNotSent
	}
	c.line = l
	go func() { // ends with the line; Close waits for it
		if err := l.run(); !errors.Is(err, errClose) && c.cfg.Lost != nil {
			c.cfg.Lost()
		}
	}()
	return l, nil
}

// upgrade asks for a line.
func (c *Client) upgrade(ctx context.Context, conn net.Conn) (*Line, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if c.cfg.TLS != nil {
		conn = tls.Client(conn, c.cfg.TLS)
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.cfg.Host+Path, nil)
	if err != nil {
		return nil, err
	}
	q.Header.Set("Connection", "Upgrade")
	q.Header.Set("Upgrade", protocol)
	if c.cfg.Sign != nil {
		c.cfg.Sign(ctx, q.Header)
	}
	if c.cfg.Address != "" {
		q.Header.Set(headerAddress, c.cfg.Address)
	}
	if err := q.Write(conn); err != nil {
		return nil, fmt.Errorf("open a line: %w", err)
	}
	reader := bufio.NewReader(conn)
	a, err := http.ReadResponse(reader, q)
	if err != nil {
		return nil, fmt.Errorf("open a line: %w", err)
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusSwitchingProtocols {
		return nil, fmt.Errorf("%w: %s%s", ErrRefused, a.Status, said(a.Body))
	}
	if !stop() {
		return nil, fmt.Errorf("open a line: %w", ctx.Err())
	}
	return newLine(context.WithoutCancel(ctx), conn, reader, c.cfg.Handler), nil
}

// said is what a server's refusal has in words.
func said(body io.Reader) string {
	var problem struct{ Detail, Hint string }
	text, err := io.ReadAll(io.LimitReader(body, 4096))
	switch {
	case err != nil || json.Unmarshal(text, &problem) != nil || problem.Detail == "":
		return ""
	case problem.Hint != "":
		return ": " + problem.Detail + "; " + problem.Hint
	}
	return ": " + problem.Detail
}

// Idle ends the line unless a request is under way, and reports whether it has: the next request
// opens another.
func (c *Client) Idle() bool {
	l, _ := c.current()
	if l == nil {
		return true
	}
	l.mu.Lock()
	busy := len(l.waiting) > 0
	l.mu.Unlock()
	if !busy {
		l.fail(errClose)
	}
	return !busy
}

// Close ends the line; no other is opened.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	l := c.line
	c.mu.Unlock()
	if l != nil {
		l.Close()
	}
}
