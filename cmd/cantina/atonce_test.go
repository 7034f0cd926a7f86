package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// TestTheCauseOfAFailedServerIsLoggedAtOnce: the cell beside it may take some time to end. A
// requested end is no failure.
func TestTheCauseOfAFailedServerIsLoggedAtOnce(t *testing.T) {
	failed := errors.New("the log is missing")
	asked, ask := context.WithCancel(t.Context())
	ask()
	for _, c := range []struct {
		ctx    context.Context
		err    error
		logged bool
	}{{t.Context(), failed, true}, {t.Context(), nil, false}, {asked, context.Canceled, false}} {
		var out bytes.Buffer
		abandoned := false
		err := atOnce(slog.New(slog.NewTextHandler(&out, nil)), func(context.Context) error { return c.err },
			func() { abandoned = true })(c.ctx)
		if !errors.Is(err, c.err) || strings.Contains(out.String(), failed.Error()) != c.logged ||
			(out.Len() > 0) != c.logged || abandoned != c.logged {
			t.Errorf("%v: %v, %q", c.err, err, out.String())
		}
	}
}
