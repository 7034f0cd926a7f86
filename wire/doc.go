// Package wire converts the domain's values to protobuf messages and back. The messages themselves
// are generated from wire/proto into package cantinav1, the services of the API and of the calls
// between leader and cells into package cantinav1connect.
//
// Converting to the wire cannot fail: every domain value has a wire form, including text that is
// not UTF-8. Converting from the wire checks the structure (one kind per step, bounded depth,
// durations that fit, no NUL in a process's texts) and returns ErrMalformed; the caller checks the
// meaning of the values. Unknown enumerators of a newer peer are malformed, never a default.
//
// Any shell may use the package; core packages may not.
package wire

import (
	"cantina/fault"
)

// ErrMalformed reports a message that has no meaning in the domain.
var ErrMalformed = fault.New(fault.ErrInvalid, "malformed message")

//go:generate ./generate.sh
