package batch

import "slices"

// Names of calendars contain their time and never come back, so their statuses can be forgotten some
// time after the nodes are gone. Other names keep theirs: a node that is listed again was done.

// passing reports whether only calendars give the nodes of a level.
func (s *ForestSpec) passing(level string) bool {
	passing := false
	for i := range s.Sources {
		src := &s.Sources[i]
		switch to, err := below(s.Levels, src.ParentLevel); {
		case src.Kind == SourceManual, src.Kind == SourceFile: // of any level
			if len(s.Levels) == 0 || level == s.Levels[0] || src.deep(s.Levels, level) {
				return false
			}
		case err != nil || to != level || src.Kind == SourceEmpty:
		case src.Kind != SourceTime:
			return false
		default:
			passing = true
		}
	}
	return passing
}

// deep reports whether a list of nodes may reach a level.
func (s *Source) deep(levels []string, level string) bool {
	if s.Kind == SourceFile {
		return true
	}
	at := slices.Index(levels, level)
	return at <= 1 && slices.ContainsFunc(s.Manual, func(n ManualNode) bool { return len(n.Children) > 0 }) || at > 1
}

// expiry forgets statuses of a board.
type expiry struct {
	f    *forest
	jobs *jobs
	runs *runs
}

// expired reports whether the status of a batch task can be forgotten: only a calendar gives its node,
// which is gone, its status is not newer than a time (Unix milliseconds), and it does not run.
func (e *expiry) expired(j *job, n int32, before int64) bool {
	x := &j.records[n]
	return x.class == ClassAbsent && x.bits != 0 && !x.running && x.time <= before &&
		e.runs.byKey[Key{j.Name, e.f.names[j.level].list[n]}] == nil
}

// Expired returns batch tasks whose status can be forgotten, at most so many. The caller forgets those
// that can certainly not be running (Expire).
func (e *expiry) Expired(before int64, most int) (out []Key) {
	for _, j := range e.jobs.order {
		if !e.f.spec.passing(e.f.levels[j.level]) {
			continue
		}
		for i := range j.records {
			if len(out) >= most {
				return out
			}
			if e.expired(j, int32(i), before) {
				out = append(out, Key{j.Name, e.f.names[j.level].list[i]})
			}
		}
	}
	return out
}

// Expire forgets the status of a batch task of Expired, if it still can be. It returns the mark.
func (e *expiry) Expire(k Key, before int64) (mark uint32, ok bool) {
	j, n, err := e.jobs.lookup(k)
	if err != nil || int(n) >= len(j.records) || !e.f.spec.passing(e.f.levels[j.level]) || !e.expired(j, n, before) {
		return 0, false
	}
	mark = j.records[n].mark
	j.records[n] = record{}
	e.f.forgotten++
	return mark, true
}

// leastForgotten is how many forgotten names are never dropped alone.
const leastForgotten = 1024

// Sparse reports whether so many names are forgotten that it is time to drop them: a Configure with the
// present spec does.
func (e *expiry) Sparse() bool {
	names := 0
	for l := range e.f.names {
		names += len(e.f.names[l].list)
	}
	return e.f.forgotten >= leastForgotten && e.f.forgotten >= names/2
}
