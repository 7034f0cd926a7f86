package store

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cantina/internal/text"
	"cantina/store/storepb"
)

// ManifestPrefix begins the keys of manifest rows.
const ManifestPrefix = "manifest/"

// Manifest is a change that is larger than one transaction: numbered steps, each of which fits in
// one. Its steps are written first and its marker last. From then on the change is acknowledged,
// and this leader or a later one rolls it forward, step by step in order, each step in one
// transaction with its effect. The marker is deleted with the last step. A manifest without marker
// was never acknowledged.
//
//	written: manifest/N/0 … manifest/N/n-1, manifest/N/ready
//	step k:  one transaction {effect of step k, delete manifest/N/k}
//	last:    … and delete manifest/N/ready
type Manifest struct {
	// Number orders manifests; the caller takes one above every pending one.
	Number int64
	// Subject describes the change.
	Subject string
	// Steps are the payloads that remain, in order; only their owner can read them. They have the
	// intent, not rows, because rows change meanwhile.
	Steps [][]byte
	// First is the index of Steps[0]: the number of steps done.
	First int
}

func (m Manifest) dir() string { return fmt.Sprintf("%s%016x/", ManifestPrefix, uint64(m.Number)) }

func (m Manifest) stepKey(i int) string { return fmt.Sprintf("%s%08d", m.dir(), i) }

func (m Manifest) markerKey() string { return m.dir() + "ready" }

// Transitions are the transitions that write a new manifest, in order, the marker last.
func (m Manifest) Transitions() []Transition {
	all := make([]Transition, 0, len(m.Steps)+1)
	for i, payload := range m.Steps {
		all = append(all, Transition{Ops: []Op{{Key: m.stepKey(i), Value: Encode(1, kindStep, payload)}}})
	}
	marker := &storepb.ManifestMarker{Steps: int32(len(m.Steps)), Subject: text.Clean(m.Subject)}
	return append(all, Transition{Ops: []Op{{Key: m.markerKey(), Value: Encode(1, kindMarker, marshal(marker))}}})
}

// Forward takes the next step: its payload, the writes that have to be added to
// the transition which does it, and the manifest that remains. ok is false when
// none is left.
func (m Manifest) Forward() (payload []byte, ops []Op, rest Manifest, ok bool) {
	if len(m.Steps) == 0 {
		return nil, nil, m, false
	}
	ops = []Op{{Key: m.stepKey(m.First)}}
	rest = Manifest{Number: m.Number, Subject: m.Subject, Steps: m.Steps[1:], First: m.First + 1}
	if len(rest.Steps) == 0 {
		ops = append(ops, Op{Key: m.markerKey()})
	}
	return m.Steps[0], ops, rest, true
}

// WriteManifest queues a new manifest (First 0, at least one step). done is called
// once, as by Submit, when the marker is durable: the change is promised from then
// on. ErrTooLarge when a step does not fit; then nothing was written.
func (r *Leadership) WriteManifest(m Manifest, done func(revision int64, err error)) {
	all := m.Transitions()
	if len(m.Steps) == 0 || m.First != 0 {
		r.submit(item{done: done, err: fmt.Errorf("manifest %d: %d steps from %d: %w", m.Number, len(m.Steps), m.First,
			ErrBadManifest)})
		return
	}
	for _, t := range all {
		err := r.Fits(t)
		if err == nil && r.IsQuarantined(t.Ops[0].Key) {
			err = ErrQuarantined
		}
		if err != nil {
			r.submit(item{done: done, err: fmt.Errorf("manifest %d, %s: %w", m.Number, t.Ops[0].Key, err)})
			return
		}
	}
	for _, t := range all[:len(all)-1] {
		r.Submit(t, nil)
	}
	r.Submit(all[len(all)-1], done)
}

// Manifests finds the manifests in a load (other rows are skipped): the pending
// ones by number; transitions that clear away those which were never promised; and
// the rows that cannot be used, for Leadership.Quarantine.
func Manifests(rows []Row) (pending []Manifest, torn []Transition, bad []Quarantine) {
	for group := range groups(rows) {
		m, marked, faults := assemble(group)
		switch {
		case len(faults) > 0:
			bad = append(bad, faults...)
		case !marked:
			for _, row := range group {
				torn = append(torn, Transition{Ops: []Op{{Key: row.Key}}})
			}
		default:
			pending = append(pending, m)
		}
	}
	slices.SortFunc(pending, func(a, b Manifest) int { return strings.Compare(a.dir(), b.dir()) })
	return pending, torn, bad
}

// groups yields the rows of each manifest.
func groups(rows []Row) func(yield func([]Row) bool) {
	dir := func(r Row) string { return r.Key[:strings.LastIndexByte(r.Key, '/')+1] }
	return func(yield func([]Row) bool) {
		var group []Row
		for _, r := range rows {
			if !strings.HasPrefix(r.Key, ManifestPrefix) {
				continue
			}
			if len(group) > 0 && dir(group[0]) != dir(r) {
				if !yield(group) {
					return
				}
				group = nil
			}
			group = append(group, r)
		}
		if len(group) > 0 {
			yield(group)
		}
	}
}

// assemble builds one manifest from its rows, which are sorted by key. One row that
// cannot be used spoils the whole: half a change is worse than none.
func assemble(rows []Row) (m Manifest, marked bool, faults []Quarantine) {
	corrupted := func(reason string) []Quarantine {
		all := make([]Quarantine, len(rows))
		for i, r := range rows {
			all[i] = Quarantine{Key: r.Key, Reason: reason, Bytes: r.Value}
		}
		return all
	}
	dir, _, _ := strings.Cut(rows[0].Key[len(ManifestPrefix):], "/")
	number, err := strconv.ParseUint(dir, 16, 64)
	if err != nil {
		return m, false, corrupted("manifest without a number")
	}
	m = Manifest{Number: int64(number), First: -1}
	total := 0
	for _, r := range rows {
		if r.Key == m.markerKey() {
			var p storepb.ManifestMarker
			if err := Open(r.Value, kindMarker, &p); err != nil {
				return m, false, corrupted(r.Key + ": " + err.Error())
			}
			marked, total, m.Subject = true, int(p.Steps), p.Subject
			continue
		}
		payload, err := openStep(r.Value)
		if err != nil {
			return m, false, corrupted(r.Key + ": " + err.Error())
		}
		i, err := strconv.Atoi(r.Key[len(m.dir()):])
		if m.First < 0 {
			m.First = i
		}
		if err != nil || i != m.First+len(m.Steps) {
			return m, false, corrupted(r.Key + ": step out of order")
		}
		m.Steps = append(m.Steps, payload)
	}
	if marked && (len(m.Steps) == 0 || m.First+len(m.Steps) != total) {
		return m, false, corrupted(fmt.Sprintf("steps are missing: %d of %d remain from %d", len(m.Steps), total, m.First))
	}
	return m, marked, nil
}

func openStep(value []byte) ([]byte, error) {
	schema, kind, payload, err := Decode(value)
	if err != nil {
		return nil, err
	}
	if kind != kindStep || schema != 1 {
		return nil, fmt.Errorf("record is %s version %d, want %s version 1: %w", kind, schema, kindStep, ErrCorrupt)
	}
	return payload, nil
}
