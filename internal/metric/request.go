package metric

import (
	"net/http"
	"time"
)

// classes are those of HTTP statuses, in the order of their first digits.
var classes = [...]string{"1xx", "2xx", "3xx", "4xx", "5xx"}

// Requests counts the requests that h answers, and measures when an answer begins: streams have no end in time.
func (s *Set) Requests(h http.Handler) http.Handler {
	if s == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &answer{ResponseWriter: w, set: s, begun: time.Now()}
		h.ServeHTTP(a, r)
		a.begins(http.StatusOK) // an answer without a body
	})
}

// answer is a writer that notes its first status.
type answer struct {
	http.ResponseWriter
	set   *Set
	begun time.Time
	noted bool
}

func (a *answer) begins(status int) {
	class := status/100 - 1
	if a.noted || class < 1 || class >= len(classes) {
		return
	}
	a.noted = true
	a.set.requestWaited.Observe(time.Since(a.begun).Seconds())
	a.set.requests.WithLabelValues(classes[class]).Inc()
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	a.begins(status)
	a.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (a *answer) Write(p []byte) (int, error) {
	a.begins(http.StatusOK)
	return a.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Flush implements http.Flusher.
func (a *answer) Flush() {
	a.begins(http.StatusOK)
	_ = http.NewResponseController(a.ResponseWriter).Flush() // as http.Flusher does
}
