package bbs

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"cantina/bbs/bbspb"
	"cantina/fault"
	"cantina/internal/text"
	"cantina/plan"
	"cantina/store"
	"cantina/wire"
)

// idemEntry is the answer that a key got. revision is 0 until its commit.
type idemEntry struct {
	operation string
	request   string
	subject   string
	answer    []byte
	revision  int64
}

type idemAge struct {
	at  time.Time
	row string
}

// reply is the response to a write: its subject, and bytes that its operation can read.
type reply struct {
	subject string
	answer  []byte
}

// keys are the idempotency keys of writes.
type keys struct {
	byRow map[string]*idemEntry
	ages  []idemAge // oldest first
}

// writes are the changes that clients request, each made once for its key.
type writes struct {
	*rows
	queries *queries
}

// write runs fn once for its key, in one atomic commit together with the key and
// the answer. It returns after the commit.
func (wr *writes) write(ctx context.Context, w plan.Write, operation string, request []byte,
	fn func(t *tx) (reply, error)) (reply, int64, error) {
	if err := wr.cfg.Store.Wait(ctx); err != nil {
		return reply{}, 0, err
	}
	sum := sha256.Sum256(request)
	ticket := wr.newTicket()
	out, entry, err := wr.writeLocked(w, operation, string(sum[:]), fn, ticket)
	if err != nil {
		return reply{}, 0, err
	}
	revision, err := wr.wait(ctx, ticket, entry)
	return out, revision, err
}

// wait returns the revision of a write when it is committed: that of the earlier call, when it repeats one.
func (wr *writes) wait(ctx context.Context, k *ticket, earlier *idemEntry) (int64, error) {
	revision, err := k.wait(ctx)
	if earlier != nil && err == nil {
		wr.mu.Lock()
		revision = earlier.revision
		wr.mu.Unlock()
	}
	return revision, err
}

// Answered returns the response of WriteDecision to an earlier call with w's key, after its
// commit; ok is false if there was none. It returns ErrKeyReused if that call was a different one.
func (wr *writes) Answered(ctx context.Context, w plan.Write, operation string, request []byte) (answer []byte, ok bool,
	err error) {
	sum := sha256.Sum256(request)
	ticket := wr.newTicket()
	wr.mu.Lock()
	_, e, err := wr.used(w, operation, string(sum[:]))
	if e != nil {
		wr.barrier(ticket)
	}
	wr.mu.Unlock()
	if err != nil || e == nil {
		return nil, false, err
	}
	_, err = ticket.wait(ctx)
	return e.answer, err == nil, err
}

// writeLocked returns the entry when the key has been used before: then the ticket
// is a barrier behind the commit of that use.
func (wr *writes) writeLocked(w plan.Write, operation, request string, fn func(t *tx) (reply, error), k *ticket) (reply,
	*idemEntry, error) {
	wr.mu.Lock()
	defer wr.mu.Unlock()
	if err := wr.isOver(); err != nil {
		return reply{}, nil, err
	}
	row, e, err := wr.used(w, operation, request)
	if err != nil {
		return reply{}, nil, err
	}
	if e != nil {
		wr.barrier(k)
		return reply{e.subject, e.answer}, e, nil
	}
	t := wr.begin(wr.now())
	t.atomic = true
	out, err := fn(t)
	if err == nil && row != "" {
		t.remember(row, &idemEntry{operation: operation, request: request, subject: out.subject, answer: out.answer})
	}
	if err == nil {
		err = t.fits()
	}
	if err != nil {
		t.rollback()
		return reply{}, nil, err
	}
	wr.submit(t, k.done)
	wr.converge(false)
	return out, nil, nil
}

// used returns the row of a write's key ("" = none), and the earlier response if the key has been
// used before.
func (wr *writes) used(w plan.Write, operation, request string) (string, *idemEntry, error) {
	if w.Key == "" {
		return "", nil, nil
	}
	row := idemRow(w.Key)
	if wr.bad[row] {
		return row, nil, fmt.Errorf("key %q: %w", w.Key, fault.ErrQuarantined)
	}
	e := wr.keys.byRow[row]
	if e != nil && (e.operation != operation || e.request != request) {
		return row, nil, fmt.Errorf("key %q: %w", w.Key, fault.ErrKeyReused)
	}
	return row, e, nil
}

func (e *idemEntry) record(until time.Time) *bbspb.Idem {
	return &bbspb.Idem{Operation: e.operation, Request: []byte(e.request), Subject: text.Clean(e.subject),
		Answer: e.answer, Expires: wire.FromTime(until)}
}

// remember adds the key with its answer to the change.
func (t *tx) remember(row string, e *idemEntry) {
	t.rememberUntil(row, e, t.now.Add(t.b.cfg.keyLife()))
}

func (t *tx) rememberUntil(row string, e *idemEntry, until time.Time) {
	b := t.b
	b.keys.byRow[row] = e
	b.keys.ages = append(b.keys.ages, idemAge{until, row})
	t.undo = append(t.undo, func() {
		delete(b.keys.byRow, row)
		b.keys.ages = b.keys.ages[:len(b.keys.ages)-1]
	})
	t.addRows([]store.Op{{Key: row, Value: encode(kindIdem, e.record(until))}})
	t.extra = append(t.extra, func(revision int64, err error) {
		if err == nil {
			b.mu.Lock()
			e.revision = revision
			b.mu.Unlock()
		}
	})
}

// recall adds a key that a manifest carries.
func (t *tx) recall(row string, m *bbspb.Idem) error {
	until, err := wire.ToTime(m.Expires)
	if err != nil {
		return err
	}
	t.rememberUntil(row, &idemEntry{operation: m.Operation, request: string(m.Request), subject: m.Subject,
		answer: m.Answer}, until)
	return nil
}

// expireKeys removes expired keys.
func (wr *writes) expireKeys() {
	now := wr.now()
	t := wr.begin(now)
	for len(wr.keys.ages) > 0 && !wr.keys.ages[0].at.After(now) {
		row := wr.keys.ages[0].row
		wr.keys.ages[0] = idemAge{} // its data is deleted with it
		wr.keys.ages = wr.keys.ages[1:]
		delete(wr.keys.byRow, row)
		t.others = append(t.others, rowChange{op: store.Op{Key: row}, show: func(*view, int64) {}})
	}
	if len(t.others) > 0 {
		wr.submit(t, nil)
	}
}
