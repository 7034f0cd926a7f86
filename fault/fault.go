// Package fault has the kinds of errors that callers act on. Every layer wraps one of them, or an
// error that New made from one, so that the API needs no list of the errors below it. A kind
// determines the client's response (code, HTTP status, exit code; the table is in package api).
package fault

import "errors"

// The kinds.
var (
	ErrNotFound = errors.New("not found")
	// ErrCollected: it was there and was removed, with when and by which rule.
	ErrCollected = errors.New("collected")
	ErrExists    = errors.New("already exists")
	ErrConflict  = errors.New("not possible in this state")
	// ErrRevision: plan.Write.Expect is not the revision of the resource.
	ErrRevision = errors.New("modified in the meantime")
	// ErrKeyReused: the idempotency key was used for another request.
	ErrKeyReused = errors.New("idempotency key already used for another request")
	ErrInvalid   = errors.New("invalid request")
	// ErrTooLarge: more than fits into one transaction or message.
	ErrTooLarge = errors.New("too large")
	// ErrBusy: a queue is full; the same request may work later.
	ErrBusy = errors.New("too busy")
	// ErrUnknownOutcome: the term ended during the commit; the write may have landed. The
	// same request with the same idempotency key is safe.
	ErrUnknownOutcome = errors.New("outcome unknown")
	// ErrTermOver: the leader's term ended, or cannot be proven any more; the next
	// leader answers.
	ErrTermOver = errors.New("the leader's term has ended")
	// ErrFull: the store accepts no further writes.
	ErrFull       = errors.New("the store is full")
	ErrNotAllowed = errors.New("not allowed")
	// ErrUnreachable: a cell did not answer.
	ErrUnreachable = errors.New("cell unreachable")
	// ErrNotYet: the part that would do it has not landed.
	ErrNotYet = errors.New("not yet")
)

// Errors of a kind that several packages return.
var (
	// ErrQuarantined: the row of the resource cannot be read; it is kept until an operator decides.
	ErrQuarantined = New(ErrConflict, "row is unreadable and quarantined")
)

// New returns an error of a kind with its own text.
func New(kind error, text string) error { return As(errors.New(text), kind) }

// As returns err with a further kind. It prints like err alone.
func As(err, kind error) error { return &fault{err, kind} }

type fault struct{ err, kind error }

// Error returns the text of the error.
func (f *fault) Error() string { return f.err.Error() }

// Unwrap returns the error and its kind.
func (f *fault) Unwrap() []error { return []error{f.err, f.kind} }
