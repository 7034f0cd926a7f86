// Package etcdtest starts an etcd with default settings, for tests: on loopback, with the limits
// of an operator's etcd (128 operations, 1.5 MiB per transaction), in a temporary directory.
package etcdtest

import (
	"net/url"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"cantina/store/etcd"
)

// Server is a running etcd.
type Server struct {
	// Endpoint is its client address: "http://127.0.0.1:PORT".
	Endpoint string
	// Addr is its host and port.
	Addr string
}

// Start starts an etcd that ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	return StartWith(t, nil)
}

// StartWith starts an etcd whose configuration was changed by configure.
func StartWith(t testing.TB, configure func(*embed.Config)) *Server {
	t.Helper()
	c := embed.NewConfig()
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	c.LogLevel = "fatal"
	c.Dir = t.TempDir()
	c.TickMs, c.ElectionMs = 20, 200 // a single member waits for no other
	c.ListenPeerUrls = nil
	client := url.URL{Scheme: "http", Host: FreeAddr(t)}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	if configure != nil {
		configure(c)
	}
	e, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatalf("start etcd: %v", err)
	}
	t.Cleanup(e.Close)
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(time.Minute):
		t.Fatal("etcd is not ready after a minute")
	}
	return &Server{Endpoint: client.String(), Addr: client.Host}
}

// Dial returns a connection to it that ends with the test.
func (s *Server) Dial(t testing.TB) *etcd.Backend {
	t.Helper()
	return DialAt(t, s.Endpoint)
}

// DialAt returns a connection to an etcd, or to a proxy before one, that ends with
// the test.
func DialAt(t testing.TB, endpoint string) *etcd.Backend {
	t.Helper()
	c, err := etcd.Dial(etcd.ClusterConfig{Endpoints: []string{endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.Backend()
}
