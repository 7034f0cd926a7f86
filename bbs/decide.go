package bbs

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"cantina/bbs/bbspb"
	"cantina/internal/differ"
	"cantina/plan"
	"cantina/store"
	"cantina/task"
)

// Decision is one change of the board's tasks together with rows of another owner: all of it
// becomes durable in one commit. It is valid only in the call that receives it, under the board's
// lock.
type Decision struct{ t *tx }

// Task returns the newest row of a guid, or nil.
func (d *Decision) Task(guid string) *task.Task { return d.t.b.tasks.Get(guid) }

// Reported names a task that a cell has reported and no row has, and returns their number; "" if there
// is none. Its guid is prefix, a dot and more. It is neither except nor that, a dot and more.
func (d *Decision) Reported(prefix, except string) (guid string, n int) {
	return d.t.b.tasks.Reported.Run(prefix, except)
}

// SinceEnd is for how long at least a task has been over, by the time that really passed: of one
// that was cancelled under an earlier leader, since this term has its row.
func (d *Decision) SinceEnd(x *task.Task) time.Duration { return d.t.b.tasks.SinceEnd(x, d.t.b.now()) }

// Dead reports whether a process is certainly dead and its rows have been decided on. The registry
// knows the death earlier. Until then rows name a process without work, while work that its
// successor has adopted may be alive.
func (d *Decision) Dead(proc string) bool { return d.t.b.tasks.Dead(proc) }

// MayRun returns the tasks of a name in a domain that may run or wait to run, in order of guid.
func (d *Decision) MayRun(domain, name string) []string { return d.t.b.tasks.MayRun(domain, name) }

// Free reports whether a guid may be used for a new task.
func (d *Decision) Free(guid string) bool { return d.t.b.free(guid) }

// Desire adds a new task; its uid is minted here. When it fails nothing was changed:
// task.ErrExists, task.ErrInvalid.
func (d *Decision) Desire(n task.Task) error {
	n.UID = d.t.b.cfg.NewID()
	return d.t.desire(n)
}

// Cancel ends a task that is PENDING or RUNNING; one that has ended is left alone.
func (d *Decision) Cancel(guid string) error {
	err := d.t.stepTask(guid, task.Cancel{})
	if errors.Is(err, task.ErrInvalidStateTransition) || errors.Is(err, task.ErrNotFound) {
		return nil
	}
	return err
}

// Add adds the rows of another owner. done gets the outcome, in order of commit; undo is called,
// last one first, if the change is abandoned before it was submitted.
func (d *Decision) Add(p store.Part) { d.t.addPart(p) }

// Redefine increments the revision of a domain: the rows of another owner in this change define
// its desired state.
func (d *Decision) Redefine(domain string) { d.t.redefine(domain) }

// Expect compares the revision of a row of another owner with the expected one of a write
// (Write.Expect); 0 = any. It returns ErrRevision, also while a write of the row is on its way.
func (d *Decision) Expect(row string, have, want int64) error { return d.t.b.expect(row, have, want) }

func (t *tx) addPart(p store.Part) {
	t.addRows(p.Ops)
	if p.Done != nil {
		t.extra = append(t.extra, p.Done)
	}
	if p.Undo != nil {
		t.undo = append(t.undo, p.Undo)
	}
}

// Decide runs fn under the board's lock on the newest rows, and submits its decision as one
// transition. It does not wait for the commit. If fn fails, or the change is larger than a
// transaction (store.ErrTooLarge), nothing is changed.
func (wr *writes) Decide(fn func(d *Decision) error) error {
	wr.mu.Lock()
	defer wr.mu.Unlock()
	if err := wr.isOver(); err != nil {
		return err
	}
	t := wr.begin(wr.now())
	t.atomic = true
	err := fn(&Decision{t})
	if err == nil {
		err = t.fits()
	}
	if err != nil {
		t.rollback()
		return err
	}
	if len(t.tasks)+len(t.others) > 0 {
		wr.submit(t, nil)
		wr.converge(false)
	}
	return nil
}

// WriteDecision is Decide for a client's request: at most once for its key. It returns after the
// commit, with the answer of fn and the revision.
func (wr *writes) WriteDecision(ctx context.Context, w plan.Write, operation string, request []byte,
	fn func(d *Decision) (answer []byte, err error)) ([]byte, int64, error) {
	out, revision, err := wr.write(ctx, w, operation, request, func(t *tx) (reply, error) {
		answer, err := fn(&Decision{t})
		return reply{answer: answer}, err
	})
	return out.answer, revision, err
}

// changed lists the fields in which two definitions of one type differ.
func changed(was, is any) (out []plan.FieldChange) {
	for _, f := range differ.Fields("", was, is) {
		out = append(out, plan.FieldChange(f))
	}
	return out
}

// EncodeDefinition returns the bytes of a definition of a task for the record of
// another owner; the same definition always gives the same bytes.
func EncodeDefinition(d *task.Definition) []byte { return marshal(definitionRecord(d)) }

// DecodeDefinition is the inverse of EncodeDefinition.
func DecodeDefinition(data []byte) (task.Definition, error) {
	var m bbspb.Definition
	if err := proto.Unmarshal(data, &m); err != nil {
		return task.Definition{}, errors.Join(store.ErrCorrupt, err)
	}
	return definitionOf(&m)
}
