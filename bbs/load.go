package bbs

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cantina/bbs/bbspb"
	"cantina/event"
	"cantina/fault"
	"cantina/lrp"
	"cantina/store"
	"cantina/task"
	"cantina/wire"
)

// Owns reports whether the row of a key is the board's; manifests are read by New too.
func Owns(key string) bool {
	for _, p := range []string{prefixService, prefixIndex, prefixTask, prefixDomain, prefixApplied, prefixIdem,
		prefixReported} {
		if strings.HasPrefix(key, p) {
			return true
		}
	}
	return false
}

// New loads a board from the rows of a term's load: its own and the manifests. Unreadable rows are
// quarantined. members are the cell processes that may be alive: rows on any other are removed
// from it. New starts no goroutine and has no external effect except submit; Run begins to
// converge.
func New(cfg Config, rows []store.Row, revision int64, members []string) *BBS {
	b := assemble(cfg, revision)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, row := range rows {
		if Owns(row.Key) {
			if err := b.loader.load(row); err != nil {
				b.loader.quarantine(row, err)
			}
		}
	}
	slices.SortFunc(b.keys.ages, func(x, y idemAge) int { return x.at.Compare(y.at) })
	b.loader.settleReported()
	b.processes.reap(members)
	b.applies.loadManifests(rows)
	keys := b.services.Services()
	t := b.begin(b.rows.now())
	for _, k := range keys {
		t.surplus([]serviceChange{{key: k}})
	}
	b.loader.endFreshness(t)
	b.submit(t, nil)
	return b
}

// loader reads the rows of the store into the board, sets those aside that cannot be read, and takes
// them back when an operator has repaired them.
type loader struct {
	*rows
	badKeys []idemAge // unreadable idempotency keys: when they are pruned, oldest first
	pruned  int       // unreadable rows that were dropped because they are no longer needed
}

// endFreshness ends the freshness of every domain while the rows may be older than the cells'
// work: the owner declared a later state than this one as complete. No instance is destroyed until
// the owner declares it again. (docs/decisions/0210)
func (ld *loader) endFreshness(t *tx) {
	if !ld.cfg.Sessions.Stale() {
		return
	}
	now := ld.now()
	for _, name := range slices.Sorted(maps.Keys(ld.domains)) {
		if until := ld.domains[name]; (until.IsZero() || until.After(now)) && !ld.bad[domainRow(name)] {
			t.setDomain(name, now)
		}
	}
}

// reap declares dead every process that is in rows and not in the member list. While the list
// itself may be wrong, such a process may still report that it lives.
func (ps *processes) reap(members []string) {
	alive := make(map[string]bool, len(members))
	for _, p := range members {
		alive[p] = true
	}
	ps.unlisted = map[string]bool{}
	for _, p := range slices.Concat(ps.services.Procs(), ps.tasks.Procs(), ps.services.Reported.Procs(),
		ps.tasks.Reported.Procs()) {
		if !alive[p] {
			ps.unlisted[p] = true
		}
	}
	ps.reapUnlisted()
}

// reapUnlisted does so once the list is believed.
func (ps *processes) reapUnlisted() {
	if len(ps.unlisted) == 0 || ps.cfg.Sessions.Stale() {
		return
	}
	for _, p := range slices.Sorted(maps.Keys(ps.unlisted)) {
		ps.services.ProcDied(p)
		ps.tasks.ProcDied(p)
	}
	clear(ps.unlisted)
}

// load decodes one row into the newest rows and the view.
func (ld *loader) load(row store.Row) error {
	put, err := ld.read(row)
	if err == nil {
		put()
	}
	return err
}

// read decodes one row; put enters it into the newest rows and the view.
func (ld *loader) read(row store.Row) (put func(), err error) {
	switch {
	case strings.HasPrefix(row.Key, prefixService):
		return ld.readService(row)
	case strings.HasPrefix(row.Key, prefixIndex):
		return ld.readIndex(row)
	case strings.HasPrefix(row.Key, prefixTask):
		return ld.readTask(row)
	case strings.HasPrefix(row.Key, prefixDomain):
		return ld.readDomain(row)
	case strings.HasPrefix(row.Key, prefixApplied):
		return ld.readApplied(row)
	case strings.HasPrefix(row.Key, prefixReported):
		return ld.readReported(row)
	}
	return ld.readIdem(row)
}

// Decode returns the content of a row of a service, an instance or a task: *lrp.Service, lrp.Index
// or *task.Task; nil for any other row of the board. The error is the reason why a row cannot be
// read: New would quarantine it.
func Decode(row store.Row) (any, error) {
	var out any
	var err error
	switch {
	case strings.HasPrefix(row.Key, prefixService):
		out, err = decodeService(row)
	case strings.HasPrefix(row.Key, prefixIndex):
		out, err = decodeIndex(row)
	case strings.HasPrefix(row.Key, prefixTask):
		out, err = decodeTask(row)
	case strings.HasPrefix(row.Key, prefixReported):
		out, err = decodeReported(row)
	}
	if err != nil {
		return nil, fmt.Errorf("row %s: %w", row.Key, err)
	}
	return out, nil
}

func decodeService(row store.Row) (*lrp.Service, error) {
	var m bbspb.Service
	if err := decodeRecord(row.Value, kindService, &m); err != nil {
		return nil, err
	}
	s, err := serviceFrom(&m)
	if err != nil {
		return nil, err
	}
	if ServiceRow(s.Key) != row.Key {
		return nil, errRecord
	}
	return s, lrp.CheckService(s)
}

func (ld *loader) readService(row store.Row) (func(), error) {
	s, err := decodeService(row)
	if err != nil {
		return nil, err
	}
	return func() {
		ld.services.PutService(s.Resumed(ld.now()))
		ld.view.putService(s.Key, s, row.Revision)
	}, nil
}

func decodeIndex(row store.Row) (lrp.Index, error) {
	var m bbspb.Index
	if err := decodeRecord(row.Value, kindIndex, &m); err != nil {
		return lrp.Index{}, err
	}
	x, err := indexOf(&m)
	if err == nil && (IndexRow(x.Key) != row.Key || x.Empty()) {
		err = errRecord
	}
	return x, err
}

func (ld *loader) readIndex(row store.Row) (func(), error) {
	x, err := decodeIndex(row)
	if err != nil {
		return nil, err
	}
	return func() {
		ld.services.LoadIndex(ld.notFuture(x))
		ld.view.putIndex(x, row.Revision)
	}, nil
}

// notFuture sets times of an earlier leader with a faster clock back to now, so that no wait is
// longer than the policy.
func (ld *loader) notFuture(x lrp.Index) lrp.Index {
	now := ld.now()
	for _, p := range []**lrp.Actual{&x.Ordinary, &x.Evacuating, &x.Suspect} {
		if a := *p; a != nil && a.Since.After(now) {
			c := *a
			c.Since = now
			*p = &c
		}
	}
	return x
}

func decodeTask(row store.Row) (*task.Task, error) {
	var m bbspb.Task
	if err := decodeRecord(row.Value, kindTask, &m); err != nil {
		return nil, err
	}
	t, err := taskOf(&m)
	if err != nil {
		return nil, err
	}
	if TaskRow(t.GUID) != row.Key {
		return nil, errRecord
	}
	return t, task.Check(t)
}

func (ld *loader) readTask(row store.Row) (func(), error) {
	t, err := decodeTask(row)
	if err != nil {
		return nil, err
	}
	return func() {
		ld.tasks.Load(t, ld.now(), row.Revision < ld.cfg.Began)
		ld.view.putTask(t.GUID, t, row.Revision)
	}, nil
}

func (ld *loader) readDomain(row store.Row) (func(), error) {
	var m bbspb.Domain
	if err := decodeRecord(row.Value, kindDomain, &m); err != nil {
		return nil, err
	}
	until, err := wire.ToTime(m.Expires)
	if err != nil || domainRow(m.Name) != row.Key {
		return nil, errors.Join(errRecord, err)
	}
	return func() {
		ld.domains[m.Name] = until
		ld.services.SetDomain(m.Name, until)
		ld.view.domains[m.Name] = domainView{until, row.Revision}
	}, nil
}

func (ld *loader) readApplied(row store.Row) (func(), error) {
	var m bbspb.Applied
	if err := decodeRecord(row.Value, kindApplied, &m); err != nil {
		return nil, err
	}
	if appliedRow(m.Domain, m.Name) != row.Key {
		return nil, errRecord
	}
	return func() {
		ld.applied[row.Key] = appliedTask{m.Guid, string(m.Digest)}
	}, nil
}

func (ld *loader) readIdem(row store.Row) (func(), error) {
	var m bbspb.Idem
	if err := decodeRecord(row.Value, kindIdem, &m); err != nil {
		return nil, err
	}
	until, err := wire.ToTime(m.Expires)
	if err != nil {
		return nil, err
	}
	return func() {
		ld.keys.byRow[row.Key] = &idemEntry{operation: m.Operation, request: string(m.Request), subject: m.Subject,
			answer: m.Answer, revision: row.Revision}
		ld.keys.ages = append(ld.keys.ages, idemAge{until, row.Key})
	}, nil
}

// quarantine sets a row aside: it counts as existing for its key.
func (ld *loader) quarantine(row store.Row, reason error) {
	ld.cfg.Store.Quarantine(store.Quarantine{Key: row.Key, Reason: reason.Error(), Bytes: row.Value})
	ld.cfg.Log.Warn("row quarantined", "key", row.Key, "error", reason)
	ld.markBad(row.Key, true)
	if strings.HasPrefix(row.Key, prefixIdem) {
		ld.badKeys = append(ld.badKeys, idemAge{ld.now().Add(ld.cfg.keyLife()), row.Key})
	}
}

// markBad records in the boards and the view that a row cannot be read, or can again.
func (ld *loader) markBad(key string, bad bool) {
	if bad {
		ld.bad[key] = true
	} else {
		delete(ld.bad, key)
	}
	switch {
	case strings.HasPrefix(key, prefixService):
		if k, ok := serviceOfRow(key); ok {
			ld.services.QuarantineService(k, bad)
		}
	case strings.HasPrefix(key, prefixIndex):
		if k, ok := indexOfRow(key); ok {
			ld.services.QuarantineIndex(k, bad || ld.bad[reportedIndexRow(k)])
		}
	case strings.HasPrefix(key, prefixTask):
		guid := strings.TrimPrefix(key, prefixTask)
		ld.tasks.Quarantine(guid, bad || ld.bad[reportedTaskRow(guid)])
	case strings.HasPrefix(key, prefixReportedTask):
		guid := strings.TrimPrefix(key, prefixReportedTask)
		ld.tasks.Quarantine(guid, bad || ld.bad[TaskRow(guid)])
	case strings.HasPrefix(key, prefixReportedIndex):
		if k, ok := reportedIndexOfRow(key); ok {
			ld.services.QuarantineIndex(k, bad || ld.bad[IndexRow(k)])
		}
	}
	ld.view.mu.Lock()
	defer ld.view.mu.Unlock()
	if bad {
		ld.view.badRows[key] = true
	} else {
		delete(ld.view.badRows, key)
	}
}

// Release resolves a quarantined row of this board: restore stores value, which is read like a row
// of a load, otherwise the row is dropped. done is called after the commit; if the value cannot be
// read, nothing is changed.
func (ld *loader) Release(key string, restore bool, value []byte, done func(revision int64, err error)) error {
	ld.mu.Lock()
	defer ld.mu.Unlock()
	if !ld.bad[key] {
		return fmt.Errorf("%s: %w", key, store.ErrNotQuarantined)
	}
	if !restore {
		ld.cfg.Store.Drop(key, func(revision int64, err error) { ld.released(key, nil, revision, err, done) })
		return nil
	}
	row := store.Row{Key: key, Value: value}
	if _, err := ld.read(row); err != nil {
		return fmt.Errorf("restore %s: %w (repair the row in the store first, or drop it): %w", key, err,
			fault.ErrQuarantined)
	}
	if _, err := ld.overtaken(row); err != nil {
		return fmt.Errorf("restore %s: %w: %w", key, err, fault.ErrQuarantined)
	}
	ld.cfg.Store.Restore(key, value, func(revision int64, err error) { ld.released(key, value, revision, err, done) })
	return nil
}

// released takes a row back into service after the commit.
func (ld *loader) released(key string, value []byte, revision int64, err error, done func(int64, error)) {
	if err == nil {
		err = ld.takeBack(key, value, revision)
	}
	if done != nil {
		done(revision, err)
	}
}

func (ld *loader) takeBack(key string, value []byte, revision int64) error {
	ld.mu.Lock()
	defer ld.mu.Unlock()
	row := store.Row{Key: key, Value: value, Revision: revision}
	var gone []endedProc
	if value != nil {
		var err error
		if gone, err = ld.overtaken(row); err != nil { // since Release looked
			ld.quarantine(row, err)
			return err
		}
	}
	ld.markBad(key, false)
	if value != nil {
		ld.view.mu.Lock()
		err := ld.load(row)
		ld.view.mu.Unlock()
		if err != nil {
			return err
		}
		ld.settleReported()
		if guid, ok := strings.CutPrefix(key, prefixTask); ok { // its bytes may be older than the cells' work
			ld.tasks.Load(ld.tasks.Get(guid), ld.now(), true)
		}
		ld.cfg.Hub.Publish(revision, ld.returned(key)...)
		ld.handOverAll(gone)
	}
	ld.converge(false)
	return nil
}

// returned are the events of a restored row: consumers of rows did not have it. With a service its
// instances are published again, because their owner was unknown.
func (ld *loader) returned(key string) []event.Event {
	v := ld.view
	if guid, ok := strings.CutPrefix(key, prefixTask); ok {
		return taskUnit(taskChange{guid: guid, after: v.task(guid)}).events
	}
	var keys []instanceKey
	var out []event.Event
	if k, ok := serviceOfRow(key); ok && strings.HasPrefix(key, prefixService) {
		s := ld.services.Service(k)
		out = append(out, event.Event{Kind: event.Service, Domain: k.Domain, Subject: k.String(), Service: s})
		v.mu.RLock()
		keys = v.instancesOf(k)
		v.mu.RUnlock()
	}
	if k, ok := indexOfRow(key); ok && strings.HasPrefix(key, prefixIndex) {
		keys = []instanceKey{{key: k}}
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, k := range keys {
		out = append(out, indexUnit(indexChange{lrp.Index{Key: k.key}, v.indices[k.key].row}, nil).events...)
	}
	return out
}

// pruneKeys drops unreadable keys once none that was given before this term can be
// alive. (Diego dev notes, Pruning Corrupt/Invalid Data.)
func (ld *loader) pruneKeys(now time.Time) {
	for len(ld.badKeys) > 0 && !ld.badKeys[0].at.After(now) {
		key := ld.badKeys[0].row
		ld.badKeys = ld.badKeys[1:]
		if !ld.bad[key] {
			continue // an operator has dropped it
		}
		ld.cfg.Log.Info("unreadable idempotency key pruned", "key", key)
		ld.cfg.Store.Drop(key, func(revision int64, err error) {
			if ld.released(key, nil, revision, err, nil); err == nil {
				ld.mu.Lock()
				ld.pruned++
				ld.mu.Unlock()
			}
		})
	}
}
