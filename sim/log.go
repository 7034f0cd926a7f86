package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"cantina/fault"
	"cantina/task"
)

// complaints is the log of a leader's shells: a warning is a violation, unless a fault of the
// world explains it.
type complaints struct{ r *leadership }

// worldly are the warnings that faults of the world cause.
var worldly = []string{"cell did not answer a placement", "cell is alive but unavailable", "audit",
	"the wall clock was set", "term ends: a higher term exists",
	"segments cannot be merged", "adopted batch task is allocated on another cell"}

// Enabled implements slog.Handler.
func (c complaints) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

// Handle implements slog.Handler.
func (c complaints) Handle(_ context.Context, rec slog.Record) error {
	text, allowed := rec.Message, slices.Contains(worldly, rec.Message) || c.r.s.w.faults.corrupted > 0 &&
		rec.Message == "row quarantined"
	rec.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		if err, ok := a.Value.Any().(error); ok && (errors.Is(err, task.ErrRunningOnDifferentCell) ||
			errors.Is(err, fault.ErrQuarantined)) {
			allowed = true // its row has changed since, or is unreadable
		}
		return true
	})
	if !allowed {
		c.r.s.w.fail("contract", "leader %v: %s", c.r.term, text)
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (c complaints) WithAttrs([]slog.Attr) slog.Handler { return c }

// WithGroup implements slog.Handler.
func (c complaints) WithGroup(string) slog.Handler { return c }
