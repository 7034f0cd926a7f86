package run

import (
	"context"
	"io"
)

// Reader reads from r until ctx is done, and then fails with its error: it ends a
// long copy. One Read that hangs is not ended.
func Reader(ctx context.Context, r io.Reader) io.Reader { return &reader{ctx.Err, r} }

type reader struct {
	over func() error
	r    io.Reader
}

// Read reads, unless the context is done.
func (r *reader) Read(p []byte) (int, error) {
	if err := r.over(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
