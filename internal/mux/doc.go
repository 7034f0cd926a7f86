// Package mux carries unary HTTP requests in both directions over one kept
// connection. A cell opens a connection to its leader: its own calls and the leader's
// calls to it share one descriptor at either end, and a call costs a frame in
// either direction instead of the work of an HTTP server and client. Handlers and
// clients are those of net/http: the connection only replaces what is between them.
//
// A connection begins as an HTTP/1.1 request that asks for an upgrade, so it comes in by
// the same listener, with the same TLS, as everything else. It retries nothing: a
// request whose answer is lost has an unknown outcome; ErrNotSent is the only proof
// that one never left.
package mux
