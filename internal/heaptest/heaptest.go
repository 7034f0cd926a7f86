// Package heaptest finds memory that is kept for deleted items: a test creates and deletes items,
// and compares the heap after one round with the heap after ten, by the place of allocation. Only
// tests use it.
package heaptest

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Config has the parts of a churn.
type Config struct {
	// Round creates items and deletes them; it returns when they are gone. It is called with 0, 1, 2
	// and so on, so that names are never reused. Things is the number of items.
	Round  func(i int)
	Things int
	// Rounds are in one measure; all in all there are ten measures.
	Rounds int
	// Warm rounds run before the first measurement: until records of the past have reached their
	// limit.
	Warm int
	// Quiesce, when set, is called before the heap is measured.
	Quiesce func()
	// Bounded are places that may grow, because a documented limit bounds their memory: the end of a
	// function's name, and that reason.
	Bounded map[string]string
}

const (
	measures = 10
	// grace is the permitted growth for each item, at one place and in all: less than the smallest
	// entry of a map.
	grace, graceInAll = 16, 40
	// ownGoroutines are those that a bounded pool may add, as that of the threads that fork does
	// while one of them hangs on a slow machine.
	ownGoroutines = 16
	// atLeast is growth that a buffer of the runtime may have.
	atLeast = 16 << 10
)

// marker is set in the process that counts.
const marker = "CANTINA_HEAPTEST"

// Child runs the test again in a separate process in which each allocation is counted. It returns
// true there, and the test continues. In the first process it returns false when the other has
// ended, and the test has failed with it.
func Child(t *testing.T) bool {
	t.Helper()
	if os.Getenv(marker) == t.Name() {
		return true
	}
	parts := strings.Split(t.Name(), "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run="+strings.Join(parts, "/"), "-test.v=true",
		"-test.count=1")
	c.Env = append(os.Environ(), marker+"="+t.Name(), "GODEBUG=memprofilerate=1")
	out, err := c.CombinedOutput()
	switch {
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case !strings.Contains(string(out), counted):
		t.Errorf("nothing was counted:\n%s", out)
	default:
		t.Log(lines(string(out), counted))
	}
	return false
}

// lines are the lines of a text that contain a word.
func lines(text, word string) string {
	var out []string
	for l := range strings.Lines(text) {
		if _, after, ok := strings.Cut(l, word); ok {
			out = append(out, word+strings.TrimRight(after, "\n"))
		}
	}
	return strings.Join(out, "\n")
}

// counted begins the line that a process prints which has measured.
const counted = "live heap"

// Levels fails the test if memory or goroutines grow with deleted items. Call it in the process of
// Child.
func Levels(t *testing.T, c Config) {
	t.Helper()
	if os.Getenv("CANTINA_SOAK") != "" {
		c.Rounds *= 5
	}
	i := 0
	for range c.Warm + c.Rounds {
		c.Round(i)
		i++
	}
	one, goroutines := measure(c), runtime.NumGoroutine()
	for range (measures - 1) * c.Rounds {
		c.Round(i)
		i++
	}
	ten := measure(c)
	things := int64(c.Things * c.Rounds * (measures - 1))
	t.Logf(counted+": %d KiB after %d things, %d KiB after %d", total(one)>>10, c.Things*c.Rounds, total(ten)>>10,
		measures*c.Things*c.Rounds)
	if n := runtime.NumGoroutine(); int64(n-goroutines) > max(ownGoroutines, things/100) {
		t.Errorf("%d goroutines, and %d after ten times as much", goroutines, n)
	}
	var grown, bounded int64
	var most strings.Builder
	shown := 0
	for _, p := range slices.SortedFunc(maps.Values(ten),
		func(a, b place) int { return cmp.Compare(b.bytes-one[b.stack].bytes, a.bytes-one[a.stack].bytes) }) {
		more := p.bytes - one[p.stack].bytes
		grown += more
		if c.mayGrow(p) {
			bounded += more
			continue
		}
		if shown++; shown <= 12 {
			fmt.Fprintf(&most, "%d bytes in %d objects\n%s", more, p.objects-one[p.stack].objects, p.stack)
		}
		if more > max(atLeast, grace*things) {
			t.Errorf("%d bytes in %d objects more for %d things that are gone, %d bytes each, allocated at\n%s", more,
				p.objects-one[p.stack].objects, things, more/things, p.stack)
		}
	}
	if grown -= bounded; grown > max(8*atLeast, graceInAll*things) {
		t.Errorf("%d bytes more for %d things that are gone, %d bytes each, in many places; most at\n%s", grown, things,
			grown/things, most.String())
	}
}

func (c *Config) mayGrow(p place) bool {
	for name := range c.Bounded {
		if strings.Contains(p.stack, name) {
			return true
		}
	}
	return false
}

// place is where memory was allocated that lives.
type place struct {
	stack          string
	bytes, objects int64
}

func total(m map[string]place) (n int64) {
	for _, p := range m {
		n += p.bytes
	}
	return n
}

// measure returns the live memory, by the place of allocation.
func measure(c Config) map[string]place {
	if c.Quiesce != nil {
		c.Quiesce()
	}
	for range 3 { // finalizers, and pools that keep items for one collection
		runtime.GC()
	}
	records := make([]runtime.MemProfileRecord, 1024)
	for {
		n, ok := runtime.MemProfile(records, false)
		if ok {
			records = records[:n]
			break
		}
		records = make([]runtime.MemProfileRecord, n+1024)
	}
	out := map[string]place{}
	for i := range records {
		r := &records[i]
		stack := callers(r.Stack())
		if stack == "" || strings.Contains(stack, "internal/heaptest.measure") { // of the runtime's own, and ours
			continue
		}
		p := out[stack]
		p.stack, p.bytes, p.objects = stack, p.bytes+r.InUseBytes(), p.objects+r.InUseObjects()
		out[stack] = p
	}
	return out
}

// callers are the innermost functions of a stack with their files, as many as identify the place.
func callers(stack []uintptr) string {
	var b strings.Builder
	frames := runtime.CallersFrames(stack)
	for n := 0; n < 7; {
		f, more := frames.Next()
		if f.Function != "" && !(n == 0 && (strings.HasPrefix(f.Function, "runtime.") ||
			strings.HasPrefix(f.Function, "internal/runtime/"))) {
			fmt.Fprintf(&b, "\t%s %s:%d\n", f.Function, path.Base(f.File), f.Line)
			n++
		}
		if !more {
			break
		}
	}
	return b.String()
}
