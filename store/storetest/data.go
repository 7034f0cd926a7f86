package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"cantina/store"
)

func resultData(t *testing.T, f Fixture) {
	r := campaign(t, f.store(t, store.Config{}), "a")
	for i := range 25 {
		commit(t, r, set(fmt.Sprintf("data/job/n%02d", i), fmt.Sprint(i), fmt.Sprintf("data/job2/n%02d", i), "other"))
	}
	var got []string
	for from, more := "", true; more; {
		var page []store.Row
		var err error
		page, more, err = r.Range(ctx(t), "data/job/", from, 10)
		must(t, err)
		for _, row := range page {
			got = append(got, string(row.Value))
			from = row.Key + "\x00"
		}
		if len(page) > 10 {
			t.Fatalf("a page of %d", len(page))
		}
	}
	if len(got) != 25 || got[0] != "0" || got[24] != "24" {
		t.Fatalf("%v", got)
	}
	if _, ok, err := r.Get(ctx(t), "data/job/none"); ok || err != nil {
		t.Fatalf("found %v, %v", ok, err)
	}
	if row, ok, err := r.Get(ctx(t), "data/job/n07"); !ok || err != nil || string(row.Value) != "7" ||
		row.Key != "data/job/n07" {
		t.Fatalf("%+v, %v, %v", row, ok, err)
	}
}

func quarantine(t *testing.T, f Fixture) {
	r := campaign(t, f.store(t, store.Config{}), "a")
	commit(t, r, set("good", "1", "bad", "garbage", "worse", "rubbish"))
	r.Quarantine(store.Quarantine{Key: "worse", Reason: "checksum", Bytes: []byte("rubbish")})
	r.Quarantine(store.Quarantine{Key: "bad", Reason: "no record", Bytes: []byte("garbage")})
	if list := r.Quarantined(); len(list) != 2 || list[0].Key != "bad" || list[1].Reason != "checksum" ||
		!r.IsQuarantined("bad") || r.IsQuarantined("good") {
		t.Fatalf("%+v", list)
	}
	for _, tr := range []store.Transition{set("good", "2", "bad", "2"), del("worse")} {
		_, err := submit(t, r, tr)
		wantErr(t, err, store.ErrQuarantined)
	}
	_, err := await(t, func(done func(int64, error)) { r.Drop("good", done) })
	wantErr(t, err, store.ErrNotQuarantined)
	_, err = await(t, func(done func(int64, error)) { r.Drop("worse", done) })
	must(t, err)
	_, err = await(t, func(done func(int64, error)) { r.Restore("bad", []byte("repaired"), done) })
	must(t, err)
	if r.IsQuarantined("bad") || len(r.Quarantined()) != 0 {
		t.Fatalf("%+v", r.Quarantined())
	}
	commit(t, r, set("worse", "new"))
	r.Quarantine(store.Quarantine{Key: "good", Reason: "too new", Bytes: []byte("1")})
	_, err = await(t, func(done func(int64, error)) { r.Restore("good", nil, done) })
	must(t, err)
	must(t, r.Resign(ctx(t)))
	wantRows(t, campaign(t, f.store(t, store.Config{}), "b"), "bad=repaired", "good=1", "worse=new")
}

// manifest: a change of five steps; the leader dies after two; the next one rolls
// the rest forward, once each and in order.
func manifest(t *testing.T, f Fixture) {
	r := campaign(t, f.store(t, store.Config{}), "a")
	m := store.Manifest{Number: 7, Subject: "apply of x.yaml"}
	for i := range 5 {
		m.Steps = append(m.Steps, fmt.Appendf(nil, "step %d", i))
	}
	_, err := await(t, func(done func(int64, error)) { r.WriteManifest(m, done) })
	must(t, err)
	large := store.Manifest{Number: 8, Steps: [][]byte{[]byte("a"), make([]byte, f.Open(t).Limits().Bytes)}}
	_, err = await(t, func(done func(int64, error)) { r.WriteManifest(large, done) })
	wantErr(t, err, store.ErrTooLarge)
	_, err = await(t, func(done func(int64, error)) { r.WriteManifest(store.Manifest{Number: 9}, done) })
	wantErr(t, err, store.ErrBadManifest)
	forward := func(r *store.Leadership, m store.Manifest, steps int) {
		for range steps {
			payload, ops, rest, ok := m.Forward()
			if !ok {
				t.Fatal("no step left")
			}
			commit(t, r, store.Transition{Ops: append(ops, store.Op{Key: "did " + string(payload), Value: []byte("x")})})
			m = rest
		}
	}
	forward(r, m, 2)
	torn := store.Manifest{Number: 3, Steps: [][]byte{[]byte("never promised")}}
	commit(t, r, torn.Transitions()[0])
	must(t, r.Resign(ctx(t)))

	r2 := campaign(t, f.store(t, store.Config{}), "b")
	pending, clear, bad := store.Manifests(r2.Rows())
	if len(pending) != 1 || len(clear) != 1 || len(bad) != 0 || pending[0].First != 2 || pending[0].Subject != m.Subject ||
		pending[0].Number != 7 {
		t.Fatalf("pending %+v, torn %v, bad %v", pending, clear, bad)
	}
	commit(t, r2, clear[0])
	forward(r2, pending[0], 3)
	must(t, r2.Resign(ctx(t)))
	wantRows(t, campaign(t, f.store(t, store.Config{}), "c"),
		"did step 0=x", "did step 1=x", "did step 2=x", "did step 3=x", "did step 4=x")
}

func corruptHead(t *testing.T, f Fixture) {
	r := campaign(t, f.store(t, store.Config{}), "a")
	commit(t, r, set("k", "v"))
	must(t, r.Resign(ctx(t)))
	b := f.Open(t)
	e, ok := get(t, b, "cantina/head")
	if !ok {
		t.Fatal("no head")
	}
	e.Value[len(e.Value)-1] ^= 1
	put(t, b, store.Write{Key: "cantina/head", Value: e.Value})
	_, err := f.store(t, store.Config{}).Campaign(ctx(t), store.Candidate{ID: "b"})
	wantErr(t, err, store.ErrCorrupt)
	put(t, b, store.Write{Key: "cantina/head"})
	_, err = f.store(t, store.Config{}).Campaign(ctx(t), store.Candidate{ID: "b"})
	wantErr(t, err, store.ErrNoHead) // never treated as a new store
}

func backup(t *testing.T, f Fixture) {
	r := campaign(t, f.store(t, store.Config{NewCluster: true}), "a")
	want := []string{"data/job/x=result", "empty="}
	commit(t, r, set("data/job/x", "result", "empty", ""))
	for i := range 700 {
		r.Submit(set(fmt.Sprintf("k%03d", i), strings.Repeat("v", 3000)), nil)
		want = append(want, fmt.Sprintf("k%03d=%s", i, strings.Repeat("v", 3000)))
	}
	commit(t, r, store.Transition{})
	var file bytes.Buffer
	n, _, err := f.store(t, store.Config{}).Backup(ctx(t), &file) // beside a leader
	must(t, err)
	if n != 702 {
		t.Fatalf("%d rows", n)
	}
	_, err = f.store(t, store.Config{}).LoadBackup(ctx(t), bytes.NewReader(file.Bytes()))
	wantErr(t, err, store.ErrNotEmpty)
	commit(t, r, set("k000", "after the backup"))
	must(t, r.Resign(ctx(t)))

	other := f.store(t, store.Config{Root: "other/"}) // an empty store beside the first
	n, err = other.LoadBackup(ctx(t), bytes.NewReader(file.Bytes()))
	must(t, err)
	if n != 702 {
		t.Fatalf("%d rows", n)
	}
	r2 := campaign(t, other, "b")
	if !r2.Restored() || r2.NewStore() || r2.Term().Epoch <= r.Term().Epoch {
		t.Fatalf("restored %v, new %v, term %s after %s", r2.Restored(), r2.NewStore(), r2.Term(), r.Term())
	}
	wantRows(t, r2, want[1:]...)
	if row, ok, err := r2.Get(ctx(t), "data/job/x"); !ok || err != nil || string(row.Value) != "result" {
		t.Fatalf("%+v, %v, %v", row, ok, err)
	}
}

func tornBackup(t *testing.T, f Fixture) {
	r := campaign(t, f.store(t, store.Config{}), "a")
	const n = 2500
	for i := range n {
		r.Submit(set(fmt.Sprintf("k%04d", i), "value"), nil)
	}
	commit(t, r, store.Transition{})
	var file bytes.Buffer
	_, _, err := f.store(t, store.Config{}).Backup(ctx(t), &file)
	must(t, err)
	whole := file.Bytes()
	other := f.store(t, store.Config{Root: "other/"})
	flipped := bytes.Clone(whole)
	flipped[bytes.LastIndex(flipped, []byte("value"))]++
	for _, damaged := range []struct {
		name  string
		bytes []byte
	}{{"empty", nil}, {"no backup", []byte("hello, world")}, {"torn", whole[:len(whole)-3]},
		{"half", whole[:len(whole)/2]}, {"flipped", flipped}} {
		_, err := other.LoadBackup(ctx(t), bytes.NewReader(damaged.bytes))
		if !errors.Is(err, store.ErrBadBackup) || strings.Contains(err.Error(), "proto") {
			t.Fatalf("%s: %v", damaged.name, err)
		}
	}
	_, err = other.Campaign(ctx(t), store.Candidate{ID: "b"})
	wantErr(t, err, store.ErrNoHead)
	said, err := other.LoadBackup(ctx(t), bytes.NewReader(whole))
	must(t, err)
	if got := len(campaign(t, other, "b").Rows()); got != n || said != n {
		t.Fatalf("%d rows, %d said", got, said)
	}
}

func markRestored(t *testing.T, f Fixture) {
	s := f.store(t, store.Config{NewCluster: true})
	_, err := s.MarkRestored(ctx(t))
	wantErr(t, err, store.ErrNoHead)
	r := campaign(t, s, "a")
	_, err = f.store(t, store.Config{}).MarkRestored(ctx(t))
	wantErr(t, err, store.ErrDisplaced)
	// Its process was killed: a sole user of the store need not wait for its lease.
	first, err := f.store(t, store.Config{Sole: true}).MarkRestored(ctx(t))
	must(t, err)
	if first.Epoch <= r.Term().Epoch {
		t.Fatalf("marked %s, before %s", first, r.Term())
	}
	if _, err := f.store(t, store.Config{}).Leader(ctx(t)); !errors.Is(err, store.ErrNoLeader) {
		t.Fatalf("a dead process leads: %v", err)
	}
	_ = r.Resign(ctx(t))
	marked, err := f.store(t, store.Config{}).MarkRestored(ctx(t))
	must(t, err)
	r2 := campaign(t, f.store(t, store.Config{}), "b")
	if !r2.Restored() || r2.Term().Epoch != marked.Epoch || marked.Epoch <= r.Term().Epoch {
		t.Fatalf("restored %v, term %s, marked %s, before %s", r2.Restored(), r2.Term(), marked, r.Term())
	}
}
