package health

import (
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cantina/internal/guard"
)

// get returns status and body of a path.
func get(t *testing.T, s *Set, path string) (int, string) {
	t.Helper()
	mux := guard.NewMux()
	s.Register(mux)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
	return w.Code, w.Body.String()
}

func TestEachCheckHasALine(t *testing.T) {
	s := &Set{}
	s.Add(Part{Name: "server", Live: func() {}, Ready: func() []Check {
		return []Check{{Name: "store"}, {"leader", "no server leads"}}
	}})
	s.Add(Part{Name: "cell", Live: func() {}, Ready: func() []Check { return []Check{{Name: "session"}} }})
	if code, body := get(t, s, "/healthz"); code != 200 || body != "[+]server ok\n[+]cell ok\nhealthz check passed\n" {
		t.Errorf("%d %s", code, body)
	}
	if code, body := get(t, s, "/readyz"); code != 503 ||
		body != "[+]store ok\n[-]leader failed: no server leads\n[+]session ok\nreadyz check failed\n" {
		t.Errorf("%d %s", code, body)
	}
}

// TestAPartThatDoesNotAnswer: it fails its own check alone, and is asked once however many ask for it.
func TestAPartThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		stuck, s := make(chan struct{}), &Set{}
		s.Add(Part{Name: "server", Live: func() { asked.Add(1); <-stuck }})
		s.Add(Part{Name: "disk", Live: func() { <-stuck }})
		s.Add(Part{Name: "cell", Live: func() {}})
		for range 3 {
			begun := time.Now()
			code, body := get(t, s, "/healthz")
			if want := "[-]server failed: does not answer\n[-]disk failed: does not answer\n[+]cell ok\n" +
				"healthz check failed\n"; code != 503 || body != want || time.Since(begun) != answerTime {
				t.Errorf("%d %s after %s", code, body, time.Since(begun))
			}
		}
		if asked.Load() != 1 {
			t.Errorf("asked %d times", asked.Load())
		}
		close(stuck)
		synctest.Wait()
		if code, body := get(t, s, "/healthz"); code != 200 {
			t.Errorf("it answers again: %d %s", code, body)
		}
	})
}
