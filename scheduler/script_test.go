package scheduler

import (
	"context"
	"errors"
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
		"hangs":       {"sleep 1000 & sleep 1000", "time-out after 50ms", 50 * time.Millisecond},
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
