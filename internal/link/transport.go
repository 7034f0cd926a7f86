package link

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Security is how calls between leader and cells are protected; nil TLS is plain
// HTTP, for loopback and Unix sockets.
type Security struct{ TLS *tls.Config }

// dialError marks a request that certainly never left.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// keepIdle is how long a connection is kept without a call: longer than between two
// heartbeats or probes, so one is kept for good, and not much longer, so those of a
// burst go. A server with ten thousand cells has few descriptors to spare.
const keepIdle = 20 * time.Second

// transport returns an HTTP transport for one peer, HTTP/1.1, with kept
// connections. lost, when not nil, is called when a connection ends.
func transport(address string, sec Security, lost func()) *http.Transport {
	network, target := "tcp", address
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, target = "unix", path
	}
	dialer := &net.Dialer{Timeout: time.Second}
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, target)
			if err != nil {
				return nil, &dialError{err}
			}
			if lost == nil {
				return c, nil
			}
			return &watched{Conn: c, lost: lost}, nil
		},
		TLSClientConfig:     sec.TLS,
		TLSNextProto:        map[string]func(string, *tls.Conn) http.RoundTripper{}, // HTTP/1.1 only
		MaxIdleConnsPerHost: 8,
		IdleConnTimeout:     keepIdle,
		DisableCompression:  true,
	}
}

// baseURL is the URL of a peer; a Unix socket needs a name that stands for it.
func baseURL(address string, sec Security) string {
	scheme, host := "http://", address
	if sec.TLS != nil {
		scheme = "https://"
	}
	if strings.HasPrefix(address, "unix:") {
		host = "cell.invalid"
	}
	return scheme + host
}

// watched tells when its connection ends by the peer's doing.
type watched struct {
	net.Conn
	lost func()
	once sync.Once
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	var timeout net.Error
	if err != nil && (!errors.As(err, &timeout) || !timeout.Timeout()) && !errors.Is(err, net.ErrClosed) {
		w.once.Do(w.lost)
	}
	return n, err
}
