package run

import "context"

// Park is how a call waits for others. It returns wake, which they call once when it is done, and
// wait, with which the call waits: wait returns nil after wake, or the error of a context that
// ends first. wait is called at most once; wake may come before it.
type Park func() (wake func(), wait func(ctx context.Context) error)

// OnChannel is the Park of a goroutine.
func OnChannel() (wake func(), wait func(ctx context.Context) error) {
	done := make(chan struct{})
	return func() { close(done) }, func(ctx context.Context) error {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
