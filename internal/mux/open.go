package mux

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

	"cantina/internal/tlserr"
)

// Path is where a server takes connections.
const Path = "/mux"

const (
	protocol      = "cantina-mux"
	headerAddress = "Cantina-Address"
	// openTime bounds the opening of a connection.
	openTime = 5 * time.Second
)

// ErrRefused reports a server that answered and takes no connection.
var ErrRefused = errors.New("the server takes no connection")

// Accept takes a connection: it answers the request that asks for one, hands the connection to
// opened with the address that the other end can be called at (empty = none), and
// serves it until it ends or ctx is done.
func Accept(ctx context.Context, w http.ResponseWriter, q *http.Request, service Service,
	opened func(address string, l *Conn)) {
	if !strings.EqualFold(q.Header.Get("Upgrade"), protocol) {
		w.Header().Set("Upgrade", protocol)
		http.Error(w, "this path takes connections of cells, which begin as an upgrade", http.StatusUpgradeRequired)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "a connection needs HTTP/1.1: "+err.Error(), http.StatusHTTPVersionNotSupported)
		return
	}
	_ = conn.SetDeadline(time.Time{}) // a connection that is gone is found by reading
	if _, err := fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n",
		protocol); err != nil {
		conn.Close()
		return
	}
	l := newConn(ctx, conn, buffered.Reader, service)
	opened(q.Header.Get(headerAddress), l)
	_ = l.run() // its callers get the error
}

// Dial makes the connection of a client's next connection.
type Dial func(ctx context.Context) (net.Conn, error)

// Config is the configuration of a Client.
type Config struct {
	// Connect makes a connection; its error is returned as it is.
	Connect Dial
	// TLS protects the connection; nil = plain. ServerName must be set.
	TLS *tls.Config
	// Host is the callee of the request for a connection; Sign, if set, adds the caller's credentials
	// to its header.
	Host string
	Sign func(context.Context, http.Header)
	Service
	// Address is where this end can be called without the connection.
	Address string
	// Lost is called when a connection ends and Close has not ended it. It must not wait.
	Lost func()
}

// Client is one end that opens its connection when there is none. It implements connect's
// HTTPClient.
type Client struct {
	cfg     Config
	opening chan struct{} // one token: one opens at a time

	mu     sync.Mutex
	live   *Conn
	closed bool
}

// NewClient returns a client without a connection.
func NewClient(cfg Config) *Client {
	if cfg.Host == "" {
		cfg.Host = "localhost"
	}
	if cfg.Handler == nil {
		cfg.Handler = http.NotFoundHandler()
	}
	return &Client{cfg: cfg, opening: make(chan struct{}, 1)}
}

// Do implements connect's HTTPClient: it opens a connection first when there is none.
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

func (c *Client) current() (*Conn, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live, c.closed
}

// open returns the connection, a new one when there is none.
func (c *Client) open(ctx context.Context) (*Conn, error) {
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
		return nil, tlserr.Explained(err, c.cfg.TLS != nil)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		conn.Close()
		return nil, ErrNotSent
	}
	c.live = l
	go func() { // ends with the connection; Close waits for it
		if err := l.run(); !errors.Is(err, errClose) && c.cfg.Lost != nil {
			c.cfg.Lost()
		}
	}()
	return l, nil
}

// upgrade requests a connection.
func (c *Client) upgrade(ctx context.Context, conn net.Conn) (*Conn, error) {
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
		return nil, fmt.Errorf("open a connection: %w", err)
	}
	reader := bufio.NewReader(conn)
	a, err := http.ReadResponse(reader, q)
	if err != nil {
		return nil, fmt.Errorf("open a connection: %w", err)
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusSwitchingProtocols {
		return nil, fmt.Errorf("%w: %s%s", ErrRefused, a.Status, said(a.Body))
	}
	if !stop() {
		return nil, fmt.Errorf("open a connection: %w", ctx.Err())
	}
	return newConn(context.WithoutCancel(ctx), conn, reader, c.cfg.Service), nil
}

// said is the text of a server's refusal.
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

// EndIfCut ends a connection whose other end's machine does not acknowledge what was sent. It is for
// callers that have no answer, and go on to wait for it.
func (c *Client) EndIfCut() {
	if l, _ := c.current(); l != nil && cut(l.conn) {
		l.fail(errSilent)
	}
}

// Idle ends the connection unless a request is in progress, and reports whether it has: the next
// request opens another.
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

// Close ends the connection; no other is opened.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	l := c.live
	c.mu.Unlock()
	if l != nil {
		l.Close()
	}
}
