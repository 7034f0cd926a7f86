package link

import (
	"context"
	"errors"
	"testing"
	"time"

	"cantina/cell"
	"cantina/worker"
)

// slow answers heartbeats when it is released, the second at once.
type slow struct {
	leader
	began, release chan struct{}
}

func (l *slow) Heartbeat(ctx context.Context, b worker.Heartbeat, s cell.State) (worker.HeartbeatAnswer, error) {
	if b.Beat != 2 {
		l.began <- struct{}{}
		select {
		case <-l.release:
		case <-ctx.Done():
		}
	}
	return worker.HeartbeatAnswer{Protocol: worker.Protocol, Term: term, Proc: b.Proc, Beat: b.Beat, State: worker.Healthy,
		Credit:  true,
		Promise: 86 * time.Second, Timeouts: worker.DefaultTimeouts()}, nil
}

// TestALateAnswerToAHeartbeatCounts: the call fails in time, later heartbeats go over the same
// connection, and the answer is passed on when it comes. One that never comes ends with the client.
func TestALateAnswerToAHeartbeatCounts(t *testing.T) {
	l := &slow{began: make(chan struct{}, 9), release: make(chan struct{})}
	c := client(t, serve(t, func() (cell.Leader, error) { return l, nil }))
	late := make(chan worker.HeartbeatAnswer, 9)
	c.Late(func(a worker.HeartbeatAnswer) { late <- a })
	beat := func(ctx context.Context, n int64) (worker.HeartbeatAnswer, error) {
		b := worker.Heartbeat{Protocol: worker.Protocol, Term: term, Cell: "c1", Proc: "p1", DirID: "f", Started: 3,
			Boot: "b", Beat: n, Period: time.Minute}
		return c.Heartbeat(ctx, b, cell.State{})
	}
	limit, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := beat(limit, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if a, err := beat(t.Context(), 2); err != nil || a.Beat != 2 {
		t.Fatalf("%+v %v", a, err)
	}
	select {
	case a := <-late:
		t.Fatalf("before it has come: %+v", a)
	default:
	}
	close(l.release)
	if a := <-late; a.Beat != 1 || !a.Credit {
		t.Errorf("%+v", a)
	}
	l.release = make(chan struct{})
	limit, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := beat(limit, 3); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	c.Close()
	if len(late) > 0 {
		t.Errorf("%+v", <-late)
	}
}
