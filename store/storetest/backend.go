package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"cantina/store"
)

func put(t testing.TB, b store.Backend, w ...store.Write) int64 {
	t.Helper()
	a, err := b.Txn(ctx(t), store.Txn{Then: w})
	must(t, err)
	if !a.Done {
		t.Fatal("a transaction without conditions was refused")
	}
	return a.Revision
}

func get(t testing.TB, b store.Backend, key string) (store.Entry, bool) {
	t.Helper()
	p, err := b.Range(ctx(t), store.Query{From: key, To: key + "\x00"})
	must(t, err)
	if len(p.Entries) == 0 {
		return store.Entry{}, false
	}
	return p.Entries[0], true
}

func conditions(t *testing.T, f Fixture) {
	b := f.Open(t)
	created := put(t, b, store.Write{Key: "a", Value: []byte("1")})
	put(t, b, store.Write{Key: "a", Value: []byte("2")})
	valueIs := func(key, v string) store.Condition {
		return store.Condition{Key: key, Check: store.ValueIs, Value: []byte(v)}
	}
	createdAt := func(key string, rev int64) store.Condition {
		return store.Condition{Key: key, Check: store.CreatedAt, Created: rev}
	}
	for name, c := range map[string]struct {
		ifs  []store.Condition
		want bool
	}{
		"value":             {[]store.Condition{valueIs("a", "2")}, true},
		"old value":         {[]store.Condition{valueIs("a", "1")}, false},
		"value of none":     {[]store.Condition{valueIs("b", "")}, false},
		"created":           {[]store.Condition{createdAt("a", created)}, true},
		"created elsewhen":  {[]store.Condition{createdAt("a", created+1)}, false},
		"absent":            {[]store.Condition{createdAt("b", 0)}, true},
		"present":           {[]store.Condition{createdAt("a", 0)}, false},
		"both":              {[]store.Condition{valueIs("a", "2"), createdAt("b", 0)}, true},
		"one of two":        {[]store.Condition{valueIs("a", "2"), createdAt("a", 0)}, false},
		"no condition":      {nil, true},
		"created, of none":  {[]store.Condition{createdAt("b", 7)}, false},
		"empty is no value": {[]store.Condition{valueIs("a", "")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := b.Txn(ctx(t), store.Txn{If: c.ifs, Then: []store.Write{{Key: "out", Value: []byte(name)}},
				Else: []string{"a", "b"}})
			must(t, err)
			if a.Done != c.want {
				t.Fatalf("done %v", a.Done)
			}
			out, _ := get(t, b, "out")
			if c.want != (string(out.Value) == name) {
				t.Fatalf("wrote %q", out.Value)
			}
			if !c.want && (len(a.Found) != 1 || a.Found[0].Key != "a" || string(a.Found[0].Value) != "2" ||
				a.Found[0].Created != created) {
				t.Fatalf("found %+v", a.Found)
			}
		})
	}
}

func writes(t *testing.T, f Fixture) {
	b := f.Open(t)
	first := put(t, b, store.Write{Key: "a", Value: []byte("1")}, store.Write{Key: "b", Value: []byte{}})
	a, _ := get(t, b, "a")
	if e, ok := get(t, b, "b"); !ok || e.Value == nil || len(e.Value) != 0 || e.Created != first || a.Modified != first {
		t.Fatalf("an empty value is a value: %+v, and both are of revision %d: %+v", e, first, a)
	}
	second := put(t, b, store.Write{Key: "a", Value: []byte("2")}, store.Write{Key: "b"}, store.Write{Key: "none"})
	if second <= first {
		t.Fatalf("revision %d after %d", second, first)
	}
	if e, _ := get(t, f.Open(t), "a"); string(e.Value) != "2" || e.Created != first || e.Modified != second {
		t.Fatalf("%+v", e)
	}
	if _, ok := get(t, b, "b"); ok {
		t.Fatal("b was deleted")
	}
	third := put(t, b, store.Write{Key: "b", Value: []byte("3")})
	if e, _ := get(t, b, "b"); e.Created != third {
		t.Fatalf("created anew: %+v, want %d", e, third)
	}
	name, err := b.Cluster(ctx(t))
	must(t, err)
	if other, err := f.Open(t).Cluster(ctx(t)); err != nil || other != name || name == "" {
		t.Fatalf("cluster %q and %q, %v", name, other, err)
	}
}

func limits(t *testing.T, f Fixture) {
	b := f.Open(t)
	most := make([]store.Write, b.Limits().Ops)
	for i := range most {
		most[i] = store.Write{Key: fmt.Sprint("k", i), Value: []byte("v")}
	}
	put(t, b, most...)
	_, err := b.Txn(ctx(t), store.Txn{Then: append(most, store.Write{Key: "one more", Value: []byte("v")})})
	wantErr(t, err, store.ErrTooLarge)
	_, err = b.Txn(ctx(t), store.Txn{Then: []store.Write{{Key: "big", Value: make([]byte, b.Limits().Bytes+1)}}})
	wantErr(t, err, store.ErrTooLarge)
	if _, ok := get(t, b, "one more"); ok {
		t.Fatal("a refused transaction wrote")
	}
}

func ranges(t *testing.T, f Fixture) {
	b := f.Open(t)
	for _, k := range []string{"b/2", "a", "b/1", "b/3", "c"} {
		put(t, b, store.Write{Key: k, Value: []byte("v")})
	}
	keys := func(q store.Query) string {
		p, err := b.Range(ctx(t), q)
		must(t, err)
		var all []string
		for _, e := range p.Entries {
			all = append(all, e.Key)
		}
		return fmt.Sprint(strings.Join(all, " "), " ", p.More)
	}
	for q, want := range map[store.Query]string{
		{From: "b/", To: "b0"}:             "b/1 b/2 b/3 false",
		{From: "b/", To: "b0", Limit: 2}:   "b/1 b/2 true",
		{From: "b/2", To: "b0", Limit: 2}:  "b/2 b/3 false",
		{From: "a", To: "b"}:               "a false",
		{From: "d", To: "e"}:               " false",
		{From: "b/1\x00", To: "b/3\x00"}:   "b/2 b/3 false",
		{From: "a", To: "zzzz", Limit: 10}: "a b/1 b/2 b/3 c false",
	} {
		if got := keys(q); got != want {
			t.Errorf("%+v: %s, want %s", q, got, want)
		}
	}
}

func changed(t *testing.T, f Fixture) {
	b, other := f.Open(t), f.Open(t)
	revision := put(t, b, store.Write{Key: "k", Value: []byte("1")})
	must(t, b.Changed(ctx(t), "k", revision-1)) // changed already
	for name, change := range map[string]func() int64{
		"put":    func() int64 { return put(t, other, store.Write{Key: "k", Value: []byte("2")}) },
		"delete": func() int64 { return put(t, other, store.Write{Key: "k"}) },
		"create": func() int64 { return put(t, other, store.Write{Key: "new " + t.Name(), Value: []byte("1")}) },
	} {
		key := "k"
		if name == "create" {
			key = "new " + t.Name()
		}
		if name != "create" {
			revision = put(t, other, store.Write{Key: "k", Value: []byte("base")})
		}
		got := make(chan error, 1)
		go func() { got <- b.Changed(ctx(t), key, revision) }()
		put(t, other, store.Write{Key: "unrelated", Value: []byte(name)})
		change()
		must(t, <-got)
	}
	c, cancel := context.WithCancel(t.Context())
	got := make(chan error, 1)
	go func() { got <- b.Changed(c, "never", 1<<40) }()
	cancel()
	wantErr(t, <-got, context.Canceled)
}

func leases(t *testing.T, f Fixture) {
	b := f.Open(t)
	one, ttl, err := b.Grant(ctx(t), 5*time.Second)
	must(t, err)
	two, _, err := b.Grant(ctx(t), 5*time.Second)
	must(t, err)
	if one == 0 || one == two || ttl < 5*time.Second {
		t.Fatalf("leases %d and %d, ttl %s", one, two, ttl)
	}
	put(t, b, store.Write{Key: "a", Value: []byte("1"), Lease: one}, store.Write{Key: "b", Value: []byte("1"), Lease: two})
	revision := put(t, b, store.Write{Key: "a", Value: []byte("2"), Lease: one})
	if e, _ := get(t, b, "a"); e.Lease != one {
		t.Fatalf("%+v", e)
	}
	kept, err := b.KeepAlive(ctx(t), one)
	must(t, err)
	if kept < 4*time.Second {
		t.Fatalf("kept for %s", kept)
	}
	gone := make(chan error, 1)
	go func() { gone <- b.Changed(ctx(t), "a", revision) }()
	must(t, f.Open(t).Revoke(ctx(t), one))
	must(t, <-gone)
	if _, ok := get(t, b, "a"); ok {
		t.Fatal("the key outlived its lease")
	}
	if _, ok := get(t, b, "b"); !ok {
		t.Fatal("the other lease went too")
	}
	_, err = b.KeepAlive(ctx(t), one)
	wantErr(t, err, store.ErrLeaseGone)
	must(t, b.Revoke(ctx(t), one))
	if _, err := b.Txn(ctx(t), store.Txn{Then: []store.Write{{Key: "a", Value: []byte("3"), Lease: one}}}); err == nil {
		t.Fatal("a put on a dead lease")
	}
}
