package scheduler

import (
	"fmt"
	"maps"
	"slices"

	"cantina/batch"
	"cantina/fault"
)

// What is decided from are the newest rows: those that were handed out with a change
// and wait for their commit, over the committed ones. What is shown, and what runs by
// it, are the committed ones: jobs and boards.

// flight is a version of a row on its way into the store; to is nil when the row goes.
type flight[T any] struct{ to *T }

// flights are the versions on their way, by name, oldest first.
type flights[T any] map[string][]*flight[T]

// add makes a version the newest. land takes it out again: it is committed, or was
// given up.
func (f flights[T]) add(name string, to *T) (land func()) {
	x := &flight[T]{to}
	f[name] = append(f[name], x)
	return func() {
		f[name] = slices.DeleteFunc(f[name], func(y *flight[T]) bool { return y == x })
		if len(f[name]) == 0 {
			delete(f, name)
		}
	}
}

// newest returns the newest version on its way; ok is false when there is none.
func (f flights[T]) newest(name string) (to *T, ok bool) {
	all := f[name]
	if len(all) == 0 {
		return nil, false
	}
	return all[len(all)-1].to, true
}

// newestRow returns the newest row of a job, or nil. It is not to be changed. The lock
// is held.
func (s *Scheduler) newestRow(name string) *jobRow {
	if row, ok := s.rows.newest(name); ok {
		return row
	}
	if j := s.jobs[name]; j != nil {
		return &j.row
	}
	return nil
}

// newestForest returns the newest spec of a forest, or nil. The lock is held.
func (s *Scheduler) newestForest(name string) *batch.ForestSpec {
	if spec, ok := s.specs.newest(name); ok {
		return spec
	}
	if f := s.forests[name]; f != nil && !f.gone {
		spec := f.board.Spec()
		return &spec
	}
	return nil
}

// newestNames returns the names of all newest rows, in order. The lock is held.
func (s *Scheduler) newestNames() []string {
	names := slices.Collect(maps.Keys(s.jobs))
	for name := range s.rows {
		if s.jobs[name] == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// changeable returns the newest row of a job that may be changed, and the job as it is
// committed; that is nil when this life of the name is still on its way. The lock is
// held.
func (s *Scheduler) changeable(name string) (*jobRow, *job, error) {
	row := s.newestRow(name)
	switch {
	case row == nil || row.deleted:
		return nil, nil, fmt.Errorf("job %q: %w", name, batch.ErrUnknownJob)
	case row.quarantined():
		return nil, nil, fmt.Errorf("job %q: %w", name, fault.ErrQuarantined)
	}
	return row, s.life(row), nil
}

// life returns the committed job that a newest row is about, or nil.
func (s *Scheduler) life(row *jobRow) *job {
	if j := s.jobs[row.name]; j != nil && j.row.uid == row.uid && j.forest != nil {
		return j
	}
	return nil
}

// Changeable says whether a job may be changed now. Errors as of Remove.
func (s *Scheduler) Changeable(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _, err := s.changeable(name)
	return err
}

// ending reports that a change on its way ends this life of a job: nothing of it
// starts any more, for it could not be told from the next life. The lock is held.
func (s *Scheduler) ending(name, uid string) bool {
	row, ok := s.rows.newest(name)
	return ok && (row == nil || row.deleted || row.uid != uid)
}
