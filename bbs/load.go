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
	for _, p := range []string{prefixService, prefixIndex, prefixTask, prefixDomain, prefixApplied, prefixIdem} {
		if strings.HasPrefix(key, p) {
			return true
		}
	}
	return false
}

// New loads a board from the rows of a term's load, of which it takes its own and
// the manifests. Rows that cannot be read are quarantined. members are the cell
// processes that may be alive: rows on any other are taken off it. New starts
// nothing and does nothing outward but submit; Run begins to converge.
func New(cfg Config, rows []store.Row, revision int64, members []string) *BBS {
	cfg = cfg.withDefaults()
	b := &BBS{
		cfg: cfg, view: newView(revision, cfg.Collected), now: cfg.Clock.Steady(), services: lrp.NewBoard(cfg.Converge), tasks: task.NewBoard(cfg.Tasks),
		domains: map[string]time.Time{}, applied: map[string]appliedTask{}, idem: map[string]*idemEntry{}, inFlight: map[string]int{}, bad: map[string]bool{},
		waiting: map[string][]string{}, held: held{lrps: map[lrp.Key]bool{}, tasks: map[TaskID]bool{}},
		kick: make(chan struct{}, 1), over: make(chan struct{}),
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, row := range rows {
		if Owns(row.Key) {
			if err := b.load(row); err != nil {
				b.quarantine(row, err)
			}
		}
	}
	slices.SortFunc(b.idemAge, func(x, y idemAge) int { return x.at.Compare(y.at) })
	b.bury(members)
	b.loadManifests(rows)
	keys := b.services.Services()
	t := b.begin(b.now())
	for _, k := range keys {
		t.surplus([]serviceChange{{key: k}})
	}
	b.doubt(t)
	b.submit(t, nil)
	return b
}

// doubt ends the freshness of every domain while the rows may be older than what cells run:
// its owner has said that everything wanted was there, of a later state than this one.
// Nothing is destroyed until the owner says so again. (docs/decisions/0210)
func (b *BBS) doubt(t *tx) {
	if !b.cfg.Sessions.Blind() {
		return
	}
	now := b.now()
	for _, name := range slices.Sorted(maps.Keys(b.domains)) {
		if until := b.domains[name]; (until.IsZero() || until.After(now)) && !b.bad[domainRow(name)] {
			t.setDomain(name, now)
		}
	}
}

// bury declares dead every process that rows name and the member list does not. While
// the list itself may be wrong, such a process may yet come and say that it lives.
func (b *BBS) bury(members []string) {
	alive := make(map[string]bool, len(members))
	for _, p := range members {
		alive[p] = true
	}
	b.unlisted = map[string]bool{}
	for _, p := range slices.Concat(b.services.Procs(), b.tasks.Procs()) {
		if !alive[p] {
			b.unlisted[p] = true
		}
	}
	b.buryUnlisted()
}

// buryUnlisted does so once the list is believed.
func (b *BBS) buryUnlisted() {
	if len(b.unlisted) == 0 || b.cfg.Sessions.Blind() {
		return
	}
	for _, p := range slices.Sorted(maps.Keys(b.unlisted)) {
		b.services.ProcDied(p)
		b.tasks.ProcDied(p)
	}
	clear(b.unlisted)
}

// load decodes one row into the newest rows and the view.
func (b *BBS) load(row store.Row) error {
	put, err := b.read(row)
	if err == nil {
		put()
	}
	return err
}

// read decodes one row; put enters it into the newest rows and the view.
func (b *BBS) read(row store.Row) (put func(), err error) {
	switch {
	case strings.HasPrefix(row.Key, prefixService):
		return b.readService(row)
	case strings.HasPrefix(row.Key, prefixIndex):
		return b.readIndex(row)
	case strings.HasPrefix(row.Key, prefixTask):
		return b.readTask(row)
	case strings.HasPrefix(row.Key, prefixDomain):
		return b.readDomain(row)
	case strings.HasPrefix(row.Key, prefixApplied):
		return b.readApplied(row)
	}
	return b.readIdem(row)
}

// Decode returns what a row of a service, an instance or a task says: *lrp.Service, lrp.Index
// or *task.Task; nil for any other row of the board. The error says why a row cannot be
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

func (b *BBS) readService(row store.Row) (func(), error) {
	s, err := decodeService(row)
	if err != nil {
		return nil, err
	}
	return func() {
		b.services.PutService(s.Resumed(b.now()))
		b.view.putService(s.Key, s, row.Revision)
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

func (b *BBS) readIndex(row store.Row) (func(), error) {
	x, err := decodeIndex(row)
	if err != nil {
		return nil, err
	}
	return func() {
		b.services.LoadIndex(b.notFuture(x))
		b.view.putIndex(x, row.Revision)
	}, nil
}

// notFuture brings moments of an earlier leader with a faster clock back to now, so
// that no wait becomes longer than the policy says.
func (b *BBS) notFuture(x lrp.Index) lrp.Index {
	now := b.now()
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

func (b *BBS) readTask(row store.Row) (func(), error) {
	t, err := decodeTask(row)
	if err != nil {
		return nil, err
	}
	return func() {
		b.tasks.Load(t, b.now())
		b.view.putTask(t.GUID, t, row.Revision)
	}, nil
}

func (b *BBS) readDomain(row store.Row) (func(), error) {
	var m bbspb.Domain
	if err := decodeRecord(row.Value, kindDomain, &m); err != nil {
		return nil, err
	}
	until, err := wire.ToTime(m.Expires)
	if err != nil || domainRow(m.Name) != row.Key {
		return nil, errors.Join(errRecord, err)
	}
	return func() {
		b.domains[m.Name] = until
		b.services.SetDomain(m.Name, until)
		b.view.domains[m.Name] = domainView{until, row.Revision}
	}, nil
}

func (b *BBS) readApplied(row store.Row) (func(), error) {
	var m bbspb.Applied
	if err := decodeRecord(row.Value, kindApplied, &m); err != nil {
		return nil, err
	}
	if appliedRow(m.Domain, m.Name) != row.Key {
		return nil, errRecord
	}
	return func() {
		b.applied[row.Key] = appliedTask{m.Guid, string(m.Digest)}
	}, nil
}

func (b *BBS) readIdem(row store.Row) (func(), error) {
	var m bbspb.Idem
	if err := decodeRecord(row.Value, kindIdem, &m); err != nil {
		return nil, err
	}
	until, err := wire.ToTime(m.Expires)
	if err != nil {
		return nil, err
	}
	return func() {
		b.idem[row.Key] = &idemEntry{operation: m.Operation, request: string(m.Request), subject: m.Subject, answer: m.Answer, revision: row.Revision}
		b.idemAge = append(b.idemAge, idemAge{until, row.Key})
	}, nil
}

// quarantine sets a row aside: it counts as existing for its key.
func (b *BBS) quarantine(row store.Row, reason error) {
	b.cfg.Store.Quarantine(store.Quarantine{Key: row.Key, Reason: reason.Error(), Bytes: row.Value})
	b.cfg.Log.Warn("row quarantined", "key", row.Key, "error", reason)
	b.markBad(row.Key, true)
	if strings.HasPrefix(row.Key, prefixIdem) {
		b.badKeys = append(b.badKeys, idemAge{b.now().Add(b.cfg.keyLife()), row.Key})
	}
}

// markBad tells the boards and the view that a row cannot be read, or can again.
func (b *BBS) markBad(key string, bad bool) {
	if bad {
		b.bad[key] = true
	} else {
		delete(b.bad, key)
	}
	switch {
	case strings.HasPrefix(key, prefixService):
		if k, ok := serviceOfRow(key); ok {
			b.services.QuarantineService(k, bad)
		}
	case strings.HasPrefix(key, prefixIndex):
		if k, ok := indexOfRow(key); ok {
			b.services.QuarantineIndex(k, bad)
		}
	case strings.HasPrefix(key, prefixTask):
		b.tasks.Quarantine(strings.TrimPrefix(key, prefixTask), bad)
	}
	b.view.mu.Lock()
	defer b.view.mu.Unlock()
	if bad {
		b.view.badRows[key] = true
	} else {
		delete(b.view.badRows, key)
	}
}

// Release answers a quarantined row of this board: restore stores value, which is
// read like a row of a load, otherwise the row is dropped. done is called after the
// commit; when the value cannot be read nothing is changed.
func (b *BBS) Release(key string, restore bool, value []byte, done func(revision int64, err error)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.bad[key] {
		return fmt.Errorf("%s: %w", key, store.ErrNotQuarantined)
	}
	if !restore {
		b.cfg.Store.Drop(key, func(revision int64, err error) { b.released(key, nil, revision, err, done) })
		return nil
	}
	row := store.Row{Key: key, Value: value}
	if _, err := b.read(row); err != nil {
		return fmt.Errorf("restore %s: %w (repair the row in the store first, or drop it): %w", key, err, fault.ErrQuarantined)
	}
	if _, err := b.overtaken(row); err != nil {
		return fmt.Errorf("restore %s: %w: %w", key, err, fault.ErrQuarantined)
	}
	b.cfg.Store.Restore(key, value, func(revision int64, err error) { b.released(key, value, revision, err, done) })
	return nil
}

// released takes a row back into service after the commit.
func (b *BBS) released(key string, value []byte, revision int64, err error, done func(int64, error)) {
	if err == nil {
		err = b.takeBack(key, value, revision)
	}
	if done != nil {
		done(revision, err)
	}
}

func (b *BBS) takeBack(key string, value []byte, revision int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	row := store.Row{Key: key, Value: value, Revision: revision}
	var gone []heritage
	if value != nil {
		var err error
		if gone, err = b.overtaken(row); err != nil { // since Release looked
			b.quarantine(row, err)
			return err
		}
	}
	b.markBad(key, false)
	if value != nil {
		b.view.mu.Lock()
		err := b.load(row)
		b.view.mu.Unlock()
		if err != nil {
			return err
		}
		b.cfg.Hub.Publish(revision, b.returned(key)...)
		b.bequeath(gone)
	}
	b.converge(false)
	return nil
}

// returned are the events of a row that is back: what hears of rows did not know it. With a
// service its instances are told anew, for nobody knew what they were.
func (b *BBS) returned(key string) []event.Event {
	v := b.view
	if guid, ok := strings.CutPrefix(key, prefixTask); ok {
		return taskUnit(taskChange{guid: guid, after: v.task(guid)}).events
	}
	var keys []instanceKey
	var out []event.Event
	if k, ok := serviceOfRow(key); ok && strings.HasPrefix(key, prefixService) {
		s := b.services.Service(k)
		out = append(out, event.Event{Kind: event.Service, Domain: k.Domain, Subject: k.String(), Service: s})
		keys = v.instancesOf(k)
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
