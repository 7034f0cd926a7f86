package logstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"cantina/internal/run"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// crash leaves the store as a killed process would: nothing is sealed or flushed.
func crash(t testing.TB, st *Store) {
	t.Helper()
	st.sources.mu.Lock()
	st.sources.closed = true
	st.sources.mu.Unlock()
	if err := st.lock.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestPagingIsExactInBothDirections(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		sub, err := os.MkdirTemp(dir, "")
		if err != nil {
			rt.Fatal(err)
		}
		st := open(t, sub, Config{Own: 2 * kib, Shared: 1 * kib, Promote: 1 * kib})
		var ws []*Writer
		var want []string
		for range rapid.IntRange(0, 200).Draw(rt, "writes") {
			n := rapid.IntRange(0, 9).Draw(rt, "source")
			for n >= len(ws) {
				id := len(ws)
				ws = append(ws, writer(t, st, fmt.Sprint("s", id), Stdout, "odd", fmt.Sprint(id%2 == 1)))
			}
			text := fmt.Sprintf("%d %d %s", n, len(want), strings.Repeat("x", rapid.IntRange(0, 300).Draw(rt, "length")))
			write(t, ws[n], text+"\n")
			want = append(want, text)
			if rapid.IntRange(0, 19).Draw(rt, "reopen") == 0 {
				finish(t, ws[n])
				ws[n] = writer(t, st, fmt.Sprint("s", n), Stdout, "odd", fmt.Sprint(n%2 == 1))
			}
		}
		q := Query{Limit: rapid.IntRange(1, 40).Draw(rt, "limit")}
		switch rapid.IntRange(0, 3).Draw(rt, "which") {
		case 0:
			q.IDs = []string{"s1", "s7"}
			want = slices.DeleteFunc(want, func(s string) bool { return s[0] != '1' && s[0] != '7' })
		case 1:
			q.Labels = map[string]string{"odd": "true"}
			want = slices.DeleteFunc(want, func(s string) bool { return s[0]%2 == 0 })
		}
		var forward, backward []string
		f := q
		for more := true; more; {
			p := ask(t, st, f)
			forward, f.Cursor, more = append(forward, texts(p.Lines)...), p.Next, p.More
			if len(p.Lines) > 0 { // a step back over the same lines gives the same page
				again := ask(t, st, Query{IDs: q.IDs, Labels: q.Labels, Limit: len(p.Lines), Cursor: p.Next, Backward: true})
				if d := cmp.Diff(texts(p.Lines), texts(again.Lines)); d != "" {
					rt.Fatalf("back over the page just read: %s", d)
				}
			}
		}
		b := q
		b.Backward = true
		for more := true; more; {
			p := ask(t, st, b)
			backward, b.Cursor, more = append(texts(p.Lines), backward...), p.Prev, p.More
		}
		if d := cmp.Diff(want, forward, cmpopts.EquateEmpty()); d != "" {
			rt.Fatalf("forward: %s", d)
		}
		if d := cmp.Diff(want, backward, cmpopts.EquateEmpty()); d != "" {
			rt.Fatalf("backward: %s", d)
		}
		if err := st.Close(); err != nil {
			rt.Fatal(err)
		}
	})
}

func TestPageMayBeShortButPagingWithAnExpressionIsComplete(t *testing.T) {
	st := open(t, t.TempDir(), Config{})
	w := writer(t, st, "a", Stdout)
	line := strings.Repeat("x", 999) + "\n"
	for i := range 90_000 {
		if i%9000 == 0 {
			write(t, w, fmt.Sprintf("needle %d\n", i/9000))
		}
		write(t, w, line)
	}
	q := Query{IDs: []string{"a"}, Match: mustMatch("needle"), Limit: 100}
	var got []string
	pages := 0
	for more := true; more; pages++ {
		p := ask(t, st, q)
		got, q.Cursor, more = append(got, texts(p.Lines)...), p.Next, p.More
	}
	if len(got) != 10 || got[9] != "needle 9" || pages != 2 {
		t.Errorf("%d pages, %q", pages, got)
	}
}

func TestKilledStoreLosesNoCompleteLine(t *testing.T) {
	dir := t.TempDir()
	cfg := Config{Own: 64 * kib, Shared: 16 * kib, Promote: 32 * kib}
	rnd := rand.New(rand.NewPCG(1, 2))
	written, n := int64(0), 0
	for life := range 30 {
		st := open(t, dir, cfg)
		w := writer(t, st, "big", Stdout)
		if got := w.Written(); got != written {
			t.Fatalf("life %d: goes on from byte %d, was at %d", life, got, written)
		}
		for range rnd.IntN(400) {
			write(t, w, fmt.Sprintf("line %d %s\n", n, strings.Repeat("y", rnd.IntN(200))))
			n++
		}
		small := writer(t, st, fmt.Sprint("small", life), Stdout)
		write(t, small, "A\n")
		finish(t, small)
		written = w.Written()
		write(t, w, "torn away with the process")
		crash(t, st)
		tear(t, dir, rnd)
	}
	st := open(t, dir, cfg)
	lines := all(t, st, Query{IDs: []string{"big"}})
	if len(lines) != n {
		t.Fatalf("%d lines of %d", len(lines), n)
	}
	for i, l := range lines {
		if l.Seq != uint64(i)+1 || !strings.HasPrefix(string(l.Data), fmt.Sprintf("line %d ", i)) {
			t.Fatalf("line %d: seq %d, %.20q", i, l.Seq, l.Data)
		}
	}
	for life := range 30 {
		if got := texts(all(t, st, Query{IDs: []string{fmt.Sprint("small", life)}})); !cmp.Equal(got, []string{"A"}) {
			t.Errorf("small%d: %q", life, got)
		}
	}
}

// tear appends half a chunk to every segment without an index, as a process
// that died in a write leaves it.
func tear(t *testing.T, dir string, rnd *rand.Rand) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, log := range logs {
		if _, err := os.Stat(strings.TrimSuffix(log, "log") + "idx"); err == nil {
			continue
		}
		chunk := append(make([]byte, headerSize), "half a line"...)
		header{kind: kindLines, size: 11}.put(chunk)
		f, err := os.OpenFile(log, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Write(chunk[:rnd.IntN(len(chunk))])
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUnfinishedLongLineOfAKilledProcessIsKept(t *testing.T) {
	dir := t.TempDir()
	st := open(t, dir, Config{})
	w := writer(t, st, "a", Stdout)
	long := strings.Repeat("z", 3*pieceSize+5)
	write(t, w, long)
	kept := w.Written()
	crash(t, st)
	st = open(t, dir, Config{})
	w = writer(t, st, "a", Stdout)
	if w.Written() != kept || kept != 3*pieceSize {
		t.Fatalf("on disk %d, then %d", kept, w.Written())
	}
	write(t, w, long[kept:]+"\n")
	lines := all(t, st, Query{})
	if got := string(raw(lines, Stdout)); got != long+"\n" || !lines[0].Continues {
		t.Errorf("%d bytes in %d lines", len(got), len(lines))
	}
}

func TestRubbishInTheDirNeverStopsTheStart(t *testing.T) {
	dir := t.TempDir()
	st := open(t, dir, Config{Own: 4 * kib, Shared: 4 * kib, Promote: 2 * kib})
	for i := range 40 {
		w := writer(t, st, fmt.Sprint("c", i), Stdout)
		write(t, w, strings.Repeat(fmt.Sprintf("line of c%d\n", i), 1+i*20))
		finish(t, w)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		names, err := filepath.Glob(filepath.Join(dir, "0*"))
		if err != nil {
			t.Fatal(err)
		}
		name := names[rnd.IntN(len(names))]
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		switch at := rnd.IntN(len(b) + 1); rnd.IntN(4) {
		case 0:
			b = b[:at]
		case 1:
			clear(b[at:])
		case 2:
			b = append(b, "rubbish"...)
		default:
			if at < len(b) {
				b[at] ^= 0x40
			}
		}
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		st := open(t, dir, Config{Own: 4 * kib, Shared: 4 * kib, Promote: 2 * kib})
		w := writer(t, st, "fresh", Stdout)
		write(t, w, "still works\n")
		finish(t, w)
		last := Position(0)
		for _, l := range all(t, st, Query{}) {
			if l.Position <= last {
				t.Fatalf("position %d after %d", l.Position, last)
			}
			last = l.Position
		}
		p := ask(t, st, Query{IDs: []string{"fresh"}, Backward: true, Limit: 1})
		if got := texts(p.Lines); !cmp.Equal(got, []string{"still works"}) {
			t.Fatalf("%q", got)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSecondOpenOfADirIsRefused(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, Config{})
	if _, err := Open(dir, Config{}); !errors.Is(err, ErrLocked) {
		t.Errorf("got %v", err)
	}
}

func TestContainerLimitDropsOldestSegmentsAndReportsTheGap(t *testing.T) {
	st := open(t, t.TempDir(), Config{MaxContainer: 64 * kib})
	w := writer(t, st, "a", Stdout)
	total := 0
	for i := range 20_000 {
		line := fmt.Sprintf("line %d\n", i)
		total += len(line)
		write(t, w, line)
	}
	finish(t, w)
	lines := all(t, st, Query{IDs: []string{"a"}})
	at := slices.IndexFunc(lines, func(l Line) bool { return l.Gap != nil })
	g := lines[at].Gap
	if g.Reason != Collected || g.AtMost || at > 1000 {
		t.Fatalf("line %d: %+v", at, g)
	}
	if got := len(raw(lines, Stdout)) + int(g.Bytes); got != total {
		t.Errorf("read and missing together %d of %d bytes", got, total)
	}
	if got := len(lines) - 1 + int(g.Lines); got != 20_000 || lines[at+1].Seq != uint64(at)+uint64(g.Lines)+1 {
		t.Errorf("read and missing together %d lines", got)
	}
	for _, l := range lines[at+1:] {
		if l.Gap != nil {
			t.Fatalf("a second gap: %+v", l.Gap)
		}
	}
	if size, _ := st.Usage(); size > 70*kib {
		t.Errorf("takes %d bytes on disk", size)
	}
	sums, err := st.Sources(t.Context(), Query{})
	if err != nil || len(sums) != 1 || sums[0].Missing != g.Bytes || sums[0].NextSeq != 20_001 || sums[0].FirstSeq != 1 {
		t.Errorf("%+v, %v", sums, err)
	}
}

func TestFollowerThatFallsBehindGetsTheExactGap(t *testing.T) {
	st := open(t, t.TempDir(), Config{MaxContainer: 64 * kib})
	w := writer(t, st, "a", Stdout)
	total := 0
	put := func(n int) {
		for range n {
			line := fmt.Sprintf("line of %d\n", total)
			total += len(line)
			write(t, w, line)
		}
	}
	put(10_000) // the follower reads the rest of this first
	read, gaps, seq := 0, 0, uint64(0)
	err := st.Follow(t.Context(), Query{IDs: []string{"a"}, UntilEnd: true}, func(l Line) error {
		if l.Gap != nil {
			gaps++
			if l.Gap.AtMost || l.Seq != seq+uint64(l.Gap.Lines) {
				return fmt.Errorf("after line %d: gap %+v up to %d", seq, l.Gap, l.Seq)
			}
			read += int(l.Gap.Bytes)
		} else if l.Seq != seq+1 {
			return fmt.Errorf("line %d after %d", l.Seq, seq)
		}
		read, seq = read+len(l.AppendRaw(nil)), l.Seq
		if gaps == 1 && l.Gap == nil {
			put(20_000) // runs away from the follower
			finish(t, w)
			gaps++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if read != total || gaps != 3 {
		t.Errorf("read and reported %d of %d bytes, %d gaps", read, total, gaps-1)
	}
}

func TestCellLimitDropsOldestFirst(t *testing.T) {
	st := open(t, t.TempDir(), Config{MaxTotal: 256 * kib, Promote: 8 * kib})
	for i := range 100 {
		w := writer(t, st, fmt.Sprint("c", i), Stdout)
		write(t, w, strings.Repeat("0123456789\n", 1000))
		finish(t, w)
		if size, _ := st.Usage(); size > 300*kib {
			t.Fatalf("takes %d bytes on disk after %d containers", size, i)
		}
	}
	first, last := ask(t, st, Query{IDs: []string{"c0"}}), ask(t, st, Query{IDs: []string{"c99"}})
	if len(last.Lines) != 1000 {
		t.Errorf("newest container: %d lines", len(last.Lines))
	}
	if len(first.Lines) != 1 || first.Lines[0].Gap == nil || first.Lines[0].Gap.Bytes != 11_000 {
		t.Errorf("oldest container: %q", texts(first.Lines))
	}
}

func TestRateLimitCountsDroppedLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := open(t, t.TempDir(), Config{Clock: run.Bubble()})
		w, err := st.Writer(Source{ID: "a", Rate: 100}, Stdout)
		if err != nil {
			t.Fatal(err)
		}
		ev, err := st.Writer(Source{ID: "a"}, Event)
		if err != nil {
			t.Fatal(err)
		}
		line := strings.Repeat("x", 49) + "\n"
		for range 10 {
			write(t, w, line)
		}
		write(t, ev, "always kept\n")
		<-time.After(1100 * time.Millisecond)
		write(t, w, line)
		for range 4 {
			write(t, w, line)
		}
		finish(t, w)
		finish(t, ev)
		got := texts(all(t, st, Query{}))
		x := line[:49]
		want := []string{x, x, "always kept", "gap rate_limited 400/8", x, x, "gap rate_limited 150/3"}
		if !cmp.Equal(got, want) {
			t.Errorf("got %q", got)
		}
		if w.Written() != 15*50 {
			t.Errorf("accounts for %d bytes", w.Written())
		}
		if l := st.Losses(); l != (Losses{LimitedLines: 11, LimitedBytes: 550}) {
			t.Errorf("%+v", l)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAgeCountsFromTheEndOfTheContainer(t *testing.T) {
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := run.Clock{Wall: func() time.Time { return at }, Boot: func() time.Duration { return 0 }}
	dir := t.TempDir()
	st := open(t, dir, Config{Clock: clock, RetainAge: 24 * time.Hour})
	gone, live := writer(t, st, "gone", Stdout), writer(t, st, "live", Stdout)
	big := writer(t, st, "big", Stdout)
	write(t, gone, "old\n")
	write(t, live, "banner\n")
	write(t, big, strings.Repeat("0123456789abcdef\n", 100_000))
	at = at.Add(10 * time.Hour)
	st.Expire()
	finish(t, gone)
	finish(t, big)
	has := func(id string) bool {
		t.Helper()
		p := ask(t, st, Query{IDs: []string{id}, Limit: 1})
		return len(p.Lines) > 0 && p.Lines[0].Gap == nil
	}
	at = at.Add(20 * time.Hour) // 30 h after the lines, 20 h after the end
	st.Expire()
	if !has("gone") || !has("live") || !has("big") {
		t.Error("removed before its age")
	}
	at = at.Add(5 * time.Hour)
	st.Expire()
	if !has("live") {
		t.Error("a live container lost its output")
	}
	if has("big") {
		t.Error("kept for longer than its age")
	}
	if p := ask(t, st, Query{IDs: []string{"big"}}); p.Lines[0].Gap.Bytes != 1_700_000 || !p.Lines[0].Gap.At.Equal(at) {
		t.Errorf("%+v", p.Lines[0].Gap)
	}
	finish(t, live)
	at = at.Add(25 * time.Hour)
	st.Expire()
	if has("live") || has("gone") {
		t.Error("kept for longer than its age")
	}
	at = at.Add(25 * time.Hour)
	st.Expire()
	if got := all(t, st, Query{}); len(got) != 0 {
		t.Errorf("still known: %q", texts(got))
	}
	if names, err := filepath.Glob(filepath.Join(dir, "0*")); err != nil || len(names) != 0 {
		t.Errorf("files left: %v, %v", names, err)
	}
}

func TestBackwardClockKeepsTheOrder(t *testing.T) {
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := run.Clock{Wall: func() time.Time { return at }, Boot: func() time.Duration { return 0 }}
	dir := t.TempDir()
	var want []string
	for life := range 4 {
		st := open(t, dir, Config{Clock: clock})
		w := writer(t, st, "a", Stdout)
		for i := range 5 {
			text := fmt.Sprint(life, " ", i)
			want = append(want, text)
			write(t, w, text+"\n")
			at = at.Add(-time.Minute)
		}
		crash(t, st)
	}
	st := open(t, dir, Config{Clock: clock})
	got := all(t, st, Query{Limit: 3})
	if d := cmp.Diff(want, texts(got)); d != "" {
		t.Error(d)
	}
	if !got[19].Time.Before(got[0].Time) {
		t.Error("the lines do not show the wall clock")
	}
}

func TestFollowEndsWithItsContextAndItsStore(t *testing.T) {
	st := open(t, t.TempDir(), Config{})
	w := writer(t, st, "a", Stdout)
	ctx, cancel := context.WithCancel(t.Context())
	write(t, w, "x\n")
	err := st.Follow(ctx, Query{}, func(Line) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("after cancel: %v", err)
	}
	own := errors.New("mine")
	if err := st.Follow(t.Context(), Query{}, func(Line) error { return own }); !errors.Is(err, own) {
		t.Errorf("after an error of the receiver: %v", err)
	}
	done := make(chan error)
	got := make(chan bool, 1)
	go func() {
		done <- st.Follow(context.WithoutCancel(t.Context()), Query{}, func(Line) error { got <- true; return nil })
	}()
	<-got
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("after close: %v", err)
	}
	if _, err := w.Write([]byte("x")); !errors.Is(err, ErrClosed) {
		t.Errorf("write after close: %v", err)
	}
}

func TestTailHoldsTheLastLines(t *testing.T) {
	st := open(t, t.TempDir(), Config{})
	w := writer(t, st, "a", Stdout)
	if got := w.Tail(3); got != nil {
		t.Errorf("empty: %q", got)
	}
	for i := range 5000 {
		write(t, w, fmt.Sprintf("line %d\n", i))
	}
	write(t, w, "no newline")
	if got := w.Tail(3); !cmp.Equal(got, []string{"line 4998", "line 4999", "no newline"}) {
		t.Errorf("%q", got)
	}
	write(t, w, strings.Repeat("q", 10_000))
	if got := w.Tail(3); len(got) != 1 || len(got[0]) < tailSize {
		t.Errorf("long line: %d lines", len(got))
	}
}

func TestMuchOutputNeedsLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 300 MB")
	}
	st := open(t, t.TempDir(), Config{})
	w := writer(t, st, "a", Stdout)
	block := bytes.Repeat([]byte("a line of output that is about as long as lines are, with some more in it\n"), 900)
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	peak := uint64(0)
	for i := 0; i < 300*mib; i += len(block) {
		write(t, w, string(block))
		if i/len(block)%500 == 0 {
			runtime.ReadMemStats(&now)
			peak = max(peak, now.HeapSys)
		}
	}
	finish(t, w)
	if grown := int64(peak) - int64(before.HeapSys); grown > 50*mib {
		t.Errorf("heap grew by %d MiB", grown/mib)
	}
	if p := ask(t, st, Query{Backward: true, Limit: 3}); len(p.Lines) != 3 {
		t.Errorf("%q", texts(p.Lines))
	}
}

func TestFullDiskIsCountedAndReportedWhenThereIsRoom(t *testing.T) {
	st := open(t, t.TempDir(), Config{})
	w := writer(t, st, "a", Stdout)
	write(t, w, "before\n")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full: ", err)
	}
	defer full.Close()
	good := st.shared.seg.file
	st.shared.seg.file = full
	write(t, w, "lost 1\nlost 2\nbegun")
	write(t, w, " and lost\n")
	st.shared.seg.file = good
	write(t, w, "after\n")
	got := texts(all(t, st, Query{}))
	if want := []string{"before", "gap disk_error 29/3", "after"}; !cmp.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if w.Written() != int64(len("before\nlost 1\nlost 2\nbegun and lost\nafter\n")) {
		t.Errorf("accounts for %d bytes", w.Written())
	}
	if l := st.Losses(); l != (Losses{RefusedLines: 3, RefusedBytes: 29}) {
		t.Errorf("%+v", l)
	}
}

func TestRunExpiresUntilItIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := open(t, t.TempDir(), Config{Clock: run.Bubble(), RetainAge: time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- st.Run(ctx) }()
		w := writer(t, st, "a", Stdout)
		write(t, w, "x\n")
		finish(t, w)
		<-time.After(2 * time.Hour)
		synctest.Wait()
		if p := ask(t, st, Query{}); len(p.Lines) != 1 || p.Lines[0].Gap == nil {
			t.Errorf("%q", texts(p.Lines))
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestLateLinesContinueTheNumbers(t *testing.T) {
	st := open(t, t.TempDir(), Config{Shared: 4 * kib})
	w := writer(t, st, "a", Stdout)
	write(t, w, "one\ntwo\n")
	finish(t, w)
	for i := range 200 { // the segment is sealed meanwhile
		o := writer(t, st, fmt.Sprint("o", i), Stdout)
		write(t, o, "other\n")
		finish(t, o)
	}
	st.Expire()
	ev := writer(t, st, "a", Event)
	write(t, ev, "removed\n")
	finish(t, ev)
	lines := all(t, st, Query{IDs: []string{"a"}})
	if len(lines) != 3 || lines[2].Seq != 3 || lines[2].Stream != Event {
		t.Errorf("%q, the last is number %d", texts(lines), lines[len(lines)-1].Seq)
	}
}

func TestDamageInTheMiddleIsAGapUpToTheNextMark(t *testing.T) {
	dir := t.TempDir()
	st := open(t, dir, Config{})
	w := writer(t, st, "a", Stdout)
	line := strings.Repeat("x", 99) + "\n"
	for range 20_000 {
		write(t, w, line)
	}
	finish(t, w)
	logs, err := filepath.Glob(filepath.Join(dir, "*.o.log"))
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	b, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(logs[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, backward := range []bool{false, true} {
		p := ask(t, st, Query{Limit: 30_000, Backward: backward})
		var gaps []*Gap
		text := 0
		for _, l := range p.Lines {
			if l.Gap != nil {
				gaps = append(gaps, l.Gap)
			} else {
				text++
			}
		}
		if len(gaps) != 1 || gaps[0].Reason != Damaged || !gaps[0].AtMost || text < 17_000 || text == 20_000 {
			t.Errorf("backward %v: %d lines, %d gaps", backward, text, len(gaps))
		}
	}
}
