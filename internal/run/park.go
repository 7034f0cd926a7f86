package run

import "context"

// Park is how a call waits for what others do. It returns what they call once when it is
// done, and what the call waits with: wait returns nil after wake, or the error of a context
// that ends first. wait is called once at most; wake may come before it.
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
