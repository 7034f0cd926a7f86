package link

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"time"

	"cantina/internal/line"
)

// Security is how calls between leader and cells are protected; nil TLS is plain
// HTTP, for loopback and Unix sockets.
type Security struct{ TLS *tls.Config }

// dialError marks a request that certainly never left.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// keepIdle is how long a connection is kept without a call: not long, for a server
// with ten thousand cells has few descriptors to spare.
const keepIdle = 20 * time.Second

// dial returns the way to make connections to a peer.
func dial(address string) line.Dial {
	network, target := "tcp", address
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, target = "unix", path
	}
	dialer := &net.Dialer{Timeout: time.Second}
	return func(ctx context.Context) (net.Conn, error) {
		c, err := dialer.DialContext(ctx, network, target)
		if err != nil {
			return nil, &dialError{err}
		}
		return c, nil
	}
}

// transport returns an HTTP transport for one peer, HTTP/1.1, with kept
// connections: for streams and output, and for what has no line.
func transport(address string, sec Security) *http.Transport {
	connect := dial(address)
	return &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return connect(ctx) },
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

// lineTLS is the protection of a line to address.
func lineTLS(address string, sec Security) *tls.Config {
	if sec.TLS == nil || strings.HasPrefix(address, "unix:") {
		return nil
	}
	c := sec.TLS.Clone()
	if host, _, err := net.SplitHostPort(address); err == nil && c.ServerName == "" {
		c.ServerName = host
	}
	return c
}
