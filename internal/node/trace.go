package node

import (
	"context"
	"time"

	"cantina/api"
	"cantina/cell"
	"cantina/executor"
	"cantina/internal/trace"
	"cantina/placement"
	"cantina/plan"
)

// traced is the span of a step of the call that made a task.
func (s *Server) traced(t *plan.Task, step string, begin time.Time) {
	s.cfg.Trace.Add(trace.Span{Work: t.UID, Name: step, Root: step == api.StepCall, Begin: begin, End: s.cfg.Clock.Wall(),
		Attributes: []string{"task", t.GUID, "domain", t.Domain, "server", s.cfg.Name}})
}

// placed measures a placement. An instance has no call of its own, so its trace begins here.
func (s *Server) placed(p *placement.Placement) {
	s.cfg.Metrics.Placed(p.Waited)
	if s.cfg.Trace == nil {
		return
	}
	now := s.cfg.Clock.Wall()
	s.cfg.Trace.Add(trace.Span{Work: p.Item.Hold, Name: "placement", Root: p.Item.Kind == placement.KindLRP,
		Begin: now.Add(-p.Waited), End: now, Attributes: []string{"name", p.Item.Name, "cell", p.Cell}})
}

// traceStarts adds the spans of each container that becomes RUNNING. Its subscription is its own: events that it
// misses are spans that are missing.
func (n *Cell) traceStarts(ctx context.Context) error {
	s, err := n.exec.Subscribe()
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, ok := <-s.C:
			if !ok {
				return nil
			}
			if e.Kind == executor.EventRunning {
				n.traceStart(&e.Container)
			}
		}
	}
}

// traceStart adds the spans from the reservation of a container to its first program, and from there until it is
// RUNNING.
func (n *Cell) traceStart(c *executor.Container) {
	work := cell.TraceOf(c.Labels)
	if work == "" || c.Started.IsZero() {
		return
	}
	about := []string{"cell", string(n.cfg.Name), "container", c.ID}
	n.cfg.Trace.Add(trace.Span{Work: work, Name: "cell launch", Begin: c.Created, End: c.Started, Attributes: about})
	n.cfg.Trace.Add(trace.Span{Work: work, Name: "process start", Begin: c.Started, End: n.cfg.Clock.Wall(),
		Attributes: about})
}
