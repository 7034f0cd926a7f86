package scheduler

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"cantina/batch"
	"cantina/store"
)

// tidyEvery is how often tombstones are looked at without an end of their work.
const tidyEvery = 10 * time.Second

// cleanOps bounds the rows that one cleaning transition deletes.
const cleanOps = 64

// tidy deletes the rows of deleted jobs: their statuses, and the tombstone once no work of the
// name can be running. It also merges small segments.
func (s *Scheduler) tidy() {
	s.mu.Lock()
	unread, now := s.unread(), s.cfg.Clock.Boot()
	var forgetful []*forest
	for _, f := range s.looked {
		switch {
		case f.gone && f.board.Live() == 0 && s.forests[f.name] == f:
			s.leave(f)
		case f.forgetAt <= now && f.judged() && s.over == nil:
			f.forgetAt = now + forgetEvery
			forgetful = append(forgetful, f)
		}
	}
	if !unread {
		for _, f := range slices.SortedFunc(maps.Keys(s.loose), byName) {
			s.fell(f.name, f)
		}
	}
	idle := s.tidyJobs(unread)
	s.mu.Unlock()
	s.forget(forgetful)
	for _, name := range idle {
		if s.cfg.Registry.Idle(name) {
			s.unname(name)
		}
	}
}

// tidyJobs deletes or merges rows of the jobs that have such rows. It returns the names of tombstones without other
// rows. The lock is held.
func (s *Scheduler) tidyJobs(unread bool) (idle []string) {
	looked := slices.SortedFunc(maps.Keys(s.untidy), func(x, y *job) int { return strings.Compare(x.row.uid, y.row.uid) })
	clear(s.untidy)
	s.stats.Looked += len(looked)
	for _, j := range looked {
		uid := j.row.uid
		switch {
		case s.uids[uid] != j: // its tombstone is deleted
			delete(s.tombs, j)
		case !j.row.deleted:
			s.statuses.reap(j)
			s.statuses.wantMerge(j)
			s.tend(j) // what could not be done now
		case j.row.name == "" && unread: // it may belong to the job whose row cannot be read
		case len(j.segs.of) > 0, s.jobs[j.row.name] != j && len(j.kills) > 0:
			s.clean(uid, j)
		case s.jobs[j.row.name] != j: // its name was born again, or never had a row
			delete(s.uids, uid)
			delete(s.tombs, j)
		case !j.merging:
			idle = append(idle, j.row.name)
		}
	}
	return idle
}

// fell deletes the row of a forest that no job needs: the one that may have needed it
// could not be read, and was dropped. The lock is held.
func (s *Scheduler) fell(name string, f *forest) {
	if s.over != nil || len(s.specs[name]) > 0 {
		return
	}
	delete(s.loose, f)
	for _, of := range s.newestNames() {
		if row := s.newestRow(of); row != nil && !row.deleted && row.spec.Forest == name {
			return
		}
	}
	land := s.specs.add(name, nil)
	s.sweep([]store.Op{{Key: forestPrefix + name}}, func() {
		land()
		f.gone = true
		s.stir(f)
	})
}

// clean deletes some of the segments of a deleted job, and of the kill rows of one whose name was
// created again: its running work is ended without them. The rest follows. The lock is held.
func (s *Scheduler) clean(uid string, j *job) {
	if s.over != nil || j.merging {
		return
	}
	j.segs.dead = j.segs.dead[:0]
	for n := range j.segs.of {
		j.segs.dead = append(j.segs.dead, n)
	}
	slices.Sort(j.segs.dead)
	ops := j.segs.reap(uid, cleanOps/2)
	if s.jobs[j.row.name] != j {
		for _, node := range slices.Sorted(maps.Keys(j.kills)) {
			if len(ops) < cleanOps {
				ops = append(ops, store.Op{Key: killKey(uid, node)})
				delete(j.kills, node)
			}
		}
	}
	j.merging = true
	s.sweep(ops, func() {
		j.merging = false
		s.tend(j)
		ring(s.wake)
	})
}

// unname deletes a tombstone.
func (s *Scheduler) unname(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[name]
	if s.over != nil || j == nil || !j.row.deleted || j.merging || len(s.rows[name]) > 0 {
		return // when the name is being born again, its row is no tombstone any more
	}
	ops := []store.Op{{Key: jobPrefix + name}}
	for _, node := range slices.Sorted(maps.Keys(j.kills)) {
		if len(ops) < cleanOps {
			ops = append(ops, store.Op{Key: killKey(j.row.uid, node)})
			delete(j.kills, node)
		}
	}
	if len(j.kills) > 0 {
		ops = ops[1:] // the rest of the kills first
	}
	last, land := len(j.kills) == 0, func() {}
	if last {
		land = s.rows.add(name, nil)
	}
	j.merging = true
	s.sweep(ops, func() {
		land()
		j.merging = false
		if last && s.jobs[name] == j {
			delete(s.jobs, name)
			delete(s.uids, j.row.uid)
		}
		s.tend(j)
		ring(s.wake)
	})
}

// merge is small segments of a job that were read, to be written as one.
type merge struct {
	j    *job
	from []uint32
	read map[uint32]map[string]stored
}

// reap deletes dead segments that no later commit took along. The lock is held.
func (st *statuses) reap(j *job) {
	if len(j.segs.dead) < 2*maxDead || st.flying > 0 || st.over != nil {
		return
	}
	ops := j.segs.reap(j.row.uid, cleanOps/2)
	st.sweep(ops, func() { ring(st.wake) })
}

// wantMerge has small segments of a job read when there are too many. The lock is
// held.
func (st *statuses) wantMerge(j *job) {
	if j.merging || st.over != nil || j.written < st.cfg.MergeAt {
		return
	}
	j.written = 0
	from := j.segs.small(st.cfg.MergeAt)
	if len(from) == 0 {
		return
	}
	j.merging = true
	for _, n := range from {
		j.segs.of[n].busy = true
	}
	st.reads = append(st.reads, func(ctx context.Context) {
		read, err := st.readSegments(ctx, j.row.uid, from)
		st.mu.Lock()
		defer st.mu.Unlock()
		if err != nil || j.row.deleted {
			if err != nil && ctx.Err() == nil {
				st.cfg.Log.Warn("segments cannot be merged", "job", j.row.name, "error", err)
			}
			st.unbusy(j, from)
			return
		}
		st.merges = append(st.merges, &merge{j: j, from: from, read: read})
		if st.flying == 0 {
			st.submitMerges()
		}
	})
}

func (st *statuses) unbusy(j *job, from []uint32) {
	j.merging = false
	for _, n := range from {
		if x := j.segs.of[n]; x != nil {
			x.busy = false
			if x.live <= 0 {
				j.segs.dead = append(j.segs.dead, n)
			}
		}
	}
	st.tend(j)
}

// submitMerges writes the read statuses that are still current as one new segment. No commit of
// statuses is in progress: otherwise one of them could be overtaken. The lock is held.
func (st *statuses) submitMerges() {
	ready := st.merges
	st.merges = nil
	for _, m := range ready {
		if st.over != nil || m.j.row.deleted || m.j.forest == nil {
			st.unbusy(m.j, m.from)
			continue
		}
		var p packer
		c := &chunk{j: m.j, n: m.j.segs.next, from: m.from}
		for _, n := range m.from {
			for _, node := range slices.Sorted(maps.Keys(m.read[n])) {
				k := batch.Key{Job: m.j.row.name, Node: node}
				if m.j.forest.board.Mark(k) != n {
					continue
				}
				x := m.read[n][node]
				p.add(node, &x.status, x.data)
				c.moved = append(c.moved, entry{node: node, status: x.status})
			}
		}
		if len(c.moved) == 0 {
			st.unbusy(m.j, m.from)
			continue
		}
		st.stats.Merged += len(m.from)
		st.submit(c, &p, nil)
	}
}

// remark records the new place of merged statuses; the old segments are dead. The job may have
// been created again since they were submitted: then the nodes of its name have other segments.
// The lock is held.
func (st *statuses) remark(c *chunk) {
	if len(c.from) == 0 {
		return
	}
	moved := c.moved
	if st.jobs[c.j.row.name] != c.j {
		moved = nil
	}
	for _, e := range moved {
		k := batch.Key{Job: c.j.row.name, Node: e.node}
		b := c.j.forest.board
		if old := b.Mark(k); old != 0 {
			c.j.segs.replaced(old)
		}
		b.SetMark(k, c.n)
	}
	st.unbusy(c.j, c.from)
}
