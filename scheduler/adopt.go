package scheduler

import (
	"slices"
	"time"

	"cantina/batch"
	"cantina/fence"
	"cantina/placement"
	"cantina/worker"
)

// adoptEvery bounds how often the whole model is compared.
const adoptEvery = time.Second

// outdated takes a pick back when reports have come since the model was compared: what
// they tell of may draw on the same nodes.
func (s *Scheduler) outdated(p *pick) bool {
	if len(p.Draws) == 0 {
		return false
	}
	adopted := s.cfg.Registry.Adopted()
	s.mu.Lock()
	defer s.mu.Unlock()
	if adopted == s.adopted {
		return false
	}
	s.unpicked(p, batch.ScopeNode, "reading reports of cells")
	s.changed = true
	ring(s.wake)
	return true
}

// adopt compares the registry's model with the boards: reported work counts as
// running and draws on its nodes. It does so whenever reports have brought anything into the
// model; and from time to time when the two differ in number, whatever the reason.
func (s *Scheduler) adopt() {
	adopted := s.cfg.Registry.Adopted()
	s.mu.Lock()
	now := s.cfg.Clock.Boot()
	known := len(s.strangers)
	for _, f := range s.forests {
		known += f.board.Live()
	}
	for _, also := range s.former {
		known -= len(also)
	}
	news, due := adopted != s.adopted, s.changed && now-s.compared >= adoptEvery
	s.mu.Unlock()
	if !news && (!due || s.cfg.Registry.Live() == known) {
		return
	}
	s.mu.Lock()
	s.adopted, s.compared = adopted, now
	s.mu.Unlock()
	s.compare(s.cfg.Registry.Model, func() {})
}

// adoptViews books what is not known yet, and returns what it holds on its cells.
func (s *Scheduler) adoptViews(views []worker.RunView) []placement.Holding {
	var out []placement.Holding
	for _, v := range views {
		k := batch.Key(v.Run.Work)
		if v.Ending || s.ends[k] != nil || s.meanwhile[v.Run.Invocation] {
			continue
		}
		s.seen(v.Run.Invocation)
		h := placement.Holding{Hold: holdID(k), Cell: string(v.Cell), Kind: placement.KindBatch}
		b := s.boardOf(k)
		if b == nil {
			if s.strangers[k] == v.Run.Invocation {
				continue
			}
			s.strangers[k] = v.Run.Invocation
		} else {

			if inv, _, ok := b.Running(k); ok && inv == v.Run.Invocation || b.Picked(k) {
				continue
			}
			b.Adopt(k, v.Run.Invocation, string(v.Cell))
			h.Need = b.CellNeeds(k.Job)
		}
		s.shadow(s.jobs[k.Job], v.Run.Invocation)
		if h.Cell != "" {
			out = append(out, h)
		}
	}
	return out
}

// shadow notes what is adopted of an earlier life of its job: what it draws on is not known.
func (s *Scheduler) shadow(j *job, inv fence.Invocation) {
	switch {
	case j == nil: // no row says over which forest it ran
	case j.row.deleted:
		s.shadows[inv] = append([]string{j.row.spec.Forest}, j.row.former...)
	case inv.Compare(j.row.born) <= 0 && len(j.row.former) > 0 && s.former[inv] == nil:
		s.shadows[inv] = j.row.former
	}
}

func (s *Scheduler) holdAll(holds []placement.Holding) {
	for _, h := range holds {
		if err := s.cfg.Auctioneer.Hold(h); err != nil {
			s.cfg.Log.Warn("adopted batch task is booked on another cell", "hold", h.Hold, "cell", h.Cell, "error", err)
		}
	}
}

// compare reads what the model has, and books what is not known yet; first comes before
// that, under the lock. What ends between the two does not run any more. What a row ends
// is ended, if nobody has asked for that: it was reported before its name was born again.
func (s *Scheduler) compare(read func() []worker.RunView, first func()) {
	s.mu.Lock()
	s.meanwhile = make(map[fence.Invocation]bool)
	s.mu.Unlock()
	views := read()
	s.mu.Lock()
	first()
	holds := s.adoptViews(views)
	kills := s.condemned(views)
	s.meanwhile = nil
	s.mu.Unlock()
	s.holdAll(holds)
	for _, r := range kills {
		s.cfg.Registry.Kill(r)
	}
}

// condemned returns what is to be ended by the rows, and goes on in the model.
func (s *Scheduler) condemned(views []worker.RunView) []worker.Run {
	var out []worker.Run
	for _, v := range views {
		if !v.Ending && !v.Kill && !s.meanwhile[v.Run.Invocation] && s.killStored(v.Run) {
			out = append(out, v.Run)
		}
	}
	return out
}

// shadowed takes a pick back on whose nodes something may draw that is not accounted for.
func (s *Scheduler) shadowed(p *pick) bool {
	if len(p.Draws) == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, forests := range s.shadows {
		if slices.Contains(forests, p.spec.Forest) {
			s.unpicked(p, batch.ScopeJob, "batch tasks of a removed or replaced job may still use its nodes")
			return true
		}
	}
	return false
}
