package cell

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"cantina/worker"
)

// fickle answers heartbeats as it is told, one after the other.
type fickle struct {
	Leader
	answers []error
}

func (f *fickle) Heartbeat(context.Context, worker.Heartbeat, State) (worker.HeartbeatAnswer, error) {
	err := f.answers[0]
	f.answers = f.answers[1:]
	return worker.HeartbeatAnswer{}, err
}

// TestSilenceIsToldOnce: an operator reads that no leader answers, why, and that one
// answers again, each once.
func TestSilenceIsToldOnce(t *testing.T) {
	refused := errors.New("connection refused")
	var out strings.Builder
	f := &fickle{answers: []error{refused, refused, nil, nil, refused}}
	s := &session{log: slog.New(slog.NewTextHandler(&out, nil)), leader: f, state: func() State { return State{} }}
	for len(f.answers) > 0 {
		s.hear(t.Context(), worker.Heartbeat{})
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		_, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		got = append(got, text)
	}
	const lost = `level=WARN msg="no leader answers; the cell goes on trying" error="connection refused"`
	if want := lost + "\n" + `level=INFO msg="a leader answers"` + "\n" + lost; strings.Join(got, "\n") != want {
		t.Errorf("%s", out.String())
	}
}
