package scheduler

import (
	"maps"
	"reflect"
	"slices"

	"cantina/batch"
	"cantina/event"
	"cantina/worker"
)

// changedJobs makes committed rows effective. It runs in commit order.
func (ch *changing) changedJobs(revision int64, b *builder) {
	ch.mu.Lock()
	forests, rows, unused := b.forests, b.rows, b.gone
	b.land()
	for _, name := range slices.Sorted(maps.Keys(forests)) {
		ch.setForest(forests[name], rows)
	}
	var kill []worker.Run
	var events []event.Event
	for _, row := range rows {
		kill = append(kill, ch.setJob(row, revision)...)
	}
	for _, row := range rows { // with all of them in their place: one may depend on another
		events = append(events, ch.jobEvent(ch.jobs[row.name]))
	}
	for _, row := range rows {
		events = append(events, ch.dependants(ch.jobs[row.name].forest)...)
	}
	for _, name := range unused {
		// Running work draws on it until it ends: a forest of the same name that is created before that
		// takes over the board.
		if f := ch.forests[name]; f != nil {
			f.gone = true
			ch.stir(f)
		}
	}
	ch.changed = true
	ch.mu.Unlock()
	ch.cfg.Hub.Publish(revision, events...)
	for _, r := range kill {
		ch.cfg.Registry.Kill(r)
	}
	ring(ch.wake)
}

// setForest makes the spec of a forest effective. If its sources are new, nothing starts on it until
// they were read; so it is, too, if none of its jobs lives on: then also its nodes are forgotten.
func (ch *changing) setForest(spec *batch.ForestSpec, rows []*jobRow) {
	f := ch.forests[spec.Name]
	if f == nil {
		b, err := ch.newBoard(*spec)
		if err != nil { // it was tried out
			ch.failLocked(err)
			return
		}
		ch.add(spec.Name, &forest{board: b})
		return
	}
	was := f.board.Spec()
	if err := f.board.Configure(*spec); err != nil {
		ch.failLocked(err)
		return
	}
	f.version++
	same := was.Instance == spec.Instance && slices.Equal(was.Levels, spec.Levels) &&
		reflect.DeepEqual(was.Sources, spec.Sources)
	inherited := f.inherited(rows)
	if !same || !inherited {
		f.sourced = f.version
	}
	if !inherited || !f.hasSources() {
		if err := f.board.SetNodes(nil); err != nil {
			ch.failLocked(err)
			return
		}
		f.planted = false
	}
	f.gone, f.unread = false, false
	f.readAt, f.wholeAt, f.problem = 0, 0, ""
}

// inherited reports whether a job over the forest lives on after a change of these rows.
func (f *forest) inherited(rows []*jobRow) bool {
	for _, name := range f.board.Jobs() {
		was, _, _ := f.board.Job(name)
		ends := func(r *jobRow) bool { return r.name == name && (r.deleted || r.uid != was.UID) }
		if !slices.ContainsFunc(rows, ends) {
			return true
		}
	}
	return false
}

// setJob makes a row effective. It returns the work to be ended.
func (ch *changing) setJob(row *jobRow, revision int64) (kill []worker.Run) {
	old := ch.jobs[row.name]
	j := old
	if old == nil || old.row.uid != row.uid {
		if old != nil && (!old.row.deleted || old.row.orphans != nil) && old.forest != nil {
			// Created again: running work is older.
			for _, r := range old.forest.board.Runs(row.name) {
				kill = append(kill, worker.Run{Work: worker.Work(r.Key), Invocation: r.Invocation})
			}
			old.row.deleted = true // its statuses are cleaned away
			ch.tend(old)
		}
		j = &job{segs: newSegments()}
		ch.jobs[row.name], ch.uids[row.uid] = j, j
	}
	j.row, j.revision = *row, revision
	ch.tend(j)
	if !row.deleted {
		ch.attach(j)
		ch.adoption.takeOver(old, j)
		return kill
	}
	ch.gates.connect(row.name, nil, nil)
	if row.orphans != nil {
		ch.remain(row.name)
	}
	if j.forest == nil { // a tombstone of an earlier term, that ends its work now
		ch.adoption.adopted = -1
		return kill
	}
	for _, r := range j.forest.board.Runs(row.name) {
		if !row.ends(ch.now()) {
			break
		}
		kill = append(kill, worker.Run{Work: worker.Work(r.Key), Invocation: r.Invocation})
	}
	j.forest.board.Delete(row.name)
	j.reasons = nil
	return kill
}

// takeOver adds work that already runs under the name: of an earlier job of the name on another
// forest, or of one without a row.
func (ad *adoption) takeOver(old, j *job) {
	if old != nil && old.forest != nil && old.forest != j.forest {
		old.forest.board.Delete(j.row.name)
		for _, r := range old.forest.board.Runs(j.row.name) {
			// It draws on its nodes there until it ends; and the new life must not start beside it.
			ad.former[r.Invocation] = append(ad.former[r.Invocation], old.forest)
			j.forest.board.Adopt(r.Key, r.Invocation, r.Cell)
		}
	}
	var nodes []string
	for k := range ad.unowned {
		if k.Job == j.row.name {
			nodes = append(nodes, k.Node)
		}
	}
	slices.Sort(nodes) // in the order of names they get their place on the board
	for _, node := range nodes {
		k := batch.Key{Job: j.row.name, Node: node}
		j.forest.board.Adopt(k, ad.unowned[k], "")
		delete(ad.unowned, k)
		ad.adopted = -1 // of an earlier life: the next comparison ends it
	}
}
