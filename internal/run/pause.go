package run

import (
	"context"
	"time"
)

// Pause waits for d; it returns ctx's error at once when ctx is done before.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
