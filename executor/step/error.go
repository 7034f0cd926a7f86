package step

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"
)

// Errors of this package; ExitError, StartError and TimeoutError have more detail.
var (
	// ErrCanceled: the run was ended from outside.
	ErrCanceled = errors.New("canceled")
	// ErrTimeLimit: the workload's time limit was exceeded.
	ErrTimeLimit = errors.New("time limit exceeded")
	// ErrEnded: a part ended, with success, on which others depend.
	ErrEnded = errors.New("ended, which ends the others too")
	// ErrStuck: a program did not end although it was killed.
	ErrStuck = errors.New("did not end although it was killed")
	// ErrEmpty: an action without content.
	ErrEmpty = errors.New("empty action")
	// ErrUnhealthy: the checks ended the container.
	ErrUnhealthy = errors.New("unhealthy")
	// ErrDownload and ErrUpload: a transfer failed.
	ErrDownload = errors.New("downloading failed")
	ErrUpload   = errors.New("uploading failed")
)

// ExitError is a program that ended without success.
type ExitError struct {
	Path    string
	Exit    Exit
	Process Process
	// Output is the end of the output of a check's program.
	Output string
}

// Error describes how it ended.
func (e *ExitError) Error() string {
	s := fmt.Sprintf("%s: exit status %d", e.Path, e.Exit.Code)
	if e.Exit.Signal != 0 {
		s = fmt.Sprintf("%s: killed by signal %d (%v)", e.Path, e.Exit.Signal, syscall.Signal(e.Exit.Signal))
	}
	if e.Exit.OutOfMemory {
		s += " (out of memory)"
	}
	if e.Output != "" {
		s += ": " + e.Output
	}
	return s
}

// StartError is a program that could not be started.
type StartError struct {
	Path string
	Err  error
}

// Error returns the reason.
func (e *StartError) Error() string { return fmt.Sprintf("%s: cannot be started: %v", e.Path, e.Err) }

// Unwrap gives the host's error.
func (e *StartError) Unwrap() error { return e.Err }

// TimeoutError is a timeout action whose time is over.
type TimeoutError struct {
	After time.Duration
	Err   error // the error of its action when it was stopped; may be nil
}

// Error contains the word timeout, for which the owners of tasks search.
func (e *TimeoutError) Error() string {
	s := fmt.Sprintf("exceeded timeout of %v", e.After)
	if e.Err != nil {
		s += "; " + e.Err.Error()
	}
	return s
}

// Unwrap gives the inner error.
func (e *TimeoutError) Unwrap() error { return e.Err }

// canceled reports that ctx has ended, and why if there was a reason.
func canceled(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return fmt.Errorf("%w: %w", ErrCanceled, cause)
	}
	return ErrCanceled
}

// prefix names the part that failed.
func prefix(part string, err error) error {
	if err == nil || errors.Is(err, ErrCanceled) {
		return err
	}
	return fmt.Errorf("%s: %w", part, err)
}

// joined are several errors in one line.
type joined []error

func (j joined) Error() string {
	texts := make([]string, len(j))
	for i, err := range j {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (j joined) Unwrap() []error { return j }

// join leaves out nil; of one error it is that error.
func join(errs ...error) error {
	var j joined
	for _, err := range errs {
		if err != nil {
			j = append(j, err)
		}
	}
	switch len(j) {
	case 0:
		return nil
	case 1:
		return j[0]
	}
	return j
}

// maxReason is the longest reason in bytes that is kept. (Diego executor, RunResult.)
const maxReason = 10000

// Reason is the text of err as it is kept and shown: of a long one the middle is
// left out. It is empty for nil.
func Reason(err error) string {
	if err == nil {
		return ""
	}
	s := err.Error()
	if len(s) <= maxReason {
		return s
	}
	const mark = " … "
	half := (maxReason - len(mark)) / 2
	return strings.ToValidUTF8(s[:half], "") + mark + strings.ToValidUTF8(s[len(s)-half:], "")
}
