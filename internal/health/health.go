// Package health answers whether a process works (/healthz) and whether it can take traffic (/readyz).
//
//	parts of the process ──► Set ──► /healthz, /readyz: one line for each check, 200 or 503
//
// Both paths are for monitors without credentials, so a Fault is a fixed text: it names no work, no
// path and no address. /healthz has only faults that a restart of the process can end; all others are
// in /readyz (docs/decisions/0437). A Set may be used from any goroutine.
package health

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"cantina/internal/guard"
)

// Check is one condition of a process.
type Check struct {
	Name string
	// Fault is why the condition does not hold; empty = it holds.
	Fault string
}

// Part has the checks of one part of a process. Each function may wait for locks of the part: a call that does not
// return in time is a fault. There is one call of each at a time.
type Part struct {
	Name string
	// Live returns when the part works.
	Live func()
	// Ready returns the conditions for traffic.
	Ready func() []Check
}

// answerTime is how long a part may take to answer.
const answerTime = 2 * time.Second

// silent is the fault of a part that does not answer.
const silent = "does not answer"

// Set has the checks of one process. The zero value has none, and is healthy and ready.
type Set struct {
	mu          sync.Mutex
	live, ready []*question
}

// Add adds a part.
func (s *Set) Add(p Part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = append(s.live, &question{name: p.Name, ask: func() []Check { p.Live(); return []Check{{Name: p.Name}} }})
	s.ready = append(s.ready, &question{name: p.Name, ask: p.Ready})
}

// Live returns the checks of /healthz.
func (s *Set) Live() []Check { return s.all(&s.live) }

// Ready returns the checks of /readyz.
func (s *Set) Ready() []Check { return s.all(&s.ready) }

func (s *Set) all(list *[]*question) (out []Check) {
	s.mu.Lock()
	asked := *list
	s.mu.Unlock()
	waits := make([]*reply, len(asked))
	for i, q := range asked {
		waits[i] = q.start()
	}
	late, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	for i, r := range waits {
		select {
		case <-r.done:
		case <-late.Done():
		}
		select {
		case <-r.done:
			out = append(out, r.checks...)
		default:
			out = append(out, Check{asked[i].name, silent})
		}
	}
	return out
}

// OK reports whether all checks hold.
func OK(all []Check) bool {
	for _, c := range all {
		if c.Fault != "" {
			return false
		}
	}
	return true
}

// Register has a mux answer both paths.
func (s *Set) Register(mux *guard.Mux) {
	mux.HandleFunc("GET /healthz", answer("healthz", s.Live))
	mux.HandleFunc("GET /readyz", answer("readyz", s.Ready))
}

// answer writes one line for each check and one for all.
func answer(name string, checks func() []Check) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		all := checks()
		var b strings.Builder
		for _, c := range all {
			if c.Fault == "" {
				fmt.Fprintf(&b, "[+]%s ok\n", c.Name)
			} else {
				fmt.Fprintf(&b, "[-]%s failed: %s\n", c.Name, c.Fault)
			}
		}
		status, end := http.StatusOK, "passed"
		if !OK(all) {
			status, end = http.StatusServiceUnavailable, "failed"
		}
		fmt.Fprintf(&b, "%s check %s\n", name, end)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(b.String())) // a caller that went away needs no answer
	}
}

// question is a function of a part that runs at most once at a time: callers that come meanwhile get its answer, so
// that many requests cost no more than one.
type question struct {
	name string
	ask  func() []Check

	mu      sync.Mutex
	running *reply
}

type reply struct {
	done   chan struct{} // closed when checks is set
	checks []Check
}

// start asks, unless that is in progress. The goroutine of a part that never answers stays: only the end of the
// process helps it.
func (q *question) start() *reply {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running != nil {
		return q.running
	}
	r := &reply{done: make(chan struct{})}
	q.running = r
	go func() {
		r.checks = q.ask()
		q.mu.Lock()
		q.running = nil
		q.mu.Unlock()
		close(r.done)
	}()
	return r
}
