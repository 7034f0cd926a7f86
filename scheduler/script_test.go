package scheduler

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestPrograms(t *testing.T) {
	p := Programs{Env: []string{"PATH=/usr/bin:/bin", "X=y z"}, Dir: t.TempDir()}
	sh := func(script string) []string { return []string{"/bin/sh", "-c", script, "sh"} }
	out, err := p.Output(t.Context(), append(sh(`printf '%s\n' "$1" "$X"; pwd; echo warning >&2`), "parent"), 0)
	if err != nil || string(out) != "parent\ny z\n"+p.Dir+"\n" {
		t.Errorf("%q, %v", out, err)
	}
	for name, c := range map[string]struct {
		script, text string
		timeout      time.Duration
	}{
		"exit status": {"echo half; echo why >&2; exit 3", "exit status 3: why", 0},
		"hangs":       {"sleep 1000 & sleep 1000", "timeout after 50ms", 50 * time.Millisecond},
	} {
		_, err := p.Output(t.Context(), sh(c.script), c.timeout)
		if !errors.Is(err, ErrScript) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := p.Output(t.Context(), []string{"/no/such/program"}, 0); !errors.Is(err, ErrScript) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Output(ctx, sh("sleep 1000"), 0); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestAScriptLeavesNothingBehind: its processes end with it, also when it runs too long, and hold its output up no
// longer.
func TestAScriptLeavesNothingBehind(t *testing.T) {
	for name, byMark := range map[string]bool{"groups": false, "marks": true} {
		for kind, end := range map[string]string{"ends": "", "fails": "exit 3", "hangs": "sleep 1000"} {
			t.Run(name+" "+kind, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "pid")
				p := Programs{Env: []string{"PATH=/usr/bin:/bin"}, ByMark: byMark}
				script := `(setsid sh -c 'trap "" TERM HUP; echo $$ >"$1.new"; mv "$1.new" "$1"; exec sleep 1000' sh "$1" &); ` +
					`until [ -e "$1" ]; do sleep 0.01; done; echo out; ` + end
				begun := time.Now()
				out, err := p.Output(t.Context(), []string{"/bin/sh", "-c", script, "sh", file}, 5*time.Second)
				if (err == nil) != (kind == "ends") || err == nil && string(out) != "out\n" {
					t.Errorf("%q, %v", out, err)
				}
				if kind != "hangs" && time.Since(begun) > 4*time.Second {
					t.Errorf("it took %v", time.Since(begun))
				}
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := os.Stat("/proc/" + strings.TrimSpace(string(text))); !errors.Is(err, os.ErrNotExist) {
					if b, _ := os.ReadFile("/proc/" + strings.TrimSpace(string(text)) + "/stat"); !strings.Contains(string(b),
						") Z ") {
						t.Errorf("process %s is left: %s", text, b)
					}
				}
			})
		}
	}
}

func TestLimitedOutput(t *testing.T) {
	l := &limited{most: 5}
	for _, s := range []string{"abc", "defg", "h"} {
		if n, err := l.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatal(n, err)
		}
	}
	if l.String() != "abcde" || !l.over {
		t.Errorf("%q, over %v", l.String(), l.over)
	}
}
