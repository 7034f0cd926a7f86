package link

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"time"

	"cantina/internal/guard"
	"cantina/internal/mux"
	"cantina/wire/cantinav1/cantinav1connect"
)

// Security is how calls between leader and cells are protected; nil TLS is plain
// HTTP, for loopback and Unix sockets.
type Security struct {
	TLS *tls.Config
	// Token is shown at loopback ports, where no certificate names the caller.
	Token guard.Token
}

func (s Security) way(address string) *guard.Way { return s.Token.Way(address, s.TLS != nil) }

// dialError marks a request that certainly never left.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// dialTime bounds the making of a connection.
const dialTime = time.Second

// dial returns the way to make connections to a peer.
func dial(way *guard.Way) mux.Dial {
	return func(ctx context.Context) (net.Conn, error) {
		limit, cancel := context.WithTimeout(ctx, dialTime)
		defer cancel()
		c, err := way.Dial(limit)
		if err != nil {
			return nil, &dialError{err}
		}
		return c, nil
	}
}

// transport returns an HTTP transport for one peer, HTTP/1.1, with kept connections: for streams
// and output, and for cells without a connection of their own.
func transport(way *guard.Way, sec Security) http.RoundTripper {
	t := &http.Transport{
		TLSClientConfig:     sec.TLS,
		TLSNextProto:        map[string]func(string, *tls.Conn) http.RoundTripper{}, // HTTP/1.1 only
		MaxIdleConnsPerHost: 8,
		IdleConnTimeout:     guard.IdleTime,
		DisableCompression:  true,
	}
	signed := way.Transport(t)
	connect := dial(way)
	// with the mark that nothing was sent
	t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return connect(ctx) }
	return signed
}

// duplex returns the HTTP client for streams in both directions with one peer.
func duplex(way *guard.Way, sec Security) *http.Client {
	return &http.Client{Transport: way.Duplex(sec.TLS, dial(way))}
}

// baseURL is the URL of a peer; a Unix socket needs a substitute name.
func baseURL(way *guard.Way, sec Security) string {
	if sec.TLS != nil && !way.Unix() {
		return "https://" + way.Host()
	}
	return "http://" + way.Host()
}

// muxTLS is the protection of a connection to address.
func muxTLS(address string, sec Security) *tls.Config {
	if sec.TLS == nil || strings.HasPrefix(address, "unix:") {
		return nil
	}
	c := sec.TLS.Clone()
	if host, _, err := net.SplitHostPort(address); err == nil && c.ServerName == "" {
		c.ServerName = host
	}
	return c
}

// urgentPaths are the calls by which sessions live: they go before placements, rows and reads.
var urgentPaths = map[string]bool{
	cantinav1connect.LeaderServiceHeartbeatProcedure:             true,
	cantinav1connect.LeaderServiceUpdateStatusProcedure:          true,
	cantinav1connect.CellServiceGetRunningTasksProcedure:         true,
	cantinav1connect.CellServiceRunTasksProcedure:                true, // probes
	cantinav1connect.CellServiceNotifyIfTasksNotRunningProcedure: true,
	cantinav1connect.CellServiceKillTaskProcedure:                true,
	cantinav1connect.CellServiceRequestSuicideProcedure:          true,
}

func urgent(path string) bool { return urgentPaths[path] }

// othersAtOnce is how many other calls of cells a leader serves at once.
const othersAtOnce = 128
