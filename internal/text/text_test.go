package text

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestClean(t *testing.T) {
	if got := Clean("a\xff\xfeb"); got != "a\uFFFDb" {
		t.Errorf("%q", got)
	}
	if CleanAll(nil) != nil || CleanAll([]string{}) != nil || CleanMap(nil) != nil ||
		CleanMap(map[string]string{}) != nil {
		t.Error("an empty list or map has to become nil")
	}
	if got := CleanAll([]string{"\xff", "ok"}); got[0] != "\uFFFD" || got[1] != "ok" {
		t.Errorf("%q", got)
	}
	if got := CleanMap(map[string]string{"\xff": "\xfe"}); len(got) != 1 || got["\uFFFD"] != "\uFFFD" {
		t.Errorf("%q", got)
	}
}

func TestShorten(t *testing.T) {
	for in, want := range map[string]string{"": "", "12345": "12345", "123456": "12345…", "1234é": "1234…"} {
		if got := Shorten(in, 5); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s, most := rapid.String().Draw(t, "text"), rapid.IntRange(0, 20).Draw(t, "most")
		if got := Shorten(s, most); !utf8.ValidString(got) || len(got) > max(len(s), most+len("…")) ||
			!strings.HasPrefix(s, strings.TrimSuffix(got, "…")) {
			t.Fatalf("%q", got)
		}
	})
}

func TestCount(t *testing.T) {
	for got, want := range map[string]string{
		Count(0, "task"): "0 tasks", Count(1, "task"): "1 task", Count(int32(2), "task"): "2 tasks",
		Count(int64(-1), "day"):               "-1 days",
		CountAs(1, "copy runs", "copies run"): "1 copy runs", CountAs(3, "copy runs", "copies run"): "3 copies run",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "abc", 0}, {"abc", "abd", 1}, {"abc", "ab", 1}, {"abc", "abcd", 1},
		{"abc", "bac", 1}, {"kitten", "sitting", 3},
		{"ca", "abc", 3}, // a swap is of neighbours, and nothing is put between them
		{strings.Repeat("x", 65), "x", 65},
	} {
		if got := Distance(c.a, c.b); got != c.want {
			t.Errorf("%q, %q: %d, want %d", c.a, c.b, got, c.want)
		}
		if got := Distance(c.b, c.a); got != c.want {
			t.Errorf("%q, %q: %d, want %d", c.b, c.a, got, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"instances", "image", "Restart"}
	for in, want := range map[string]string{
		"instancs": "instances", "imgae": "image", "restart": "Restart", "x": "", "": "", "environment": "", "mge": "",
		strings.Repeat("instances", 8): "",
	} {
		if got := Nearest(in, names); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := DidYouMean("imgae", names); got != "did you mean image?" {
		t.Errorf("%q", got)
	}
	if got := DidYouMean("environment", names); got != "" {
		t.Errorf("%q", got)
	}
}
