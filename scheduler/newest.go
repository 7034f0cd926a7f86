package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cantina/batch"
	"cantina/event"
	"cantina/fault"
	"cantina/fence"
	"cantina/store"
	"cantina/worker"
)

// Decisions use the newest rows: those that were submitted with a change and wait for their
// commit, over the committed ones. Views, and running work, use the committed ones: jobs and
// boards.

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
func (s *newest) newestRow(name string) *jobRow {
	if row, ok := s.rows.newest(name); ok {
		return row
	}
	if j := s.jobs[name]; j != nil {
		return &j.row
	}
	return nil
}

// newestForest returns the newest spec of a forest, or nil. The lock is held.
func (s *newest) newestForest(name string) *batch.ForestSpec {
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
func (s *newest) newestNames() []string {
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
func (s *newest) changeable(name string) (*jobRow, *job, error) {
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
func (s *newest) life(row *jobRow) *job {
	if j := s.jobs[row.name]; j != nil && j.row.uid == row.uid && j.forest != nil {
		return j
	}
	return nil
}

// Changeable reports whether a job may be changed now. Errors as of Remove.
func (ch *changing) Changeable(name string) error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	_, _, err := ch.changeable(name)
	return err
}

// ending reports that a change on its way ends this life of a job: none of its tasks starts any
// more, because it could not be distinguished from the next life. The lock is held.
func (s *newest) ending(name, uid string) bool {
	row, ok := s.rows.newest(name)
	return ok && (row == nil || row.deleted || row.uid != uid)
}

func (s *newest) boardOf(k batch.Key) *batch.Board {
	if j := s.jobs[k.Job]; j != nil && j.forest != nil {
		return j.forest.board
	}
	return nil
}

// newBoard returns a board with a running clock. Its draws depend on the term and the forest.
func (s *newest) newBoard(spec batch.ForestSpec) (*batch.Board, error) {
	b, err := batch.NewBoard(spec)
	if err == nil {
		b.Advance(s.nowMilli())
		b.Seed(fmt.Sprint(s.cfg.Term))
	}
	return b, err
}

// attach puts a job on the board of its forest. A job whose forest cannot be read gets an empty
// one, and reports it.
func (s *newest) attach(j *job) {
	spec := j.row.spec
	f := s.forests[spec.Forest]
	if f == nil {
		b, err := s.newBoard(batch.ForestSpec{Name: spec.Forest})
		if err != nil { // no levels, no limits: it cannot fail
			return
		}
		f = &forest{board: b, unread: true, problem: "the row of its nodes cannot be read"}
		s.add(spec.Forest, f)
		spec.Errors = append(slices.Clone(spec.Errors), f.problem)
	}
	j.forest, j.spec = f, &spec
	f.board.Put(spec)
	s.gates.connect(spec.Name, spec.After, spec.DependsOn)
}

// seen keeps the newest invocation.
func (s *newest) seen(i fence.Invocation) {
	if s.last.Compare(i) < 0 {
		s.last = i
	}
}

// gone replaces a job without a row that left other rows.
func (s *newest) gone(uid string) *job {
	j := &job{row: jobRow{uid: uid, deleted: true}, segs: newSegments()}
	s.uids[uid] = j
	s.tend(j)
	return j
}

// sorted returns all jobs in order of name.
func (s *newest) sorted() []*job {
	out := make([]*job, 0, len(s.jobs))
	for _, j := range s.jobs {
		out = append(out, j)
	}
	slices.SortFunc(out, func(a, b *job) int { return strings.Compare(a.row.name, b.row.name) })
	return out
}

func (s *newest) unblock() {
	s.mu.Lock()
	s.changed = true
	s.mu.Unlock()
}

// unpicked takes a pick back; that it is gone already, with its job, is as good.
func (s *newest) unpicked(p *pick, scope batch.Scope, why string) {
	s.refused[p.f] = true
	if err := p.f.board.Refuse(p.Key, scope, why); err != nil {
		s.cfg.Log.Debug("batch task to start no longer exists", "job", p.Key.Job, "node", p.Key.Node, "error", err)
	}
}

// readSegments reads segments of a job with their data: by number, then by node.
// A segment that is gone is left out.
func (s *newest) readSegments(ctx context.Context, uid string, numbers []uint32) (map[uint32]map[string]stored, error) {
	out := make(map[uint32]map[string]stored, len(numbers))
	for _, n := range numbers {
		row, ok, err := s.cfg.Store.Get(ctx, segmentKey(uid, n))
		if err != nil {
			return nil, fmt.Errorf("read statuses: %w", err)
		}
		if !ok {
			continue
		}
		entries, err := decodeSegment(row.Value)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", row.Key, err)
		}
		var data map[int][]byte
		if row, ok, err = s.cfg.Store.Get(ctx, dataKey(uid, n)); err != nil {
			return nil, fmt.Errorf("read results: %w", err)
		}
		if ok {
			if data, err = decodeData(row.Value); err != nil {
				return nil, fmt.Errorf("read %s: %w", row.Key, err)
			}
		}
		m := make(map[string]stored, len(entries))
		for i, e := range entries {
			m[e.node] = stored{status: e.status, data: data[i]}
		}
		out[n] = m
	}
	return out, nil
}

func (s *newest) nowMilli() int64 { return s.now().UnixMilli() }

// fail ends the scheduler's term.
func (s *newest) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failLocked(err)
}

func (s *newest) failLocked(err error) {
	if s.over == nil {
		s.over = err
		close(s.failed)
	}
}

// StartsChanged reports that more or less work may start: a session, the initial wait or a death
// changed.
func (s *newest) StartsChanged() {
	s.mu.Lock()
	s.changed = true
	s.mu.Unlock()
	ring(s.wake)
}

// KillStored reports a stored intent to end an invocation: one of its own, or the deletion or new
// birth of its job. It is worker.Statuses.
func (s *newest) KillStored(r worker.Run) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.killStored(r)
}

// killStored is KillStored under the lock.
func (s *newest) killStored(r worker.Run) bool {
	j := s.jobs[r.Work.Job]
	if j == nil {
		return false
	}
	return j.row.ends(s.now()) || r.Invocation.Compare(j.row.born) <= 0 || j.kills[r.Work.Node] == r.Invocation
}

// sweep deletes rows, and applies the consequences of the commit with the lock held.
func (s *newest) sweep(ops []store.Op, landed func()) {
	s.cfg.Store.Submit(store.Transition{Ops: ops}, func(_ int64, err error) {
		if err != nil {
			s.fail(err)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		landed()
	})
}

// unread reports that the row of a job cannot be read: its forest and statuses are unknown. The
// lock is held.
func (s *newest) unread() bool {
	for name := range s.quarantined {
		if j := s.jobs[name]; j != nil && j.row.quarantined() {
			return true
		}
		delete(s.quarantined, name)
	}
	return false
}

// progress returns the counts of a job; the lock is held.
func (s *newest) progress(j *job) batch.Progress {
	if j.forest == nil {
		return batch.Progress{State: batch.JobInvalid, Reason: "its row cannot be read"}
	}
	p, ok := j.forest.board.Progress(j.row.name)
	if !ok { // a tombstone
		p.Running = len(j.forest.board.Runs(j.row.name))
		return p
	}
	if !j.forest.current() && p.State.Ended() {
		p.State, p.Reason = batch.JobWaiting, cmpText(j.forest.problem, "its nodes are being listed")
	}
	return p
}

// live returns a job that is not deleted and can be read; the lock is held.
func (s *newest) live(name string) (*job, error) {
	j := s.jobs[name]
	switch {
	case j == nil || j.row.deleted:
		return nil, fmt.Errorf("job %q: %w", name, batch.ErrUnknownJob)
	case j.forest == nil:
		return nil, fmt.Errorf("job %q: %w", name, fault.ErrQuarantined)
	}
	return j, nil
}

// nodeEvent shows a batch task after a commit; the lock is held.
func (s *newest) nodeEvent(j *job, node string) event.Event {
	e := event.Event{Kind: event.JobNode, Subject: j.row.name + "/" + node}
	if j.spec != nil {
		e.Domain = j.spec.Domain
	}
	if j.forest == nil {
		return e
	}
	if v, ok := j.forest.board.Node(batch.Key{Job: j.row.name, Node: node}); ok {
		v.Status.Reason = j.reasons[node]
		e.JobNode = &event.NodeState{Job: j.row.name, NodeView: v}
	}
	return e
}

// dependants publishes the jobs whose view changed because of other jobs of the board; the lock is
// held.
func (s *newest) dependants(f *forest) (events []event.Event) {
	if f == nil {
		return nil
	}
	for _, name := range f.board.Touched() {
		if j := s.jobs[name]; j != nil && j.forest == f && j.spec != nil {
			events = append(events, s.jobEvent(j))
		}
	}
	return events
}

// jobEvent shows a job after a commit; the lock is held.
func (s *newest) jobEvent(j *job) event.Event {
	p := s.progress(j)
	e := event.Event{Kind: event.Job, Subject: j.row.name, Gone: j.row.deleted,
		Job: &event.JobState{Name: j.row.name, UID: j.row.uid, Progress: p, Removed: j.row.deleted, NodesKnown: j.known(),
			Labels: j.labels()}}
	if j.spec != nil {
		e.Domain = j.spec.Domain
	}
	if p.State != j.state {
		e.Text = strings.TrimSuffix("job is "+p.State.String()+": "+p.Reason, ": ")
		j.state = p.State
	}
	return e
}
