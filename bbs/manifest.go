package bbs

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"cantina/bbs/bbspb"
	"cantina/plan"
	"cantina/store"
	"cantina/wire"
)

// manifestSubject begins the subjects of this board's manifests.
const manifestSubject = "apply "

// stepThings is how many services and tasks one step of a manifest changes.
const stepThings = 10

// stepBytes bounds the rows of another owner in one step of more than one row.
const stepBytes = 256 << 10

// applyLarge commits an application that is larger than one transaction: first the
// promise, step by step and marker last, then the steps, each in one transaction
// with its deletion. It returns after the last one.
func (ap *applies) applyLarge(ctx context.Context, a plan.Application, w plan.Write, others Others,
	request []byte) (plan.Applied, error) {
	ticket := ap.newTicket()
	sum := sha256.Sum256(request)
	answer, earlier, err := ap.applyLargeLocked(a, w, others, string(sum[:]), ticket)
	if err != nil {
		return plan.Applied{}, err
	}
	revision, err := ap.writes.wait(ctx, ticket, earlier)
	if err != nil {
		return plan.Applied{}, err
	}
	ap.cfg.Log.Info("applying in steps", "domain", a.Domain, "by", w.By, "revision", revision)
	return appliedOf(answer, revision)
}

func (ap *applies) applyLargeLocked(a plan.Application, w plan.Write, others Others, request string,
	k *ticket) (answer []byte, earlier *idemEntry, err error) {
	ap.mu.Lock()
	defer ap.mu.Unlock()
	if err := ap.isOver(); err != nil {
		return nil, nil, err
	}
	row, e, err := ap.writes.used(w, "apply", request)
	if err != nil {
		return nil, nil, err
	}
	if e != nil { // the same call came twice at once
		ap.barrier(k)
		return e.answer, e, nil
	}
	if err := ap.expect(domainRow(a.Domain), ap.view.domain(a.Domain).revision, w.Expect); err != nil {
		return nil, nil, err
	}
	changes, all, err := ap.diff(a)
	if err != nil {
		return nil, nil, err
	}
	var part store.Part
	if others != nil {
		if part, err = others(); err != nil {
			return nil, nil, err
		}
	}
	steps := append(otherSteps(a.Domain, part.Ops), all.split()...)
	answer = marshal(changesRecord(changes))
	if row != "" {
		e := &idemEntry{operation: "apply", request: request, subject: a.Domain, answer: answer}
		steps = append(steps, step{domain: a.Domain, keyRow: row, key: e.record(ap.now().Add(ap.cfg.keyLife()))})
	}
	if err := ap.promise(a.Domain, steps, func(revision int64, err error) {
		if part.Done != nil {
			part.Done(revision, err)
		}
		k.done(revision, err)
	}); err != nil {
		if part.Undo != nil {
			part.Undo()
		}
		return nil, nil, err
	}
	ap.converge(false)
	return answer, nil, nil
}

// promise writes a manifest and rolls it forward; done is called after the commit
// of the last step. store.ErrTooLarge when one step alone does not fit; then
// nothing was written.
func (ap *applies) promise(domain string, steps []step, done func(int64, error)) error {
	m := store.Manifest{Number: ap.highest + 1, Subject: manifestSubject + domain}
	for _, s := range steps {
		payload := marshal(s.record())
		if err := ap.cfg.Store.Fits(store.Transition{Ops: []store.Op{{Key: store.ManifestPrefix,
			Value: payload}}}); err != nil {
			return err // one service or job alone is larger than a transaction
		}
		m.Steps = append(m.Steps, payload)
	}
	ap.highest++
	ap.cfg.Store.WriteManifest(m, func(_ int64, err error) {
		if err != nil {
			ap.fail(fmt.Errorf("write manifest: %w", err))
		}
	})
	return ap.forward(m, done)
}

// forward does all steps of a promised manifest, in order.
func (ap *applies) forward(m store.Manifest, done func(int64, error)) error {
	for {
		payload, ops, rest, ok := m.Forward()
		if !ok {
			return nil
		}
		s, err := stepOf(payload)
		if err != nil {
			return fmt.Errorf("manifest %d: %w", m.Number, err)
		}
		t := ap.begin(ap.now())
		t.atomic = true
		if err := t.applyStep(s); err != nil {
			t.rollback() // parts that can no longer be applied are left out, the rest continues
			ap.cfg.Log.Error("skipped step of an apply", "manifest", m.Number, "step", m.First, "error", err)
			t = ap.begin(ap.now())
			t.atomic = true
		}
		t.addRows(ops)
		if len(rest.Steps) == 0 {
			ap.submit(t, done)
		} else {
			ap.submit(t, nil)
		}
		m = rest
	}
}

// RollForwardOthers executes the steps of acknowledged manifests that write rows of other owners,
// and returns the resulting rows. It runs before any owner reads the rows of a new term, and
// before any write.
func RollForwardOthers(s Store, rows []store.Row) []store.Row {
	pending, _, _ := store.Manifests(rows)
	changed := map[string][]byte{}
	for _, m := range pending {
		if !strings.HasPrefix(m.Subject, manifestSubject) {
			continue
		}
		for {
			payload, ops, rest, ok := m.Forward()
			step, err := stepOf(payload)
			if !ok || err != nil || len(step.rows) == 0 {
				break
			}
			s.Submit(store.Transition{Ops: append(slices.Clone(step.rows), ops...)}, nil)
			for _, op := range append(step.rows, ops...) {
				changed[op.Key] = op.Value
			}
			m = rest
		}
	}
	if len(changed) == 0 {
		return rows
	}
	out := slices.DeleteFunc(slices.Clone(rows), func(r store.Row) bool { _, ok := changed[r.Key]; return ok })
	for key, value := range changed {
		if value != nil {
			out = append(out, store.Row{Key: key, Value: value})
		}
	}
	slices.SortFunc(out, func(a, b store.Row) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// loadManifests rolls forward the acknowledged manifests of an earlier leader.
func (ap *applies) loadManifests(rows []store.Row) {
	pending, torn, bad := store.Manifests(rows)
	for _, q := range bad {
		ap.cfg.Store.Quarantine(q)
	}
	for _, t := range torn {
		ap.cfg.Store.Submit(t, nil)
	}
	for _, m := range pending {
		ap.highest = max(ap.highest, m.Number)
		if !strings.HasPrefix(m.Subject, manifestSubject) {
			continue // another owner's
		}
		if err := ap.forward(m, nil); err != nil {
			ap.cfg.Log.Error("cannot resume an apply", "manifest", m.Number, "error", err)
		}
	}
}

// otherSteps packs rows of another owner into steps.
func otherSteps(domain string, rows []store.Op) []step {
	var out []step
	size := 0
	for _, op := range rows {
		if len(out) == 0 || len(out[len(out)-1].rows) == stepThings || size+len(op.Value) > stepBytes {
			out, size = append(out, step{domain: domain}), 0
		}
		s := &out[len(out)-1]
		s.rows = append(s.rows, op)
		size += len(op.Key) + len(op.Value)
	}
	return out
}

// split cuts a step into steps with a few items each.
func (s step) split() []step {
	first := step{domain: s.domain, setFresh: s.setFresh, until: s.until}
	out := []step{first}
	room := func() *step {
		last := &out[len(out)-1]
		if len(last.services)+len(last.tasks)+len(last.removeServices)+len(last.removeTasks) >= stepThings {
			out = append(out, step{domain: s.domain})
		}
		return &out[len(out)-1]
	}
	for _, d := range s.services {
		r := room()
		r.services = append(r.services, d)
	}
	for _, t := range s.tasks {
		r := room()
		r.tasks = append(r.tasks, t)
	}
	for _, n := range s.removeServices {
		r := room()
		r.removeServices = append(r.removeServices, n)
	}
	for _, n := range s.removeTasks {
		r := room()
		r.removeTasks = append(r.removeTasks, n)
	}
	return out
}

func (s step) record() *bbspb.ApplyStep {
	m := &bbspb.ApplyStep{Domain: s.domain, SetFresh: s.setFresh, FreshUntil: wire.FromTime(s.until),
		RemoveServices: s.removeServices, RemoveTasks: s.removeTasks}
	for i := range s.services {
		m.Services = append(m.Services, desiredRecord(&s.services[i]))
	}
	for i := range s.tasks {
		m.Tasks = append(m.Tasks, &bbspb.NamedTask{Name: s.tasks[i].Name,
			Definition: definitionRecord(&s.tasks[i].Definition)})
	}
	for _, op := range s.rows {
		m.Rows = append(m.Rows, &bbspb.OtherRow{Key: op.Key, Value: op.Value, Remove: op.Value == nil})
	}
	for _, x := range s.retire {
		m.Retire = append(m.Retire, &bbspb.Retired{Key: wire.FromLRPKey(x.key), Instance: x.instance})
	}
	m.KeyRow, m.Key = s.keyRow, s.key
	return m
}

func stepOf(payload []byte) (step, error) {
	var m bbspb.ApplyStep
	if err := proto.Unmarshal(payload, &m); err != nil {
		return step{}, fmt.Errorf("step: %v: %w", err, store.ErrCorrupt)
	}
	r := &reader{}
	s := step{domain: m.Domain, setFresh: m.SetFresh, until: r.time(m.FreshUntil), removeServices: m.RemoveServices,
		removeTasks: m.RemoveTasks}
	for _, d := range m.Services {
		got, err := desiredOf(d)
		r.keep(err)
		s.services = append(s.services, got)
	}
	for _, t := range m.Tasks {
		got, err := definitionOf(t.Definition)
		r.keep(err)
		s.tasks = append(s.tasks, plan.NamedTask{Name: t.Name, Definition: got})
	}
	for _, o := range m.Rows {
		op := store.Op{Key: o.Key}
		if !o.Remove {
			op.Value = append([]byte{}, o.Value...)
		}
		s.rows = append(s.rows, op)
	}
	for _, x := range m.Retire {
		key, err := wire.ToLRPKey(x.Key)
		r.keep(err)
		s.retire = append(s.retire, retired{key, x.Instance})
	}
	s.keyRow, s.key = m.KeyRow, m.Key
	return s, r.err
}
