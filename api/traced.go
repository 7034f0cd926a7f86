package api

import (
	"time"

	"cantina/plan"
)

// Steps of a call that makes a task.
const (
	StepCall   = "API call"
	StepCommit = "commit"
)

// begin is the time at which a step begins; zero when steps are not traced.
func (s *Server) begin() (at time.Time) {
	if s.cfg.Traced != nil && s.cfg.Now != nil {
		at = s.cfg.Now()
	}
	return at
}

// traced reports the end of a step that succeeded.
func (s *Server) traced(t *plan.Task, step string, begin time.Time, err error) {
	if err == nil && !begin.IsZero() {
		s.cfg.Traced(t, step, begin)
	}
}
