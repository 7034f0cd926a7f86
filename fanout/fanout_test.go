package fanout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func names(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("s%d", i)
	}
	return out
}

// TestSlowTargetsDelayNoOther: 20 of 200 servers hang. The others are answered at once, and all is
// final at the deadline.
func TestSlowTargetsDelayNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := map[string]bool{}
		for i := 0; i < 200; i += 10 {
			hang[fmt.Sprintf("s%d", i)] = true
		}
		begin := time.Now()
		var good, bad int
		for r := range Ask(t.Context(), names(200), Limits{}, func(ctx context.Context, target string) (string, error) {
			if hang[target] {
				<-ctx.Done()
				return "", ctx.Err()
			}
			time.Sleep(20 * time.Millisecond)
			return "of " + target, nil
		}) {
			switch {
			case hang[r.Target] && errors.Is(r.Err, context.DeadlineExceeded) && r.Took == Deadline:
				bad++
			case r.Err == nil && r.Value == "of "+r.Target && r.Took == 20*time.Millisecond:
				if good++; time.Since(begin) >= time.Second {
					t.Errorf("%s after %v", r.Target, time.Since(begin))
				}
			default:
				t.Errorf("%+v", r)
			}
		}
		if good != 180 || bad != 20 || time.Since(begin) > Deadline+200*time.Millisecond { // the last one waits for a place
			t.Errorf("%d answers, %d errors, after %v", good, bad, time.Since(begin))
		}
	})
}

// TestWidthBoundsTheQuestions: never more than the width run at once, and a few targets run one by one.
func TestWidthBoundsTheQuestions(t *testing.T) {
	for _, x := range []struct{ targets, width, want int }{
		{100, 0, Width}, {100, 5, 5}, {4, 0, 4}, {3, 0, 1}, {1, 9, 1}, {0, 9, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			var now, most atomic.Int64
			n := 0
			for r := range Ask(t.Context(), names(x.targets),
				Limits{Width: x.width}, func(context.Context, string) (int, error) {
					most.Store(max(most.Load(), now.Add(1)))
					time.Sleep(time.Millisecond)
					now.Add(-1)
					return 1, nil
				}) {
				n += r.Value
			}
			if n != x.targets || int(most.Load()) != x.want {
				t.Errorf("%+v: %d answers, %d at once", x, n, most.Load())
			}
		})
	}
}

// TestEachTargetOnce: a name that is given twice is asked once.
func TestEachTargetOnce(t *testing.T) {
	for _, n := range []int{2, 9} {
		got := map[string]int{}
		for r := range Ask(t.Context(), append(names(n), names(n)...), Limits{},
			func(_ context.Context, target string) (string, error) { return target, nil }) {
			got[r.Target]++
		}
		if len(got) != n || slices.Max(slices.Collect(maps.Values(got))) != 1 {
			t.Errorf("%v", got)
		}
	}
}

// TestABrokenLoopEndsTheQuestions: no goroutine is left; a bubble checks it.
func TestABrokenLoopEndsTheQuestions(t *testing.T) {
	for _, n := range []int{3, 50} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			for r := range Ask(t.Context(), names(n), Limits{Deadline: time.Hour},
				func(ctx context.Context, target string) (int, error) {
					if target == "s0" {
						return 7, nil
					}
					<-ctx.Done()
					return 0, ctx.Err()
				}) {
				if r.Value != 7 {
					t.Errorf("%+v", r)
				}
				break
			}
			if time.Since(begin) != 0 {
				t.Errorf("it took %v", time.Since(begin))
			}
		})
	}
}

// TestACallerThatLeaves: each target has a result, of the caller's error.
func TestACallerThatLeaves(t *testing.T) {
	for _, n := range []int{3, 100} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		got := 0
		for r := range Ask(ctx, names(n), Limits{},
			func(ctx context.Context, _ string) (int, error) { return 0, ctx.Err() }) {
			if !errors.Is(r.Err, context.Canceled) {
				t.Errorf("%+v", r)
			}
			got++
		}
		if got != n {
			t.Errorf("%d results of %d", got, n)
		}
	}
}

// TestFailedTargetsAreLast: in their order, until they answer again.
func TestFailedTargetsAreLast(t *testing.T) {
	var f Failures
	f.Note("b", true)
	f.Note("d", true)
	check := func(want string) {
		t.Helper()
		if got := strings.Join(f.Last([]string{"a", "b", "c", "d"}), ""); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	check("acbd")
	f.Note("b", false)
	f.Note("c", false)
	check("abcd")
	for i := range maxFailures + 10 {
		f.Note(fmt.Sprint(i), true)
	}
	if len(f.failed) != maxFailures {
		t.Errorf("%d names", len(f.failed))
	}
}
