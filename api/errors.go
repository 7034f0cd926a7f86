package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"connectrpc.com/connect"

	"cantina/batch"
	"cantina/event"
	"cantina/executor/output"
	"cantina/fence"
	"cantina/internal/guard"
	"cantina/lrp"
	"cantina/schedule"
	"cantina/spec"
	"cantina/task"
	"cantina/wire"
	"cantina/worker"
)

// Errors that a Backend returns beside those of lrp and task. What they wrap is
// what the client reads.
var (
	ErrNotFound = errors.New("not found")
	// ErrCollected: it was there and was removed, with when and by which rule.
	ErrCollected = errors.New("collected")
	ErrExists    = errors.New("already exists")
	ErrConflict  = errors.New("not possible in this state")
	// ErrRevision: Write.Expect is not the revision of the thing.
	ErrRevision = errors.New("changed in the meantime")
	// ErrKeyReused: the idempotency key was used for another request.
	ErrKeyReused = errors.New("this idempotency key was used for another request")
	ErrInvalid   = errors.New("invalid request")
	// ErrTooLarge: more than fits into one transaction or message.
	ErrTooLarge = errors.New("too large")
	// ErrBusy: a queue is full; the same request may work later.
	ErrBusy = errors.New("too busy")
	// ErrUnknownOutcome: the term ended during the commit; nobody knows whether the
	// write landed. The same request with the same idempotency key is safe.
	ErrUnknownOutcome = errors.New("outcome unknown")
	// ErrTermOver: the leader's term ended, or cannot be proven any more; the next
	// leader answers.
	ErrTermOver = errors.New("the leader's term is over")
	// ErrFull: the store takes no more.
	ErrFull       = errors.New("the store is full")
	ErrNotAllowed = errors.New("not allowed")
	// ErrUnreachable: a cell did not answer.
	ErrUnreachable = errors.New("cell unreachable")
	// ErrNotYet: the part that would do it has not landed.
	ErrNotYet = errors.New("not yet")
)

// NotLeader says that this server does not lead, and who does.
type NotLeader struct {
	Leader string // address; empty = nobody known
	Term   fence.Term
}

// Error names the leader.
func (e *NotLeader) Error() string {
	if e.Leader == "" {
		return "this server does not lead, and no leader is known"
	}
	return "this server does not lead; the leader is " + e.Leader
}

// Alias says that one error means another: how the wiring tells what the errors of
// the leader's loops are, which this package does not know.
type Alias struct {
	// Err is the loop's error, As what it means: an error of this package.
	Err, As error
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
	return &FieldError{Err: fmt.Errorf("%s: %s: %w", field, fmt.Sprintf(problem, args...), ErrInvalid), Field: field}
}

// Exit codes of the CLI (docs/cli.md, Exit codes).
const (
	ExitOK         = 0
	ExitFailed     = 1 // refused or failed
	ExitUsage      = 2
	ExitNotFound   = 3
	ExitTimeout    = 4
	ExitConnection = 5 // no connection, or not allowed
	ExitLost       = 6 // lost, or nobody knows
)

// Class is one row of the error table: what an error of the domain is to the
// outside. Codes are stable.
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
	const repeat = "the same request with the same idempotency key is safe to repeat"
	return []Class{
		{"not_leader", http.StatusServiceUnavailable, connect.CodeUnavailable, ExitConnection, "ask the leader", as[*NotLeader]},
		{"invalid_spec", http.StatusUnprocessableEntity, connect.CodeInvalidArgument, ExitUsage, "", as[*spec.Problems]},
		{"unknown_outcome", http.StatusServiceUnavailable, connect.CodeAborted, ExitLost, repeat, among(ErrUnknownOutcome)},
		{"term_over", http.StatusServiceUnavailable, connect.CodeUnavailable, ExitConnection, "the next leader answers; " + repeat, among(ErrTermOver)},
		{"store_full", http.StatusInsufficientStorage, connect.CodeResourceExhausted, ExitFailed, "free space, or raise the quota of the store", among(ErrFull)},
		{"key_reused", http.StatusConflict, connect.CodeAlreadyExists, ExitFailed, "use a new key for a new request", among(ErrKeyReused)},
		{"revision_mismatch", http.StatusConflict, connect.CodeFailedPrecondition, ExitFailed, "read it again and decide anew", among(ErrRevision)},
		{"collected", http.StatusGone, connect.CodeNotFound, ExitNotFound, "", among(ErrCollected)},
		{"not_found", http.StatusNotFound, connect.CodeNotFound, ExitNotFound, "", among(ErrNotFound, lrp.ErrNotFound, task.ErrNotFound, batch.ErrUnknownJob, batch.ErrUnknownNode, worker.ErrUnknownProcess, schedule.ErrNotFound)},
		{"exists", http.StatusConflict, connect.CodeAlreadyExists, ExitFailed, "", among(ErrExists, task.ErrExists)},
		{"lost_unresolved", http.StatusConflict, connect.CodeFailedPrecondition, ExitLost, "cantina task resolve TASK --as done, failed or rerun", among(task.ErrLostUnresolved)},
		{"ending", http.StatusConflict, connect.CodeFailedPrecondition, ExitFailed, "wait until its cell says that its container is gone: cantina explain task/TASK; cantina rm --force waits for it", among(task.ErrEnding)},
		{"conflict", http.StatusConflict, connect.CodeFailedPrecondition, ExitFailed, "", among(ErrConflict, task.ErrInvalidStateTransition, task.ErrOtherUID, schedule.ErrOverlap, schedule.ErrFired)},
		{"not_allowed", http.StatusForbidden, connect.CodePermissionDenied, ExitConnection, "", among(ErrNotAllowed, guard.ErrForeign)},
		{"unauthenticated", http.StatusUnauthorized, connect.CodeUnauthenticated, ExitConnection, "", among(guard.ErrToken)},
		{"too_large", http.StatusRequestEntityTooLarge, connect.CodeResourceExhausted, ExitFailed, "split it", among(ErrTooLarge)},
		{"busy", http.StatusServiceUnavailable, connect.CodeResourceExhausted, ExitConnection, "try again in a moment", among(ErrBusy)},
		{"unreachable", http.StatusBadGateway, connect.CodeUnavailable, ExitConnection, "", among(ErrUnreachable)},
		{"stream_ended", http.StatusServiceUnavailable, connect.CodeUnavailable, ExitConnection, "connect again and resume", among(event.ErrClosed)},
		{"not_yet", http.StatusNotImplemented, connect.CodeUnimplemented, ExitFailed, "", among(ErrNotYet)},
		{"invalid", http.StatusUnprocessableEntity, connect.CodeInvalidArgument, ExitUsage, "",
			among(ErrInvalid, lrp.ErrInvalid, lrp.ErrNotUpdatable, task.ErrInvalid, schedule.ErrInvalid, schedule.ErrNoTime, wire.ErrMalformed, event.ErrPosition, output.ErrCursor, output.ErrRange)},
		{"timeout", http.StatusGatewayTimeout, connect.CodeDeadlineExceeded, ExitTimeout, "", among(context.DeadlineExceeded)},
		{"cancelled", 499, connect.CodeCanceled, ExitFailed, "", among(context.Canceled)},
		{"internal", http.StatusInternalServerError, connect.CodeInternal, ExitFailed, "the server's log has more under the request id", func(error) bool { return true }},
	}
}

// classify finds the row of an error.
func (s *Server) classify(err error) Class {
	err = s.translate(err)
	for _, c := range Classes() {
		if c.is(err) {
			return c
		}
	}
	panic("api: the last class fits everything")
}

// translate adds what the aliases say that an error means.
func (s *Server) translate(err error) error {
	for _, a := range s.cfg.Aliases {
		if errors.Is(err, a.Err) && !errors.Is(err, a.As) {
			err = &translated{err, a.As}
		}
	}
	return err
}

// translated is an error with its meaning; it prints like the error alone.
type translated struct{ err, as error }

func (t *translated) Error() string   { return t.err.Error() }
func (t *translated) Unwrap() []error { return []error{t.err, t.as} }
