package logstore

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"cantina/internal/run"
)

// ask sends q to every store as the API does and merges the answers.
func askAll(t testing.TB, stores map[string]*Store, place Place, q Query) Merged {
	t.Helper()
	var parts []Part
	for _, cell := range []string{"c0", "c1", "c2"} {
		q.Cursor = place[cell]
		parts = append(parts, Part{Cell: cell, Page: ask(t, stores[cell], q)})
	}
	m, err := Merge(place, q.Backward, q.Limit, parts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMergedPagingIsExactInBothDirections(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
		clock := run.Clock{Wall: func() time.Time { return at }, Boot: func() time.Duration { return 0 }}
		stores, writers := map[string]*Store{}, map[string]*Writer{}
		for i := range 3 {
			sub, err := os.MkdirTemp(dir, "")
			if err != nil {
				rt.Fatal(err)
			}
			cell := fmt.Sprint("c", i)
			stores[cell] = open(t, sub, Config{Clock: clock})
			writers[cell] = writer(t, stores[cell], "x", Stdout)
		}
		var want []string
		for n := range rapid.IntRange(0, 150).Draw(rt, "lines") {
			cell := fmt.Sprint("c", rapid.IntRange(0, 2).Draw(rt, "cell"))
			text := fmt.Sprint(cell, " ", n)
			write(t, writers[cell], text+"\n")
			want = append(want, text)
			at = at.Add(time.Millisecond)
		}
		limit := rapid.IntRange(1, 30).Draw(rt, "limit")
		for _, backward := range []bool{false, true} {
			var got []string
			place := Place{}
			for more := true; more; {
				m := askAll(t, stores, place, Query{Limit: limit, Backward: backward})
				page := make([]string, len(m.Lines))
				for i, l := range m.Lines {
					page[i] = string(l.Data)
				}
				next := m.Next
				if backward {
					got, next = append(page, got...), m.Prev
				} else {
					got = append(got, page...)
				}
				var err error
				if place, err = ParsePlace(next.Cursor()); err != nil {
					rt.Fatal(err)
				}
				more = m.More
			}
			if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
				rt.Fatalf("backward %v: %s", backward, d)
			}
		}
		for _, st := range stores {
			if err := st.Close(); err != nil {
				rt.Fatal(err)
			}
		}
	})
}

func TestMergeKeepsThePlaceOfACellThatDoesNotAnswer(t *testing.T) {
	st := open(t, t.TempDir(), Config{})
	w := writer(t, st, "x", Stdout)
	write(t, w, "a\nb\n")
	page := ask(t, st, Query{})
	old := Place{"down": page.Lines[0].Cursor()}
	m, err := Merge(old, false, 10, []Part{{Cell: "up", Page: page}, {Cell: "down", Err: errors.New("no route")}})
	if err != nil || len(m.Lines) != 2 {
		t.Fatalf("%d lines, %v", len(m.Lines), err)
	}
	if !cmp.Equal(m.Missing, []string{"down"}) || m.Next["down"] != old["down"] || m.Next["up"] != page.Next {
		t.Errorf("%+v", m)
	}
	for _, bad := range []string{"?", "AAAA", "AgU"} {
		if _, err := ParsePlace(bad); !errors.Is(err, ErrCursor) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
