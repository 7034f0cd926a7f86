package event

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func subjects(events []Event) (out []string) {
	for _, e := range events {
		out = append(out, e.Subject)
	}
	return out
}

// drain takes the existing events without waiting.
func drain(t *testing.T, s *Subscription) (events []Event, gaps []Gap) {
	t.Helper()
	for {
		b, _, err := s.take()
		if err != nil {
			t.Fatal(err)
		}
		if b.Gap == nil && len(b.Events) == 0 {
			return events, gaps
		}
		if b.Gap != nil {
			gaps = append(gaps, *b.Gap)
		}
		events = append(events, b.Events...)
	}
}

func TestResumeIsStrictlyAfter(t *testing.T) {
	h := New(100, 10, time.Now)
	h.Publish(11, Event{Subject: "a"}, Event{Subject: "b"})
	h.Publish(11, Event{Subject: "c"})
	h.Publish(14, Event{Subject: "d"})
	for _, c := range []struct {
		since Position
		want  string
	}{
		{After(10), "[a b c d]"},
		{Position{11, 1}, "[b c d]"},
		{Position{11, 2}, "[c d]"},
		{After(11), "[d]"},
		{After(13), "[d]"},
		{After(14), "[]"},
	} {
		events, gaps := drain(t, h.Since(c.since))
		if got := fmt.Sprint(subjects(events)); got != c.want || len(gaps) != 0 {
			t.Errorf("since %v: %s and gaps %v, want %s", c.since, got, gaps, c.want)
		}
	}
	if events, gaps := drain(t, h.Tail()); len(events)+len(gaps) != 0 {
		t.Errorf("the tail begins after everything, got %v %v", events, gaps)
	}
}

// TestAYoungHub: an event before the first commit of a term has a position from which a reader can
// resume, and an earlier reader misses nothing.
func TestAYoungHub(t *testing.T) {
	h := New(8, 10, time.Now)
	before := h.Newest()
	h.Publish(0, Event{Subject: "a"})
	between := h.Newest()
	h.Publish(0, Event{Subject: "b"})
	h.Publish(11, Event{Subject: "c"})
	for at, want := range map[Position]string{before: "[a b c]", between: "[b c]", {10, 2}: "[c]", After(10): "[c]"} {
		p, err := ParsePosition(at.String())
		if err != nil || p != at {
			t.Fatalf("%v: %v, %v", at, p, err)
		}
		events, gaps := drain(t, h.Since(p))
		if got := fmt.Sprint(subjects(events)); got != want || len(gaps) != 0 {
			t.Errorf("after %v: %s and gaps %v, want %s", at, got, gaps, want)
		}
	}
	if _, gaps := drain(t, h.Since(Position{9, 7})); len(gaps) != 1 {
		t.Errorf("an earlier hub's position: gaps %v, want one", gaps)
	}
}

func TestMissedEventsAreReported(t *testing.T) {
	h := New(2, 10, time.Now)
	h.Publish(11, Event{Subject: "a"}, Event{Subject: "b"})
	slow := h.Since(After(10))
	h.Publish(12, Event{Subject: "c"}, Event{Subject: "d"})
	for name, c := range map[string]struct {
		s    *Subscription
		gaps int
		want string
	}{
		"before the ring":               {h.Since(After(10)), 1, "[c d]"},
		"before the hub":                {h.Since(After(3)), 1, "[c d]"},
		"exactly the lost events":       {h.Since(Position{11, 2}), 0, "[c d]"},
		"inside":                        {h.Since(Position{12, 1}), 0, "[d]"},
		"another time line":             {h.Since(After(99)), 1, "[c d]"},
		"a reader that was overtaken":   {slow, 1, "[c d]"},
		"one of the lost, not the last": {h.Since(Position{11, 1}), 1, "[c d]"},
	} {
		events, gaps := drain(t, c.s)
		if got := fmt.Sprint(subjects(events)); got != c.want || len(gaps) != c.gaps {
			t.Errorf("%s: %s and gaps %v, want %s and %d gaps", name, got, gaps, c.want, c.gaps)
		}
	}
}

// TestNoEventIsLostUnseen drives readers that stop, resume and fall behind: the received events,
// plus the reported gaps, are all events.
func TestNoEventIsLostUnseen(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := New(rapid.IntRange(1, 8).Draw(rt, "size"), 5, time.Now)
		published := []Event{}
		s := h.Since(After(5))
		seen := After(5)
		complete := true // no gap so far
		got := 0
		rt.Repeat(map[string]func(*rapid.T){
			"publish": func(rt *rapid.T) {
				rev := h.Newest().Revision + int64(rapid.IntRange(0, 2).Draw(rt, "step"))
				rev = max(rev, 6)
				for range rapid.IntRange(1, 3).Draw(rt, "events") {
					h.Publish(rev, Event{Subject: fmt.Sprint(len(published))})
					published = append(published, h.Recent(1, func(*Event) bool { return true })[0])
				}
			},
			"read": func(rt *rapid.T) {
				b, _, err := s.take()
				if err != nil {
					rt.Fatal(err)
				}
				if b.Gap != nil {
					complete = false
				}
				for _, e := range b.Events {
					if complete {
						if e.Subject != fmt.Sprint(got) {
							rt.Fatalf("got %s, want %d", e.Subject, got)
						}
						got++
					}
					if e.Compare(seen) <= 0 {
						rt.Fatalf("%v after %v", e.Position, seen)
					}
					seen = e.Position
				}
				if b.Gap != nil || len(b.Events) > 0 {
					seen = b.Seen
				}
			},
			"resume": func(rt *rapid.T) { s = h.Since(seen) },
		})
		events, gaps := drain(t, s)
		if n := len(events); n > 0 && events[n-1].Subject != fmt.Sprint(len(published)-1) {
			rt.Fatalf("ended at %s of %d", events[n-1].Subject, len(published))
		}
		if complete && len(gaps) == 0 && got+len(events) != len(published) {
			rt.Fatalf("no gap was reported, but %d of %d events came", got+len(events), len(published))
		}
	})
}

func TestNextWakesBeatsAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(10, 1, time.Now)
		s := h.Tail()
		start := time.Now()
		if b, err := s.Next(t.Context(), 15*time.Second); err != nil || len(b.Events) != 0 ||
			time.Since(start) != 15*time.Second {
			t.Fatalf("want a heartbeat after 15 s, got %v, %v after %v", b, err, time.Since(start))
		}
		done := make(chan Batch)
		go func() {
			b, err := s.Next(t.Context(), time.Hour)
			if err != nil {
				t.Error(err)
			}
			done <- b
		}()
		synctest.Wait()
		h.Publish(2, Event{Subject: "x"})
		if b := <-done; len(b.Events) != 1 || b.Events[0].Subject != "x" || b.Seen != (Position{2, 1}) {
			t.Fatalf("got %+v", b)
		}
		h.Publish(3, Event{Subject: "last"})
		h.Close()
		h.Publish(4, Event{Subject: "too late"})
		if b, err := s.Next(t.Context(), time.Hour); err != nil || len(b.Events) != 1 {
			t.Fatalf("an event from before the end is delivered: %v, %v", b, err)
		}
		if _, err := s.Next(t.Context(), time.Hour); !errors.Is(err, ErrClosed) {
			t.Fatalf("want ErrClosed, got %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := New(1, 1, time.Now).Tail().Next(ctx, time.Hour); !errors.Is(err, context.Canceled) {
			t.Fatalf("want Canceled, got %v", err)
		}
	})
}

func TestPositionText(t *testing.T) {
	for _, p := range []Position{{3, 4}, After(9), {0, 0}} {
		if got, err := ParsePosition(p.String()); err != nil || got != p {
			t.Errorf("%v became %v, %v", p, got, err)
		}
	}
	for _, s := range []string{"", "x", "1.", "1.x", "-1", "1.-2", "1.2.3"} {
		if _, err := ParsePosition(s); !errors.Is(err, ErrPosition) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// TestAHeartbeatComesAmongFilteredEvents: a reader that filters out all events gets heartbeats at
// the same interval as one without events, with its position.
func TestAHeartbeatComesAmongFilteredEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(10, 1, time.Now)
		s := h.Tail().Only(func(e *Event) bool { return e.Subject == "x" })
		start := time.Now()
		go func() {
			for i := range int64(20) {
				time.Sleep(time.Second)
				h.Publish(2+i, Event{Subject: "y"}, Event{Subject: "z"})
			}
			h.Publish(100, Event{Subject: "y"}, Event{Subject: "x"})
		}()
		b, err := s.Next(t.Context(), 15500*time.Millisecond)
		if err != nil || b.Gap != nil || len(b.Events) != 0 || b.Seen != (Position{16, 2}) ||
			time.Since(start) != 15500*time.Millisecond {
			t.Fatalf("want a heartbeat, got %+v, %v after %v", b, err, time.Since(start))
		}
		if b, err = s.Next(t.Context(), time.Hour); err != nil || len(b.Events) != 1 || b.Seen != (Position{100, 2}) {
			t.Fatalf("want x, got %+v, %v", b, err)
		}
	})
}

// TestSinceWhenEventsAreKept: since the hub began, and since the oldest that is left once
// some had to go.
func TestSinceWhenEventsAreKept(t *testing.T) {
	at := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	h := New(2, 1, func() time.Time { at = at.Add(time.Minute); return at })
	began := at
	// Events are a minute apart.
	for i, want := range []time.Duration{0, 0, 2 * time.Minute, 3 * time.Minute} {
		h.Publish(int64(i+2), Event{Subject: "x"})
		if got := h.Kept().Sub(began); got != want {
			t.Errorf("after %d events: %v, want %v", i+1, got, want)
		}
	}
}
