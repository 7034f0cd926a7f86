package callback

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	hidden "cantina/internal/secret"
	"cantina/task"
)

type outcome struct {
	guid, uid, problem string
	delivered          bool
}

// deliver sends one task to a server that answers by the given handler.
func deliver(t *testing.T, cfg Config, handler http.HandlerFunc) outcome {
	t.Helper()
	server := httptest.NewServer(handler)
	defer server.Close()
	return deliverTo(t, cfg, server.URL)
}

func deliverTo(t *testing.T, cfg Config, url string) outcome {
	t.Helper()
	done := make(chan outcome, 1)
	cfg.Done = func(d task.Delivery, delivered bool, problem string) {
		done <- outcome{d.GUID, d.UID, problem, delivered}
	}
	cfg.Wall = func() time.Time { return time.Unix(1700000000, 0) }
	s := New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	s.Send(&task.Task{
		GUID: "g", UID: "u", Domain: "d", Verdict: 1, Outcome: task.Failed,
		Definition: &task.Definition{CallbackURL: url, Annotation: "note"},
		Result:     task.Result{Failed: true, Reason: "exited with status 3", ExitCode: 3, Output: []byte("out")},
	})
	out := <-done
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return out
}

func TestBodyAndSignature(t *testing.T) {
	secret := []byte("secret")
	var body Body
	out := deliver(t, Config{Secret: hidden.New(string(secret))}, func(_ http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if got := r.Header.Get(HeaderSignature); got != Sign(secret, time.Unix(1700000000, 0), raw) ||
			!strings.HasPrefix(got, "t=1700000000,v1=") {
			t.Errorf("signature %q", got)
		}
		if r.Method != http.MethodPost || r.Header.Get(HeaderDelivery) != "u" ||
			r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %v", r.Method, r.Header)
		}
		if err := json.Unmarshal(raw, &body); err != nil {
			t.Error(err)
		}
	})
	if out != (outcome{guid: "g", uid: "u", delivered: true}) {
		t.Errorf("%+v", out)
	}
	want := Body{TaskGUID: "g", TaskUID: "u", Delivery: "u", Verdict: 1, Domain: "d", Outcome: "failed", Failed: true,
		FailureReason: "exited with status 3", Result: "out", ExitCode: 3, Annotation: "note"}
	if body != want {
		t.Errorf("%+v", body)
	}
}

// TestAttempts: only 503 and 504 (and time-outs) are tried again, three times at most.
func TestAttempts(t *testing.T) {
	for _, c := range []struct {
		answers   []int
		calls     int
		delivered bool
	}{
		{[]int{200}, 1, true},
		{[]int{302}, 1, true},
		{[]int{404}, 1, true},
		{[]int{500}, 1, true},
		{[]int{503, 200}, 2, true},
		{[]int{504, 503, 204}, 3, true},
		{[]int{503, 503, 503, 200}, 3, false},
	} {
		var mu sync.Mutex
		calls := 0
		out := deliver(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			w.WriteHeader(c.answers[min(calls, len(c.answers)-1)])
			calls++
		})
		if calls != c.calls || out.delivered != c.delivered || (out.problem == "") != c.delivered {
			t.Errorf("%v: %d calls, %+v", c.answers, calls, out)
		}
	}
}

func TestTimeoutIsTriedAgain(t *testing.T) {
	var mu sync.Mutex
	calls := 0
	out := deliver(t, Config{Timeout: 3 * time.Second}, func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		calls++
		first := calls == 1
		mu.Unlock()
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		if first {
			<-r.Context().Done() // until the sender gives up
		}
	})
	if calls != 2 || !out.delivered {
		t.Errorf("%d calls, %+v", calls, out)
	}
}

func TestUnreachableCallback(t *testing.T) {
	// A free port may be taken at any moment; this port is reserved and never in use.
	if out := deliverTo(t, Config{}, "http://127.0.0.1:1"); out.delivered || out.problem == "" {
		t.Errorf("%+v", out)
	}
	if out := deliverTo(t, Config{}, "http://\x7f"); out.delivered || out.problem == "" {
		t.Errorf("%+v", out)
	}
}

// The address of a callback may hold secrets: no problem has it.
func TestProblemsDoNotShowTheAddress(t *testing.T) {
	for _, url := range []string{
		"http://user:hunter@127.0.0.1:1/hunter?sig=hunter#hunter", "http://user:hunter@no-such-host.invalid/?hunter",
		"http://hunter\x7f/?hunter",
	} {
		out := deliverTo(t, Config{Timeout: 3 * time.Second}, url)
		if out.delivered || out.problem == "" || strings.Contains(out.problem, "hunter") {
			t.Errorf("%s: %+v", url, out)
		}
	}
}

func TestAFullQueueDrops(t *testing.T) {
	s := New(Config{Queue: 1, Done: func(task.Delivery, bool, string) { t.Error("unexpected report") }})
	var taken []bool
	for _, guid := range []string{"a", "b", "a"} {
		taken = append(taken, s.Send(&task.Task{GUID: guid, Definition: &task.Definition{}}))
	}
	if len(s.queue) != 1 || !slices.Equal(taken, []bool{true, false, true}) {
		t.Errorf("%d wait, taken %v", len(s.queue), taken)
	}
}

// TestOneTaskOneDelivery: while an end point is slow, the same end is not sent again. An end that replaces it waits
// its turn. An end that was replaced before its delivery began is never sent.
func TestOneTaskOneDelivery(t *testing.T) {
	arrived, goOn := make(chan string), make(chan int)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- r.Header.Get(HeaderDelivery)
		w.WriteHeader(<-goOn)
	}))
	defer server.Close()
	done := make(chan task.Delivery, 10)
	s := New(Config{Workers: 4, Wall: time.Now, Done: func(d task.Delivery, _ bool, _ string) { done <- d }})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	verdict := func(n int) *task.Task {
		return &task.Task{GUID: "g", UID: "u", Verdict: n, Definition: &task.Definition{CallbackURL: server.URL}}
	}
	s.Send(verdict(1))
	if got := <-arrived; got != "u" {
		t.Fatal(got)
	}
	for _, n := range []int{1, 1, 2, 3, 3} {
		if !s.Send(verdict(n)) {
			t.Fatal("not taken")
		}
	}
	select {
	case got := <-arrived:
		t.Fatalf("%s is sent beside the first", got)
	case goOn <- http.StatusServiceUnavailable: // worth another attempt, were it not replaced
	}
	if got := <-arrived; got != "u-3" {
		t.Fatal(got)
	}
	goOn <- http.StatusOK
	if d := <-done; d.Verdict != 3 {
		t.Error(d)
	}
	cancel()
	if err := <-ended; err != nil || len(done) != 0 || len(s.tasks) != 0 {
		t.Error(err, len(done), s.tasks)
	}
}

// TestNoAttemptForUnwantedWork: the board is asked before each attempt.
func TestNoAttemptForUnwantedWork(t *testing.T) {
	calls, asked := make(chan bool, 9), make(chan task.Delivery, 9)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls <- true
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	s := New(Config{Wall: time.Now, Done: func(d task.Delivery, _ bool,
		_ string) {
		t.Errorf("unexpected report of %v", d)
	},
		Wanted: func(d task.Delivery) bool { asked <- d; return len(asked) < 2 }})
	s.Send(&task.Task{GUID: "g", UID: "u", Verdict: 1, Definition: &task.Definition{CallbackURL: server.URL}})
	s.deliver(t.Context(), s.take(<-s.queue))
	if s.take("g") != nil || len(calls) != 1 || len(asked) != 2 {
		t.Errorf("%d calls, asked %d times", len(calls), len(asked))
	}
}
