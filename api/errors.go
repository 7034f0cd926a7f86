package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"connectrpc.com/connect"

	"cantina/event"
	"cantina/fault"
	"cantina/fence"
	"cantina/internal/guard"
	"cantina/spec"
	"cantina/task"
)

// NotLeader reports that this server does not lead, and the leader if it is known.
type NotLeader struct {
	Leader string // address; empty = unknown
	Term   fence.Term
}

// Error names the leader.
func (e *NotLeader) Error() string {
	if e.Leader == "" {
		return "not the leader; leader unknown"
	}
	return "not the leader; the leader is " + e.Leader
}

// FieldError adds the field of the request and a hint to an error.
type FieldError struct {
	Err         error
	Field, Hint string
}

// Error prints the error alone.
func (e *FieldError) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e *FieldError) Unwrap() error { return e.Err }

// invalid is ErrInvalid with its field.
func invalid(field, problem string, args ...any) error {
	return &FieldError{Err: fmt.Errorf("%s: %s: %w", field, fmt.Sprintf(problem, args...), fault.ErrInvalid), Field: field}
}

// Exit codes of the CLI (docs/cli.md, Exit codes).
const (
	ExitOK         = 0
	ExitFailed     = 1 // refused or failed
	ExitUsage      = 2
	ExitNotFound   = 3
	ExitTimeout    = 4
	ExitConnection = 5 // no connection, or not allowed
	ExitLost       = 6 // lost, or unknown
)

// Class is one row of the error table: the public form of an error of the domain. Codes are
// stable.
type Class struct {
	Code    string
	Status  int          // HTTP
	Connect connect.Code // Connect and gRPC
	Exit    int          // CLI
	Hint    string       // when the error has none
	is      func(error) bool
}

func among(targets ...error) func(error) bool {
	return func(err error) bool {
		for _, t := range targets {
			if errors.Is(err, t) {
				return true
			}
		}
		return false
	}
}

func as[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// Classes returns the error table. The first row that fits counts; the last fits
// everything.
func Classes() []Class {
	const repeat = "it is safe to repeat the same request with the same idempotency key"
	return []Class{
		{"not_leader", http.StatusServiceUnavailable, connect.CodeUnavailable, ExitConnection, "ask the leader",
			as[*NotLeader]},
		{"invalid_spec", http.StatusUnprocessableEntity, connect.CodeInvalidArgument, ExitUsage, "", as[*spec.Problems]},
		{"unknown_outcome", http.StatusServiceUnavailable, connect.CodeAborted, ExitLost, repeat,
			among(fault.ErrUnknownOutcome)},
		{"term_over", http.StatusServiceUnavailable, connect.CodeUnavailable, ExitConnection,
			"retry: the next leader will answer; " + repeat, among(fault.ErrTermOver)},
		{"store_full", http.StatusInsufficientStorage, connect.CodeResourceExhausted, ExitFailed,
			"free disk space, or raise the quota of the store", among(fault.ErrFull)},
		{"key_reused", http.StatusConflict, connect.CodeAlreadyExists, ExitFailed, "use a new key for a new request",
			among(fault.ErrKeyReused)},
		{"revision_mismatch", http.StatusConflict, connect.CodeFailedPrecondition, ExitFailed, "read it again, then retry",
			among(fault.ErrRevision)},
		{"collected", http.StatusGone, connect.CodeNotFound, ExitNotFound, "", among(fault.ErrCollected)},
		{"not_found", http.StatusNotFound, connect.CodeNotFound, ExitNotFound, "", among(fault.ErrNotFound)},
		{"exists", http.StatusConflict, connect.CodeAlreadyExists, ExitFailed, "", among(fault.ErrExists)},
		{"lost_unresolved", http.StatusConflict, connect.CodeFailedPrecondition, ExitLost,
			"cantina task resolve TASK --as done, failed or rerun", among(task.ErrLostUnresolved)},
		{"ending", http.StatusConflict, connect.CodeFailedPrecondition, ExitFailed,
			"wait until its cell reports that the container is gone (cantina explain task/TASK), or use cantina rm --force",
			among(task.ErrEnding)},
		{"conflict", http.StatusConflict, connect.CodeFailedPrecondition, ExitFailed, "", among(fault.ErrConflict)},
		{"not_allowed", http.StatusForbidden, connect.CodePermissionDenied, ExitConnection, "",
			among(fault.ErrNotAllowed, guard.ErrForeign)},
		{"unauthenticated", http.StatusUnauthorized, connect.CodeUnauthenticated, ExitConnection, "", among(guard.ErrToken)},
		{"too_large", http.StatusRequestEntityTooLarge, connect.CodeResourceExhausted, ExitFailed, "split the request",
			among(fault.ErrTooLarge)},
		{"busy", http.StatusServiceUnavailable, connect.CodeResourceExhausted, ExitConnection, "retry in a few seconds",
			among(fault.ErrBusy)},
		{"unreachable", http.StatusBadGateway, connect.CodeUnavailable, ExitConnection, "", among(fault.ErrUnreachable)},
		{"stream_ended", http.StatusServiceUnavailable, connect.CodeUnavailable, ExitConnection, "reconnect and resume",
			among(event.ErrClosed)},
		{"not_yet", http.StatusNotImplemented, connect.CodeUnimplemented, ExitFailed, "", among(fault.ErrNotYet)},
		{"invalid", http.StatusUnprocessableEntity, connect.CodeInvalidArgument, ExitUsage, "", among(fault.ErrInvalid)},
		{"timeout", http.StatusGatewayTimeout, connect.CodeDeadlineExceeded, ExitTimeout, "",
			among(context.DeadlineExceeded)},
		{"cancelled", 499, connect.CodeCanceled, ExitFailed, "", among(context.Canceled)},
		{"internal", http.StatusInternalServerError, connect.CodeInternal, ExitFailed,
			"see the server's log for this request id", func(error) bool { return true }},
	}
}

// classify finds the row of an error.
func (s *Server) classify(err error) Class {
	for _, c := range Classes() {
		if c.is(err) {
			return c
		}
	}
	panic("api: the last class fits everything")
}
