package executor

import (
	"log/slog"
	"testing"
	"time"

	"cantina/image/cache"
	"cantina/internal/run"
)

// TestPartsShareClockAndLog: the parts use the clock and the log of the executor, unless they have their own.
func TestPartsShareClockAndLog(t *testing.T) {
	at := time.Unix(17, 0)
	clock := run.Clock{Wall: func() time.Time { return at }, Boot: func() time.Duration { return 7 }}
	log, own := slog.New(slog.DiscardHandler), slog.New(slog.DiscardHandler)
	c := Config{Clock: clock, Log: log, Cache: cache.Config{Log: own}}.withDefaults()
	for name, got := range map[string]run.Clock{"output": c.Output.Clock, "cache": c.Cache.Clock, "image": c.Image.Clock} {
		if got.Wall == nil || !got.Wall().Equal(at) {
			t.Errorf("%s has another clock", name)
		}
	}
	if c.Output.Log != log || c.Image.Log != log || c.Cache.Log != own {
		t.Error("a part has another log")
	}
}
