package bbs

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"cantina/bbs/bbspb"
	"cantina/store"
	"cantina/wire"
)

// manifestSubject begins the subjects of this board's manifests.
const manifestSubject = "apply "

// stepThings is how many services and tasks one step of a manifest changes.
const stepThings = 10

// manifests holds the highest number that was given to a manifest.
type manifests struct{ highest int64 }

// applyLarge commits an application that is larger than one transaction: first the
// promise, step by step and marker last, then the steps, each in one transaction
// with its deletion. It returns after the last one.
func (b *BBS) applyLarge(ctx context.Context, a Application) (Applied, error) {
	ticket := newTicket()
	changes, err := b.applyLargeLocked(a, ticket)
	if err != nil {
		return Applied{}, err
	}
	revision, err := ticket.wait(ctx)
	return Applied{Revision: revision, Changes: changes}, err
}

func (b *BBS) applyLargeLocked(a Application, k *ticket) ([]Change, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.isOver(); err != nil {
		return nil, err
	}
	changes, all, err := b.diff(a)
	if err != nil {
		return nil, err
	}
	extra, err := b.beginExtra(a)
	if err != nil {
		return nil, err
	}
	b.manifest.highest++
	m := store.Manifest{Number: b.manifest.highest, Subject: manifestSubject + a.Domain}
	for _, s := range all.split() {
		payload := marshal(s.record())
		if err := b.cfg.Store.Fits(store.Transition{Ops: []store.Op{{Key: store.ManifestPrefix, Value: payload}}}); err != nil {
			return nil, err // one service alone is larger than a transaction
		}
		m.Steps = append(m.Steps, payload)
	}
	b.cfg.Store.WriteManifest(m, func(_ int64, err error) {
		if err != nil {
			b.fail(fmt.Errorf("write manifest: %w", err))
		}
	})
	if err := b.forward(m); err != nil {
		return nil, err
	}
	// The last commit of the application is what it is answered by.
	b.submit(extra, k.done)
	b.converge(false)
	return changes, nil
}

// beginExtra is the change with the rows of another owner, who does not know the
// manifest: they go last, in one transaction. store.ErrTooLarge when they do not
// fit, before anything was promised.
func (b *BBS) beginExtra(a Application) (*tx, error) {
	t := b.begin(b.now())
	t.atomic = true
	if err := t.addExtra(a); err != nil {
		return nil, err
	}
	return t, t.fits()
}

// forward does all steps of a promised manifest, in order.
func (b *BBS) forward(m store.Manifest) error {
	for {
		payload, ops, rest, ok := m.Forward()
		if !ok {
			return nil
		}
		s, err := stepOf(payload)
		if err != nil {
			return fmt.Errorf("manifest %d: %w", m.Number, err)
		}
		t := b.begin(b.now())
		t.atomic = true
		if err := t.applyStep(s); err != nil {
			t.rollback() // what cannot be applied any more is left out, the rest goes on
			b.cfg.Log.Error("manifest step left out", "manifest", m.Number, "step", m.First, "error", err)
			t = b.begin(b.now())
			t.atomic = true
		}
		for _, op := range ops {
			t.others = append(t.others, rowChange{op: op, show: func(*view, int64) {}})
		}
		b.submit(t, nil)
		m = rest
	}
}

// loadManifests rolls forward what an earlier leader promised.
func (b *BBS) loadManifests(rows []store.Row) {
	pending, torn, bad := store.Manifests(rows)
	for _, q := range bad {
		b.cfg.Store.Quarantine(q)
	}
	for _, t := range torn {
		b.cfg.Store.Submit(t, nil)
	}
	for _, m := range pending {
		b.manifest.highest = max(b.manifest.highest, m.Number)
		if !strings.HasPrefix(m.Subject, manifestSubject) {
			continue // another owner's
		}
		if err := b.forward(m); err != nil {
			b.cfg.Log.Error("manifest cannot be rolled forward", "manifest", m.Number, "error", err)
		}
	}
}

// split cuts a step into steps of a few things each.
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
	m := &bbspb.ApplyStep{Domain: s.domain, SetFresh: s.setFresh, FreshUntil: wire.FromTime(s.until), RemoveServices: s.removeServices, RemoveTasks: s.removeTasks}
	for i := range s.services {
		m.Services = append(m.Services, desiredRecord(&s.services[i]))
	}
	for i := range s.tasks {
		m.Tasks = append(m.Tasks, &bbspb.NamedTask{Name: s.tasks[i].Name, Definition: definitionRecord(&s.tasks[i].Definition)})
	}
	return m
}

func stepOf(payload []byte) (step, error) {
	var m bbspb.ApplyStep
	if err := proto.Unmarshal(payload, &m); err != nil {
		return step{}, fmt.Errorf("step: %v: %w", err, store.ErrCorrupt)
	}
	r := &reader{}
	s := step{domain: m.Domain, setFresh: m.SetFresh, until: r.time(m.FreshUntil), removeServices: m.RemoveServices, removeTasks: m.RemoveTasks}
	for _, d := range m.Services {
		got, err := desiredOf(d)
		r.keep(err)
		s.services = append(s.services, got)
	}
	for _, t := range m.Tasks {
		got, err := definitionOf(t.Definition)
		r.keep(err)
		s.tasks = append(s.tasks, NamedTask{t.Name, got})
	}
	return s, r.err
}
