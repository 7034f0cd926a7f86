// Package api is the public interface of a server: the public calls (Connect, gRPC and JSON over
// POST from one definition), the /v1 layer for browsers and curl, the event stream, and the client
// that the CLI uses.
//
// It makes no decisions: a handler checks the form of a request, calls one method of the [Backend]
// of the current term, and writes the response. One table (errors.go) maps errors of the domain to
// a stable code, an HTTP status and an exit code.
//
// A server that does not lead has no Backend. It answers NotLeader with the address and term of
// the leader; clients follow.
//
//	standby ── Lead(backend) ──► leading ── Lead(nil) ──► standby
//
// For each term, the wiring makes a Backend of the leader's loops, which do not depend on this
// package.
package api
