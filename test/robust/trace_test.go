package robust

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// receiver is a collector of traces in memory.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*otlp.Span
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		var m collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &m)
		}
		if err != nil || q.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", q.URL, err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, x := range m.ResourceSpans {
			for _, s := range x.ScopeSpans {
				r.spans = append(r.spans, s.Spans...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(r.Close)
	return r
}

// of returns the spans of a trace, in the order of their begins.
func (r *receiver) of(id string) (out []*otlp.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if hex.EncodeToString(s.TraceId) == id {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b *otlp.Span) int { return int(a.StartTimeUnixNano) - int(b.StartTimeUnixNano) })
	return out
}

// TestOneTaskIsOneTrace: a run has the spans from the call to the start of its process, in the trace of its uid, and an
// instance those from its placement.
func TestOneTaskIsOneTrace(t *testing.T) {
	r := newReceiver(t)
	d := startDev(t, tempDir(t), "--trace", r.URL).wait()
	if !eventually(func() bool { return strings.Contains(d.log.tail(1000), "ready on") }) {
		t.Fatal("not ready")
	}
	must(t, d.Addr, "run", "--name", "once", "--", "true")
	apply(t, d.Addr, "domain: d\nservices: {web: {command: [sleep, '100']}}\n")
	must(t, d.Addr, "wait", "web", "--timeout", "60s")
	var tasks []struct{ UID string }
	var instances []struct{ Instance string }
	if err := json.Unmarshal([]byte(must(t, d.Addr, "task", "ls", "-o", "json")), &tasks); err != nil || len(tasks) != 1 {
		t.Fatal(tasks, err)
	}
	if err := json.Unmarshal([]byte(must(t, d.Addr, "ps", "-o", "json")), &instances); err != nil || len(instances) != 1 {
		t.Fatal(instances, err)
	}
	d.signal(syscall.SIGTERM)
	<-d.ended // it has sent the spans
	for id, want := range map[string]string{tasks[0].UID: "API call, commit, placement, cell launch, process start",
		instances[0].Instance: "placement, cell launch, process start"} {
		var names []string
		spans := r.of(id)
		for i, s := range spans {
			names = append(names, s.Name)
			if s.EndTimeUnixNano < s.StartTimeUnixNano {
				t.Errorf("%s ends before it begins", s.Name)
			}
			if i == 0 && len(s.ParentSpanId) > 0 || i > 0 && string(s.ParentSpanId) != string(spans[0].SpanId) {
				t.Errorf("%s has parent %x", s.Name, s.ParentSpanId)
			}
		}
		if got := strings.Join(names, ", "); got != want {
			t.Errorf("%s: %s, want %s; of %d spans", id, got, want, len(r.spans))
		}
	}
}
