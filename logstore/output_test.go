package logstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cantina/internal/run"
)

func open(t testing.TB, dir string, cfg Config) *Store {
	t.Helper()
	st, err := Open(dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

func writer(t testing.TB, st *Store, id string, s Stream, labels ...string) *Writer {
	t.Helper()
	src := Source{ID: id, Labels: map[string]string{}}
	for i := 0; i+1 < len(labels); i += 2 {
		src.Labels[labels[i]] = labels[i+1]
	}
	w, err := st.Writer(src, s)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func write(t testing.TB, w io.Writer, text string) {
	t.Helper()
	if n, err := io.WriteString(w, text); err != nil || n != len(text) {
		t.Fatalf("write: %d, %v", n, err)
	}
}

func finish(t testing.TB, w *Writer) {
	t.Helper()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func ask(t testing.TB, st *Store, q Query) Page {
	t.Helper()
	p, err := st.Query(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func texts(lines []Line) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = string(l.Data)
		if l.Gap != nil {
			out[i] = fmt.Sprintf("gap %s %d/%d", l.Gap.Reason, l.Gap.Bytes, l.Gap.Lines)
		}
	}
	return out
}

// all pages through all entries of q, forward.
func all(t testing.TB, st *Store, q Query) []Line {
	t.Helper()
	var out []Line
	for {
		p := ask(t, st, q)
		out = append(out, p.Lines...)
		q.Cursor = p.Next
		if !p.More {
			return out
		}
	}
}

func raw(lines []Line, s Stream) []byte {
	var b []byte
	for _, l := range lines {
		if l.Stream == s {
			b = l.AppendRaw(b)
		}
	}
	return b
}

func TestLinesComeBackInOrderOfWriting(t *testing.T) {
	st := open(t, t.TempDir(), Config{})
	out, errs := writer(t, st, "a", Stdout, "kind", "task"), writer(t, st, "a", Stderr, "kind", "task")
	write(t, out, "one\ntw")
	write(t, errs, "oops\n")
	write(t, out, "o\nlast")
	if got := texts(ask(t, st, Query{IDs: []string{"a"}}).Lines); !cmp.Equal(got, []string{"one", "oops", "two"}) {
		t.Errorf("before the end: %q", got)
	}
	finish(t, out)
	finish(t, errs)
	p := ask(t, st, Query{IDs: []string{"a"}})
	if got := texts(p.Lines); !cmp.Equal(got, []string{"one", "oops", "two", "last"}) || p.More {
		t.Errorf("at the end: %q, more %v", got, p.More)
	}
	for i, l := range p.Lines {
		if l.Seq != uint64(i)+1 || l.Source.Labels["kind"] != "task" || l.Time.IsZero() {
			t.Errorf("line %d: %+v", i, l)
		}
	}
	if got := string(raw(p.Lines, Stdout)); got != "one\ntwo\nlast" {
		t.Errorf("raw: %q", got)
	}
}

func TestFiltersOfAQuery(t *testing.T) {
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := run.Clock{Wall: func() time.Time { return at }, Boot: func() time.Duration { return 0 }}
	st := open(t, t.TempDir(), Config{Clock: clock})
	a := writer(t, st, "a", Stdout, "service", "web", "index", "0")
	b := writer(t, st, "b", Stderr, "service", "web", "index", "1")
	c := writer(t, st, "c", Stdout, "job", "web")
	for i := range 3 {
		write(t, a, fmt.Sprintf("a%d\n", i))
		write(t, b, fmt.Sprintf("b%d\n", i))
		write(t, c, fmt.Sprintf("c%d\n", i))
		at = at.Add(time.Second)
	}
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		name string
		q    Query
		want string
	}{
		{"one label", Query{Labels: map[string]string{"service": "web"}}, "a0 b0 a1 b1 a2 b2"},
		{"two labels", Query{Labels: map[string]string{"service": "web", "index": "1"}}, "b0 b1 b2"},
		{"label without such a value", Query{Labels: map[string]string{"service": "x"}}, ""},
		{"ids", Query{IDs: []string{"c", "a", "zzz"}}, "a0 c0 a1 c1 a2 c2"},
		{"all but some ids", Query{Except: []string{"c", "a", "zzz"}}, "b0 b1 b2"},
		{"the last of others", Query{Except: []string{"c"}, Backward: true, Limit: 1}, "b2"},
		{"stream", Query{Streams: []Stream{Stderr}}, "b0 b1 b2"},
		{"since", Query{Since: start.Add(2 * time.Second)}, "a2 b2 c2"},
		{"until", Query{Until: start.Add(time.Second)}, "a0 b0 c0"},
		{"match", Query{Match: regexp.MustCompile(`^[ab]1`)}, "a1 b1"},
		{"last two", Query{Backward: true, Limit: 2}, "b2 c2"},
		{"from a line number", Query{IDs: []string{"a"}, AtSeq: 3}, "a2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := strings.Join(texts(ask(t, st, tc.q).Lines), " "); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	if _, err := st.Query(t.Context(), Query{Since: at, Until: start}); !errors.Is(err, ErrRange) {
		t.Errorf("reversed range: %v", err)
	}
	if _, err := st.Query(t.Context(), Query{Cursor: "x"}); !errors.Is(err, ErrCursor) {
		t.Errorf("foreign cursor: %v", err)
	}
}

func TestAnyBytesAndAnyLengthComeBackExactly(t *testing.T) {
	st := open(t, t.TempDir(), Config{MaxLine: 3 * mib})
	var in []byte
	for i, n := range []int{0, 1, 200 * kib, pieceSize - 1, pieceSize, pieceSize + 1, 2*pieceSize + 7, 3 * mib, 3*mib + 1,
		8 * mib} {
		line := bytes.Repeat([]byte{byte(i), 0xff, 0x00, '\r'}, n/4+1)[:n]
		in = append(append(in, line...), '\n')
	}
	in = append(in, "\xf0\x28 no newline"...)
	for _, step := range []int{1 << 30, 64 * kib, 4093} {
		t.Run(fmt.Sprint("writes of ", step), func(t *testing.T) {
			id := fmt.Sprint("s", step)
			w := writer(t, st, id, Stdout)
			other := writer(t, st, id, Stderr)
			for rest := in; len(rest) > 0; {
				n := min(step, len(rest))
				write(t, w, string(rest[:n]))
				rest = rest[n:]
				if step > 10000 {
					write(t, other, "x\n")
				}
			}
			finish(t, w)
			finish(t, other)
			lines := all(t, st, Query{IDs: []string{id}, Streams: []Stream{Stdout}})
			if got := raw(lines, Stdout); !bytes.Equal(got, in) {
				t.Fatalf("%d bytes came back as %d", len(in), len(got))
			}
			if len(lines[2].Data) != 200*kib || lines[2].Continues {
				t.Errorf("the line of 200 KiB came in pieces: %d", len(lines[2].Data))
			}
			if w.Written() != int64(len(in)) {
				t.Errorf("written %d of %d", w.Written(), len(in))
			}
		})
	}
}

func TestFollowerGetsEveryLineOnceOverRotation(t *testing.T) {
	st := open(t, t.TempDir(), Config{Own: 16 * kib, Shared: 4 * kib, Promote: 8 * kib})
	const writers, lines = 4, 3000
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ws := make([]*Writer, writers)
	for i := range ws {
		ws[i] = writer(t, st, fmt.Sprint("w", i), Stdout, "service", "web")
	}
	noise := writer(t, st, "noise", Stdout)
	var group sync.WaitGroup
	for i, w := range ws {
		group.Go(func() {
			for n := range lines {
				fmt.Fprintf(w, "%d %d\n", i, n)
				if n%64 == 0 {
					fmt.Fprintln(noise, "noise")
				}
			}
			finish(t, w)
		})
	}
	next := make([]int, writers)
	last := Position(0)
	err := st.Follow(ctx, Query{Labels: map[string]string{"service": "web"}, UntilEnd: true}, func(l Line) error {
		var i, n int
		if _, err := fmt.Sscanf(string(l.Data), "%d %d", &i, &n); err != nil {
			return fmt.Errorf("%q: %w", texts([]Line{l}), err)
		}
		if next[i] != n || l.Position <= last || l.Seq != uint64(n)+1 {
			return fmt.Errorf("writer %d: line %d came instead of %d (positions %d, %d)", i, n, next[i], last, l.Position)
		}
		next[i], last = n+1, l.Position
		return nil
	})
	group.Wait()
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range next {
		if n != lines {
			t.Errorf("writer %d: %d lines of %d", i, n, lines)
		}
	}
}

func mustMatch(expr string) *regexp.Regexp { return regexp.MustCompile(expr) }
