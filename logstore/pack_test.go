package logstore

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pb "cantina/wire/cantinav1"
)

func drawLines(t *rapid.T) []CellLine {
	sources := []*Source{
		{ID: "a", Labels: map[string]string{"task": "a"}},
		{ID: "a", Labels: map[string]string{"task": "a"}, Attempt: "2"},
		{ID: "b", Labels: map[string]string{"job": "b", "node": "x/y"}},
	}
	var out []CellLine
	for range rapid.IntRange(0, 20).Draw(t, "lines") {
		l := Line{
			Position: Position(rapid.Uint64().Draw(t, "position")), Seq: rapid.Uint64().Draw(t, "seq"),
			Time:   time.Unix(0, rapid.Int64Range(0, 1<<62).Draw(t, "time")).UTC(),
			Source: rapid.SampledFrom(sources).Draw(t, "source"), Stream: Stream(rapid.IntRange(0, 2).Draw(t, "stream")),
			Terminated: rapid.Bool().Draw(t, "terminated"), Continues: rapid.Bool().Draw(t, "continues"),
		}
		if rapid.Bool().Draw(t, "gap") {
			l.Gap = &Gap{Reason: Reason(rapid.IntRange(0, 3).Draw(t, "reason")), Bytes: 7, Lines: 2, AtMost: true,
				At: time.Unix(9, 0).UTC()}
		} else {
			l.Data = rapid.SliceOfN(rapid.Byte(), 1, 50).Draw(t, "data")
		}
		out = append(out, CellLine{Cell: rapid.SampledFrom([]string{"c1", "c2"}).Draw(t, "cell"), Line: l})
	}
	return out
}

func TestPackedLinesAreTheSameLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawLines(t)
		b, err := proto.Marshal(PackMerged(want))
		if err != nil {
			t.Fatal(err)
		}
		m := &pb.LogLines{}
		if err := proto.Unmarshal(b, m); err != nil {
			t.Fatal(err)
		}
		var got []CellLine
		if err := EachPacked(m, func(l *Line, cell string) error {
			got = append(got,
				CellLine{cell, *l})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Line{}), cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
	})
}

// A message is remote input: reading any message ends with lines or ErrPacked.
func TestPackedLinesThatDoNotFitTogetherAreRefused(t *testing.T) {
	good := func() *pb.LogLines {
		return Pack("c", []Line{{Position: 1, Time: time.Unix(1, 0), Seq: 1, Source: &Source{ID: "a"}, Data: []byte("one")}})
	}
	for name, corrupt := range map[string]func(m *pb.LogLines){
		"size beyond the text":    func(m *pb.LogLines) { m.Size[0] = 4 },
		"largest size":            func(m *pb.LogLines) { m.Size[0] = 1<<32 - 1 },
		"unknown source":          func(m *pb.LogLines) { m.Source[0] = 1 },
		"no sources":              func(m *pb.LogLines) { m.Sources = nil },
		"a column too short":      func(m *pb.LogLines) { m.Flags = nil },
		"a column too long":       func(m *pb.LogLines) { m.Seq = append(m.Seq, 1) },
		"more sizes than columns": func(m *pb.LogLines) { m.Size = append(m.Size, 0) },
	} {
		m := good()
		corrupt(m)
		if _, err := Unpack(m); !errors.Is(err, ErrPacked) {
			t.Errorf("%s: %v", name, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		m := PackMerged(drawLines(t))
		m.Text = rapid.SliceOf(rapid.Byte()).Draw(t, "text")
		m.Flags = rapid.SliceOf(rapid.Byte()).Draw(t, "flags")
		m.Position = rapid.SliceOf(rapid.Int64()).Draw(t, "positions")
		m.Gaps = append(m.Gaps, &pb.LogGap{Line: rapid.Uint32().Draw(t, "line")})
		if _, err := Unpack(m); err != nil && !errors.Is(err, ErrPacked) {
			t.Fatal(err)
		}
	})
}

func TestAPackedPageIsTheSamePage(t *testing.T) {
	st := open(t, t.TempDir(), Config{Promote: 1 << 10})
	for _, id := range []string{"a", "b"} {
		w := writer(t, st, id, Stdout)
		for range 200 {
			write(t, w, id+" one\n"+id+" two\nno newline yet")
		}
		finish(t, w)
	}
	for _, q := range []Query{{Limit: 7}, {Limit: 7, Backward: true}, {IDs: []string{"b"}, Limit: 50, MaxBytes: 100}} {
		for pages := 0; ; pages++ {
			want, err := st.Query(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			m, got, err := st.QueryPacked(t.Context(), q, "c")
			if err != nil {
				t.Fatal(err)
			}
			lines, err := Unpack(m)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want.Lines, lines, cmpopts.IgnoreUnexported(Line{}), cmpopts.EquateEmpty()); d != "" {
				t.Fatalf("page %d of %+v: %s", pages, q, d)
			}
			if got.More != want.More || want.More && (got.Next != want.Next || got.Prev != want.Prev) {
				t.Fatalf("page %d of %+v: %+v, want %+v", pages, q, got, want)
			}
			if !want.More {
				break
			}
			if q.Cursor = want.Next; q.Backward {
				q.Cursor = want.Prev
			}
		}
	}
}
