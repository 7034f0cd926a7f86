package executor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"cantina/executor/shim"
)

// MaxResult is how large a result file may be in bytes.
const MaxResult = 51200

// ErrResult reports a result file that is larger.
var ErrResult = errors.New("too large for a result")

const callResult = "result file of"

// plain is an error of the file system without the path, which another part of the message has.
func plain(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// ResultFile returns the result file of a completed container. It returns ErrUnknown, ErrState,
// ErrResult for one that is too large, or an error that there is none.
func (e *Executor) ResultFile(id string) ([]byte, error) {
	e.mu.Lock()
	c := e.containers[id]
	var state State
	var out *outcome
	if c != nil {
		state, out = c.state, c.outcome
	}
	e.mu.Unlock()
	switch {
	case c == nil:
		return nil, &CallError{callResult, id, ErrUnknown}
	case state != Completed:
		return nil, &CallError{callResult, id, ErrState}
	case out != nil:
		return out.file()
	}
	return c.files.resultFile()
}

// resultFile reads the container's result file; nil when it names none.
func (fl *files) resultFile() ([]byte, error) {
	id, name := fl.id, fl.spec.Workload.ResultFile
	if name == "" {
		return nil, nil
	}
	f, err := openBelow(fl.root(), name)
	if err != nil {
		return nil, &CallError{callResult, id, fmt.Errorf("file %s: %w", name, plain(err))}
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxResult+1))
	switch {
	case err != nil:
		return nil, &CallError{callResult, id, fmt.Errorf("file %s: %w", name, plain(err))}
	case len(text) > MaxResult:
		return nil, &CallError{callResult, id, fmt.Errorf("file %s: more than %d bytes: %w", name, MaxResult, ErrResult)}
	}
	return text, nil
}

// saveResult writes down how a kept container ended.
func (o *order) saveResult(r *RunResult) {
	if err := shim.Put(o.e.keepDir(o.id), resultFile, r, false); err != nil {
		o.e.log.Warn("result is not written down", "container", o.id, "error", err)
	}
}
