package trace

import (
	"log/slog"
	"testing"
	"time"
)

func TestAnIDOf16BytesIsItsOwnTrace(t *testing.T) {
	const uid = "0123456789abcdef0123456789abcdef"
	if id, root := traceOf(uid); id.String() != uid || !root.IsValid() {
		t.Errorf("%s, %s", id, root)
	}
	a, rootA := traceOf("one")
	b, rootB := traceOf("two")
	if !a.IsValid() || !rootA.IsValid() || a == b || rootA == rootB {
		t.Errorf("%s %s, %s %s", a, rootA, b, rootB)
	}
	if again, root := traceOf("one"); again != a || root != rootA {
		t.Error("another process finds another trace")
	}
}

// TestOffCostsNothing: without a tracer a span allocates nothing.
func TestOffCostsNothing(t *testing.T) {
	var off *Tracer
	at := time.Unix(1, 0)
	if n := testing.AllocsPerRun(100, func() { off.Add(Span{Work: "w", Name: "n", Begin: at, End: at}) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestEndpoints(t *testing.T) {
	for endpoint, good := range map[string]bool{"http://127.0.0.1:4318": true, "https://host/custom/path": true,
		"127.0.0.1:4318": false, "ftp://x": false, "http://": false, "": false} {
		if _, err := Open(t.Context(), endpoint, "s", "b", slog.New(slog.DiscardHandler)); (err == nil) != good {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
}
