// Package mux carries unary HTTP requests in both directions over one kept connection. A cell
// opens a connection to its leader: its own calls and the leader's calls to it share one
// descriptor at either end. A call costs a frame in either direction instead of the work of an
// HTTP server and client. Handlers and clients are those of net/http: the connection only replaces
// the transport between them.
//
// A connection begins as an HTTP/1.1 request for an upgrade, so it uses the same listener, with
// the same TLS, as all other requests. It retries nothing: a request whose response is lost has an
// unknown outcome; ErrNotSent is the only proof that a request was not sent.
package mux
