package logstore

import (
	"bytes"
	"fmt"
	"testing"
	"time"
)

var line100 = []byte("2026-01-01T00:00:00Z level=info msg=\"a line of one hundred bytes, as services write them\" " +
	"n=00000001\n")

// The figure that counts: raw bytes per second through a Writer, pieces as a pipe gives them.
func BenchmarkWriter64K(b *testing.B) {
	st := open(b, b.TempDir(), Config{})
	w := writer(b, st, "a", Stdout)
	block := bytes.Repeat(line100, 65536/len(line100))
	b.SetBytes(int64(len(block)))
	for b.Loop() {
		if _, err := w.Write(block); err != nil {
			b.Fatal(err)
		}
	}
}

// One line per Write: the worst case of a slow writer.
func BenchmarkWriterLine(b *testing.B) {
	st := open(b, b.TempDir(), Config{})
	w := writer(b, st, "a", Stdout)
	b.SetBytes(int64(len(line100)))
	for b.Loop() {
		if _, err := w.Write(line100); err != nil {
			b.Fatal(err)
		}
	}
}

// A container that prints one line and ends.
func BenchmarkTinyContainer(b *testing.B) {
	st := open(b, b.TempDir(), Config{})
	i := 0
	for b.Loop() {
		tiny(b, st, i)
		i++
	}
}

func tiny(tb testing.TB, st *Store, i int) {
	src := Source{ID: fmt.Sprintf("b-1234567890-%d", i),
		Labels: map[string]string{"kind": "batch", "domain": "demo", "job": "count",
			"job_uid": "5f0c9a3e7d1b2468", "node": fmt.Sprintf("pkg/file%d.go", i),
			"invocation": fmt.Sprintf("1234567890-%d", i)}}
	out, err := st.Writer(src, Stdout)
	if err != nil {
		tb.Fatal(err)
	}
	errs, err := st.Writer(src, Stderr)
	if err != nil {
		tb.Fatal(err)
	}
	write(tb, out, "done 123 lines\n")
	finish(tb, out)
	finish(tb, errs)
}

// Opening a directory with 100,000 ended containers, each of one line, and one query by id.
func BenchmarkOpen100kContainers(b *testing.B) {
	dir := b.TempDir()
	st, err := Open(dir, Config{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range 100_000 {
		tiny(b, st, i)
	}
	if err := st.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		st, err := Open(dir, Config{})
		if err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		if p := ask(b, st, Query{IDs: []string{"b-1234567890-31415"}}); len(p.Lines) != 1 {
			b.Fatal(len(p.Lines))
		}
		byID := time.Since(start)
		start = time.Now()
		if p := ask(b, st, Query{Labels: map[string]string{"node": "pkg/file77777.go"}}); len(p.Lines) != 1 {
			b.Fatal(len(p.Lines))
		}
		b.ReportMetric(float64(byID.Microseconds()), "µs/query-by-id")
		b.ReportMetric(float64(time.Since(start).Microseconds()), "µs/query-by-label")
		if err := st.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// Opening a directory with 20,000 ended containers that have segments of their own.
func BenchmarkOpen20kOwnSegments(b *testing.B) {
	dir := b.TempDir()
	cfg := Config{Promote: 1}
	st, err := Open(dir, cfg)
	if err != nil {
		b.Fatal(err)
	}
	for i := range 20_000 {
		tiny(b, st, i)
	}
	if err := st.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		st, err := Open(dir, cfg)
		if err != nil {
			b.Fatal(err)
		}
		if err := st.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// A jump into a log of 1,000,000 lines: by number, by time, and to its end.
func BenchmarkJump1MLines(b *testing.B) {
	st := open(b, b.TempDir(), Config{})
	w := writer(b, st, "a", Stdout)
	block := bytes.Repeat(line100, 500)
	for range 2000 {
		if _, err := w.Write(block); err != nil {
			b.Fatal(err)
		}
	}
	for _, q := range []struct {
		name string
		q    Query
	}{{"number", Query{AtSeq: 777_777, Limit: 100}}, {"end", Query{Backward: true, Limit: 100}}} {
		b.Run(q.name, func(b *testing.B) {
			for b.Loop() {
				if p := ask(b, st, q.q); len(p.Lines) != 100 {
					b.Fatal(len(p.Lines))
				}
			}
		})
	}
}

func BenchmarkFollow(b *testing.B) {
	st := open(b, b.TempDir(), Config{})
	w := writer(b, st, "a", Stdout)
	block := bytes.Repeat(line100, 655)
	for range 1000 {
		if _, err := w.Write(block); err != nil {
			b.Fatal(err)
		}
	}
	finish(b, w)
	b.SetBytes(int64(1000 * len(block)))
	for b.Loop() {
		n := 0
		if err := st.Follow(b.Context(), Query{UntilEnd: true}, func(Line) error { n++; return nil }); err != nil ||
			n != 655_000 {
			b.Fatal(n, err)
		}
	}
}

// All the output of a container, page by page, packed as a cell answers.
func BenchmarkReadPacked(b *testing.B) {
	st := open(b, b.TempDir(), Config{})
	w := writer(b, st, "a", Stdout)
	block := bytes.Repeat(line100, 65536/len(line100))
	const blocks = 1000
	for range blocks {
		if _, err := w.Write(block); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(blocks * len(block)))
	for b.Loop() {
		lines := 0
		for q := (Query{IDs: []string{"a"}, Limit: 1 << 16, MaxBytes: 4 << 20}); ; {
			m, page, err := st.QueryPacked(b.Context(), q, "c")
			if err != nil {
				b.Fatal(err)
			}
			lines += len(m.Size)
			if !page.More {
				break
			}
			q.Cursor = page.Next
		}
		if want := blocks * len(block) / len(line100); lines != want {
			b.Fatalf("%d of %d lines", lines, want)
		}
	}
}
