package cell

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cantina/internal/run"
	"cantina/worker"
)

// fickle answers heartbeats with the given answers, one after the other.
type fickle struct {
	Leader
	answers []error
}

func (f *fickle) Heartbeat(context.Context, worker.Heartbeat, State) (worker.HeartbeatAnswer, error) {
	err := f.answers[0]
	f.answers = f.answers[1:]
	return worker.HeartbeatAnswer{}, err
}

// TestSilenceIsReportedOnce: an operator reads that no leader answers, why, and that one
// answers again, each once.
func TestSilenceIsReportedOnce(t *testing.T) {
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
	const lost = `level=WARN msg="no answer from a leader; retrying" error="connection refused"`
	if want := lost + "\n" + `level=INFO msg="connected to the leader"` + "\n" + lost; strings.Join(got, "\n") != want {
		t.Errorf("%s", out.String())
	}
}

// TestEachCauseOfASilenceIsReported: once, also if the servers differ and ports change.
func TestEachCauseOfASilenceIsReported(t *testing.T) {
	var out strings.Builder
	f := &fickle{}
	for i := range 3 {
		f.answers = append(f.answers, fmt.Errorf("read tcp 127.0.0.1:%d: connection refused", 4000+i),
			errors.New("tls: bad certificate"))
	}
	f.answers = append(f.answers, nil, errors.New("tls: bad certificate"))
	s := &session{log: slog.New(slog.NewTextHandler(&out, nil)), leader: f, state: func() State { return State{} }}
	for len(f.answers) > 0 {
		s.hear(t.Context(), worker.Heartbeat{})
	}
	if n, m := strings.Count(out.String(), "refused"), strings.Count(out.String(), "certificate"); n != 1 || m != 2 {
		t.Errorf("%d and %d lines:\n%s", n, m, out.String())
	}
}

// TestAnElectionAtTheStartIsNoSilence: servers that have just started choose a leader. A server without a leader is
// reported, and so is a later loss.
func TestAnElectionAtTheStartIsNoSilence(t *testing.T) {
	const lost, found = "no answer from a leader; retrying", "connected to the leader"
	for name, c := range map[string]struct {
		answers []error
		want    string
	}{
		"an election":        {[]error{ErrNotLeader, ErrNotLeader, nil}, found},
		"no leader is found": {append(slices.Repeat([]error{ErrNotLeader}, 6), nil), lost + "|" + found},
		"no server":          {[]error{errors.New("refused"), nil}, lost + "|" + found},
		"a later one":        {[]error{nil, ErrNotLeader, nil}, found + "|" + lost + "|" + found},
	} {
		var out strings.Builder
		now := time.Duration(0)
		f := &fickle{answers: c.answers}
		s := &session{log: slog.New(slog.NewTextHandler(&out, nil)), leader: f, state: func() State { return State{} },
			clock: run.Clock{Boot: func() time.Duration { now += 3 * time.Second; return now }}}
		for len(f.answers) > 0 {
			s.hear(t.Context(), worker.Heartbeat{})
		}
		var got []string
		for _, x := range regexp.MustCompile(`msg="([^"]*)"`).FindAllStringSubmatch(out.String(), -1) {
			got = append(got, x[1])
		}
		if strings.Join(got, "|") != c.want {
			t.Errorf("%s: %s", name, out.String())
		}
	}
}
