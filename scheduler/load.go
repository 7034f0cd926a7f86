package scheduler

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cantina/batch"
	"cantina/fence"
	"cantina/scheduler/schedulerpb"
	"cantina/store"
)

// New returns the scheduler of a term, built from the rows of the load; rows of
// others are ignored. Rows that cannot be read are quarantined: their job counts as
// existing, starts nothing and loses nothing. It starts nothing.
func New(cfg Config, rows []store.Row) *Scheduler {
	s := assemble(cfg)
	of := func(prefix string, f func(r store.Row) error) {
		for _, r := range rows {
			if !strings.HasPrefix(r.Key, prefix) {
				continue
			}
			if err := f(r); err != nil {
				s.bad[r.Key] = true
				s.cfg.Store.Quarantine(store.Quarantine{Key: r.Key, Reason: err.Error(), Bytes: r.Value})
			}
		}
	}
	of(forestPrefix, s.loadForest)
	of(jobPrefix, s.loadJob)
	of(statusPrefix, s.loadSegment)
	of(killPrefix, s.loadKill)
	needed := map[string]bool{}
	for _, j := range s.jobs {
		if j.forest != nil {
			j.state = s.progress(j).State
			needed[j.row.spec.Forest] = true
		}
	}
	for name, f := range s.forests {
		if !needed[name] {
			s.loose[f] = true
		}
	}
	for _, j := range s.uids {
		s.tend(j)
	}
	return s
}

func (s *newest) loadForest(r store.Row) error {
	spec, err := decodeForest(r.Value)
	if err != nil {
		return err
	}
	if forestPrefix+spec.Name != r.Key {
		return fmt.Errorf("forest %q in the row %s: %w", spec.Name, r.Key, errRecord)
	}
	b, err := s.newBoard(*spec)
	if err != nil {
		return err
	}
	s.add(spec.Name, &forest{board: b})
	return nil
}

func (s *newest) loadJob(r store.Row) error {
	row, err := decodeJob(r.Value)
	if err == nil && jobPrefix+row.name != r.Key {
		err = fmt.Errorf("job %q in the row %s: %w", row.name, r.Key, errRecord)
	}
	if err != nil {
		// It counts as existing for its name: the name is held, nothing starts.
		name := strings.TrimPrefix(r.Key, jobPrefix)
		s.jobs[name] = &job{row: jobRow{name: name}, segs: newSegments()}
		s.quarantined[name] = true
		return err
	}
	j := &job{row: *row, segs: newSegments(), revision: r.Revision}
	s.jobs[row.name], s.uids[row.uid] = j, j
	s.seen(row.born)
	if !row.deleted {
		s.attach(j)
	} else if row.orphans != nil {
		s.remain(row.name)
	}
	return nil
}

func (s *newest) loadSegment(r store.Row) error {
	uid, number, ok := strings.Cut(strings.TrimPrefix(r.Key, statusPrefix), "/")
	n, err := strconv.ParseUint(number, 10, 32)
	if !ok || err != nil || n == 0 {
		return fmt.Errorf("row %s: %w", r.Key, errRecord)
	}
	j := s.uids[uid]
	if j == nil || j.forest == nil { // of a job that is gone: cleaned away later
		if j == nil {
			j = s.gone(uid)
		}
		j.segs.written(uint32(n), 0, len(r.Value), true)
		j.segs.dead = append(j.segs.dead, uint32(n))
		return nil
	}
	entries, err := decodeSegment(r.Value)
	if err != nil {
		// Its nodes look as if they had never run, or as they were before: the whole job
		// starts nothing until an operator has decided.
		s.distrust(j, r.Key)
		j.segs.next = max(j.segs.next, uint32(n)+1)
		return err
	}
	j.written++
	j.segs.written(uint32(n), len(entries), len(r.Value), true)
	for _, e := range entries {
		old, err := j.forest.board.Load(batch.Key{Job: j.row.name, Node: e.node}, e.status, uint32(n))
		if err != nil {
			return err
		}
		j.segs.replaced(old)
		j.noted(e.node, &e.status)
		s.seen(e.status.Invocation)
	}
	return nil
}

// distrust makes a job invalid because some of its statuses cannot be read.
func (s *newest) distrust(j *job, key string) {
	spec := *j.spec
	spec.Errors = append(slices.Clone(spec.Errors), "statuses in row "+key+" cannot be read; drop or restore it")
	j.spec = &spec
	j.forest.board.Put(spec)
}

// noted keeps the reason and the time of a status.
func (j *job) noted(node string, st *batch.Status) {
	j.latest = max(j.latest, st.Time)
	if st.Reason == "" {
		delete(j.reasons, node)
		return
	}
	if j.reasons == nil {
		j.reasons = make(map[string]string)
	}
	if _, ok := j.reasons[node]; ok || len(j.reasons) < maxReasons {
		j.reasons[node] = st.Reason
	}
}

func (s *newest) loadKill(r store.Row) error {
	var m schedulerpb.Kill
	if err := store.Open(r.Value, kindKill, &m); err != nil {
		return err
	}
	uid, _, _ := strings.Cut(strings.TrimPrefix(r.Key, killPrefix), "/")
	j := s.uids[uid]
	if j == nil {
		j = s.gone(uid)
	}
	j.wantKill(string(m.Node), toInvocation(m.Invocation))
	return nil
}

func (j *job) wantKill(node string, inv fence.Invocation) {
	if j.kills == nil {
		j.kills = make(map[string]fence.Invocation)
	}
	j.kills[node] = inv
}
