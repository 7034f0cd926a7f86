package guard

import (
	"net/http"
	"slices"
)

// Mux is an http.ServeMux that lists its patterns, so that a test can check all of them. Only this
// package makes one.
type Mux struct {
	mux      *http.ServeMux
	patterns []string
}

// NewMux returns a Mux without patterns.
func NewMux() *Mux { return &Mux{mux: http.NewServeMux()} }

// Handle registers a handler. The patterns of a Mux below it are its own too.
func (m *Mux) Handle(pattern string, h http.Handler) {
	m.patterns = append(m.patterns, pattern)
	if inner, ok := h.(*Mux); ok {
		m.patterns = append(m.patterns, inner.patterns...)
	}
	m.mux.Handle(pattern, h)
}

// HandleFunc registers a function.
func (m *Mux) HandleFunc(pattern string, f http.HandlerFunc) { m.Handle(pattern, f) }

// Patterns lists the registered patterns.
func (m *Mux) Patterns() []string { return slices.Clone(m.patterns) }

// ServeHTTP implements http.Handler.
func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.mux.ServeHTTP(w, r) }
