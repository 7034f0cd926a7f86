package runner

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"cantina/cron"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a runner in a bubble, with a wall clock that can be set.
type bench struct {
	*testing.T
	*Runner
	shift atomic.Int64 // of the wall clock, nanoseconds
	stop  context.CancelFunc
	done  chan error
}

func item(t *testing.T, text string) *cron.Item {
	t.Helper()
	it, err := cron.ParseJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return it
}

const minutely = `{"minute":[],"dst_fixes":["skip","repeat_use_both"],` +
	`"max_shift_seconds_for_unskip_and_do_not_repeat":600}`

func start(t *testing.T, o Options) *bench {
	t.Helper()
	b := &bench{T: t, done: make(chan error, 1)}
	begin := time.Now()
	o.Clocks = cron.Clocks{
		System:    func() time.Time { return time.Now().Add(time.Duration(b.shift.Load())) },
		Monotonic: func() time.Duration { return time.Since(begin) },
	}
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	var err error
	if b.Runner, err = New(o); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	b.stop = stop
	go func() { b.done <- b.Runner.Run(ctx) }()
	return b
}

func (b *bench) end() {
	b.stop()
	if err := <-b.done; err != nil {
		b.Error(err)
	}
}

// next waits for an event and gives its time of day.
func (b *bench) next() string { return (<-b.Events()).At.Format("15:04:05") }

func TestEventsComeOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, Options{Item: item(t, minutely)})
		defer b.end()
		for range 90 {
			e := <-b.Events()
			if late := time.Since(e.At); late < 0 || late > time.Second {
				t.Errorf("%v came %v late", e.At, late)
			}
		}
	})
}

func TestB19AStepIsSeenWithin30Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		daily := `{"minute":0,"hour":8,"dst_fixes":["skip","repeat_use_both"],` +
			`"max_shift_seconds_for_unskip_and_do_not_repeat":43200}`
		b := start(t, Options{Item: item(t, daily)}) // the bubble begins at midnight
		defer b.end()
		synctest.Wait()
		b.shift.Store(int64(8*time.Hour + time.Minute))
		begin := time.Now()
		if got := b.next(); got != "08:00:00" {
			t.Errorf("event %s", got)
		}
		if took := time.Since(begin); took > 30*time.Second {
			t.Errorf("seen after %v", took)
		}
	})
}

func TestAFullQueueHoldsBackAndDropsTheOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, Options{Item: item(t, minutely), Queue: 2})
		defer b.end()
		wait(30*time.Minute + 5*time.Second) // no receiver of events: 00:01 to 00:30 become due
		synctest.Wait()
		if n := b.Dropped(); n == 0 {
			t.Error("nothing was dropped")
		}
		var got []string
		for range 4 {
			got = append(got, b.next())
		}
		// Two were in the queue, one was being offered and is renewed as it gets
		// too old; the rest are the newest ten minutes.
		if got[0] != "00:01:00" || got[1] != "00:02:00" || got[2] < "00:20:00" || got[3] <= got[2] {
			t.Errorf("got %v", got)
		}
	})
}

// wait lets time of the bubble pass by waiting on a timer.
func wait(d time.Duration) { <-time.NewTimer(d).C }

func TestSetZoneWakesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		daily := `{"minute":0,"hour":3,"dst_fixes":["skip","repeat_use_both"],` +
			`"max_shift_seconds_for_unskip_and_do_not_repeat":43200}`
		b := start(t, Options{Item: item(t, daily)})
		defer b.end()
		synctest.Wait()
		begin := time.Now()
		b.SetZone(time.FixedZone("east", 4*3600))
		if got := b.next(); got != "03:00:00" || time.Since(begin) != 0 {
			t.Errorf("event %s after %v", got, time.Since(begin))
		}
	})
}

func TestRestartGoesOnFromTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		it := item(t, minutely)
		b := start(t, Options{Item: it, Queue: 1})
		first := b.next()
		wait(3 * time.Minute) // one in the queue, one offered
		synctest.Wait()
		stored, err := json.Marshal(b.State())
		if err != nil {
			t.Fatal(err)
		}
		got := []string{first, b.next()}
		b.end()
		var state cron.State
		if err := json.Unmarshal(stored, &state); err != nil {
			t.Fatal(err)
		}
		wait(2 * time.Minute)
		b = start(t, Options{Item: it, Resume: &state})
		defer b.end()
		for range 4 {
			got = append(got, b.next())
		}
		if want := []string{"00:01:00", "00:02:00", "00:03:00", "00:04:00", "00:05:00", "00:06:00"}; !slices.Equal(got,
			want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestRunnerEndsWithoutMatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, Options{Item: item(t, `{"epoch":5}`)}) // long over
		wait(time.Hour)
		select {
		case e := <-b.Events():
			t.Errorf("event %v", e)
		default:
		}
		b.end()
	})
	if _, err := New(Options{Item: item(t, `{"minute":0,"dst_fixes":["skip","repeat_use_both"]}`),
		Zone: time.UTC}); !errors.Is(err, cron.ErrSyntax) {
		t.Errorf("without max_shift: %v", err)
	}
}

func TestSystemClocks(t *testing.T) {
	c := SystemClocks()
	if c.Monotonic() <= 0 || time.Since(c.System()) > time.Minute {
		t.Errorf("boot clock %v, wall clock %v", c.Monotonic(), c.System())
	}
}
