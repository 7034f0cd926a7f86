// Package api is what the outside sees of a server: the public calls (Connect,
// gRPC and JSON over POST from one definition), the /v1 layer for browsers and
// curl, the event stream, and the client that the CLI uses.
//
// It decides nothing: a handler checks the form of a request, asks one method of
// the [Backend] of the current term, and puts the answer on the wire. Errors of
// the domain become a stable code, an HTTP status and an exit code in one table
// (errors.go).
//
// A server that does not lead has no Backend. It answers NotLeader with the
// address and term of the leader; clients follow.
//
//	standby ── Lead(backend) ──► leading ── Lead(nil) ──► standby
//
// The wiring in cmd makes a Backend for each term out of the leader's loops, each
// of which knows nothing of this package.
package api
