package heaptest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestFindsLeftovers: a map from which nothing is removed is found by name; one that is emptied is not.
func TestFindsLeftovers(t *testing.T) {
	if os.Getenv(marker) != "" {
		t.Skip("for the first process alone")
	}
	for name, fails := range map[string]bool{"TestKeeps": true, "TestDrops": false} {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+name+"$", "-test.v=true")
		c.Env = append(os.Environ(), marker+"="+name, "GODEBUG=memprofilerate=1")
		out, err := c.CombinedOutput()
		if (err != nil) != fails || fails && !strings.Contains(string(out), "heaptest.keep ") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

var kept = map[int]string{}

//go:noinline
func keep(i int) { kept[i] = strings.Repeat("x", 20) }

func TestKeeps(t *testing.T) {
	if os.Getenv(marker) != t.Name() {
		t.Skip("run by TestFindsLeftovers")
	}
	Levels(t, Config{Round: keep, Things: 1, Rounds: 1000})
}

func TestDrops(t *testing.T) {
	if !Child(t) {
		return
	}
	Levels(t, Config{Round: func(i int) { keep(i); delete(kept, i) }, Things: 1, Rounds: 1000})
}
