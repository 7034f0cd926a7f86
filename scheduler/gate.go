package scheduler

import (
	"maps"
	"slices"

	"cantina/batch"
)

// openGates brings the gates of the jobs that come after others up to date, through any chain: each
// round passes on what the one before has changed. The lock is held.
func (s *Scheduler) openGates() {
	for range len(s.gated) + 1 {
		changed := false
		for _, name := range slices.Sorted(maps.Keys(s.gated)) {
			j := s.jobs[name]
			if j == nil || j.row.deleted || j.spec == nil || len(j.spec.After) == 0 {
				delete(s.gated, name)
				continue
			}
			was, g := j.forest.board.Gate(name), batch.GateOf(s.before(j))
			j.forest.board.SetGate(name, g)
			if g != was {
				s.stir(j.forest)
			}
			changed = changed || g.Shut != was.Shut || g.Never != was.Never
		}
		if !changed {
			return
		}
		s.publishStates(slices.Sorted(maps.Keys(s.jobs)))
	}
}

// before returns the jobs that a job comes after.
func (s *newest) before(j *job) []batch.Before {
	out := make([]batch.Before, len(j.spec.After))
	for i, name := range j.spec.After {
		d := s.jobs[name]
		out[i] = batch.Before{Name: name, Exists: d != nil && !d.row.deleted}
		if !out[i].Exists || d.forest == nil {
			continue
		}
		out[i].Listed = d.forest.current() && d.known()
		out[i].Circle = s.reaches(d, j, map[*job]bool{})
		out[i].Progress = s.progress(d)
	}
	return out
}

// reaches reports whether a job waits for another one, through any chain.
func (s *newest) reaches(from, to *job, seen map[*job]bool) bool {
	if from == to {
		return true
	}
	if from == nil || from.spec == nil || seen[from] {
		return false
	}
	seen[from] = true
	for _, name := range slices.Concat(from.spec.After, from.spec.DependsOn) {
		if s.reaches(s.jobs[name], to, seen) {
			return true
		}
	}
	return false
}
