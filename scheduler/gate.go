package scheduler

import (
	"maps"
	"slices"

	"cantina/batch"
	"cantina/internal/multimap"
)

// gates are the jobs that come after others, and those whose gates the next pass computes, because a job that they come
// after may have changed.
type gates struct {
	after, needs multimap.Map[string, string] // job → jobs that come after it; that depend on its nodes
	edges        map[string][2][]string       // job → the jobs that it has in both
	due          map[string]bool
}

func newGates() gates {
	return gates{after: multimap.Map[string, string]{}, needs: multimap.Map[string, string]{},
		edges: map[string][2][]string{}, due: map[string]bool{}}
}

// connect replaces the jobs that a job comes after and depends on. Whether there is a circle may change for all that
// come after it, through any chain.
func (g *gates) connect(name string, after, needs []string) {
	set := func(in bool) {
		for _, before := range g.edges[name][0] {
			g.after.Set(before, name, in)
		}
		for _, before := range g.edges[name][1] {
			g.needs.Set(before, name, in)
		}
	}
	set(false)
	if g.edges[name] = [2][]string{after, needs}; len(after)+len(needs) == 0 {
		delete(g.edges, name)
	}
	set(true)
	seen := map[string]bool{name: true}
	for next := []string{name}; len(next) > 0; next = next[1:] {
		if len(g.edges[next[0]][0]) > 0 {
			g.due[next[0]] = true
		}
		for _, m := range []multimap.Map[string, string]{g.after, g.needs} {
			for f := range m[next[0]] {
				if !seen[f] {
					seen[f] = true
					next = append(next, f)
				}
			}
		}
	}
}

// turned has the next pass compute the gates that the state of a job decides. It returns the job and all that depend on
// its nodes: their states may change with it.
func (g *gates) turned(name string) []string {
	with := []string{name}
	for i := 0; i < len(with); i++ {
		for f := range g.after[with[i]] {
			g.due[f] = true
		}
		for f := range g.needs[with[i]] {
			if !slices.Contains(with, f) {
				with = append(with, f)
			}
		}
	}
	return with
}

// openGates brings the gates that are due up to date, through any chain: each round passes on what the
// one before has changed. The lock is held.
func (s *Scheduler) openGates() {
	for _, f := range s.looked {
		if f.turned && len(s.gates.after) > 0 {
			for _, name := range f.board.Jobs() {
				s.gates.turned(name)
			}
		}
		f.turned = false
	}
	for rounds := len(s.gates.edges) + 1; len(s.gates.due) > 0 && rounds > 0; rounds-- {
		names := slices.Sorted(maps.Keys(s.gates.due))
		clear(s.gates.due)
		var shown []string
		for _, name := range names {
			j := s.jobs[name]
			if j == nil || j.row.deleted || j.spec == nil || len(j.spec.After) == 0 {
				continue
			}
			s.stats.Gates++
			was, g := j.forest.board.Gate(name), batch.GateOf(s.before(j))
			j.forest.board.SetGate(name, g)
			if g != was {
				s.stir(j.forest)
			}
			if g.Shut != was.Shut || g.Never != was.Never || g.Never && g != was {
				shown = append(shown, s.gates.turned(name)...)
			}
		}
		slices.Sort(shown)
		s.publishStates(slices.Compact(shown))
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
	if from == nil || from.row.deleted || from.spec == nil || seen[from] {
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
