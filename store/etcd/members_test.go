package etcd_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cantina/internal/run"
	"cantina/store"
	"cantina/store/datadir"
	"cantina/store/etcd"
	"cantina/store/etcdtest"
	"cantina/store/storetest"
)

// isBadList reports an error about the list of members with a text.
func isBadList(err error, text string) bool {
	return errors.Is(err, etcd.ErrMembership) && strings.Contains(err.Error(), text)
}

func TestParseMembers(t *testing.T) {
	for _, c := range []struct {
		list []string
		want string // part of the error; empty = none
	}{
		{[]string{"a=127.0.0.1:7490", "b=node-b:7490"}, ""},
		{[]string{"a=[::1]:7490"}, ""},
		{[]string{"a"}, `"a": must be NAME=HOST:PORT`},
		{[]string{"a=10.0.0.5"}, "must be NAME=HOST:PORT"},
		{[]string{"=10.0.0.5:7490"}, "must be NAME=HOST:PORT"},
		{[]string{"a=10.0.0.5:0"}, "must be NAME=HOST:PORT"},
		{[]string{"a=10.0.0.5:70000"}, "must be NAME=HOST:PORT"},
		{[]string{"a=:7490"}, "must be NAME=HOST:PORT"},
		{[]string{"a/b=10.0.0.5:7490"}, "must be NAME=HOST:PORT"},
		{[]string{"a=0.0.0.0:7490"}, "that the other members can reach"},
		{[]string{"a=10.0.0.5:7490", "a=10.0.0.6:7490"}, "two members are named a"},
		{[]string{"a=10.0.0.5:7490", "b=10.0.0.5:7490"}, "a and b have the same address 10.0.0.5:7490"},
	} {
		all, err := etcd.ParseMembers(c.list)
		if c.want == "" && (err != nil || len(all) != len(c.list) || all[0].String() != c.list[0]) {
			t.Errorf("%v: %v, %v", c.list, all, err)
		}
		if c.want != "" && !isBadList(err, c.want) {
			t.Errorf("%v: %v", c.list, err)
		}
	}
}

func TestOwnAddress(t *testing.T) {
	all, err := etcd.ParseMembers([]string{"a=10.0.0.5:7490", "b=node-b:7490"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, listen, want, err string }{
		{"a", "", "10.0.0.5:7490", ""},
		{"a", "0.0.0.0:7490", "0.0.0.0:7490", ""},
		{"b", "10.0.0.6:7490", "10.0.0.6:7490", ""},
		{"b", "", "", "--peer-listen IP:PORT"},
		{"c", "", "", "no member is named c: add c=HOST:PORT, or set --name to one of a, b"},
		{"a", "10.0.0.5", "", "--peer-listen 10.0.0.5: must be IP:PORT"},
	} {
		got, err := (&etcd.Membership{Name: c.name, Members: all, Listen: c.listen}).ListenAddress()
		if bad := c.err != "" && !isBadList(err, c.err); got != c.want || c.err == "" && err != nil || bad {
			t.Errorf("%v: %q, %v", c, got, err)
		}
	}
}

// group is members of one cluster in this process.
type group struct {
	t       testing.TB
	dir     string
	list    []etcd.MemberAddress
	members map[string]*etcd.Member
	dirs    map[string]*datadir.Dir
	stop    map[string]func()
}

func newGroup(t testing.TB, names ...string) *group {
	t.Helper()
	g := &group{t: t, dir: t.TempDir(), members: map[string]*etcd.Member{}, dirs: map[string]*datadir.Dir{},
		stop: map[string]func(){}}
	for _, n := range names {
		g.list = append(g.list, etcd.MemberAddress{Name: n, Peer: etcdtest.FreeAddr(t)})
	}
	g.start(g.list, false, names...)
	t.Cleanup(func() {
		for n := range g.members {
			g.end(n)
		}
	})
	return g
}

// open starts a member with a list, and does not wait for others.
func (g *group) open(name string, list []etcd.MemberAddress, join bool) error {
	f, err := datadir.Open(filepath.Join(g.dir, name, "server"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	m, err := etcd.Start(ctx, f, etcd.MemberConfig{Membership: &etcd.Membership{Name: name, Members: list, Join: join}})
	if err != nil {
		return errors.Join(err, f.Close())
	}
	run, end := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = m.Run(run) // it ends with the member, or before it when that was removed
	}()
	g.members[name], g.dirs[name] = m, f
	g.stop[name] = func() { end(); <-ended }
	return nil
}

// start starts members beside one another: each waits for a majority.
func (g *group) start(list []etcd.MemberAddress, join bool, names ...string) {
	g.t.Helper()
	got := make(chan error)
	started := map[string]*group{}
	for _, n := range names {
		one := &group{t: g.t, dir: g.dir, members: map[string]*etcd.Member{}, dirs: map[string]*datadir.Dir{},
			stop: map[string]func(){}}
		started[n] = one
		go func() { got <- one.open(n, list, join) }()
	}
	for range names {
		if err := <-got; err != nil {
			g.t.Fatal(err)
		}
	}
	for n, one := range started {
		g.members[n], g.dirs[n], g.stop[n] = one.members[n], one.dirs[n], one.stop[n]
	}
}

// end ends a member.
func (g *group) end(name string) {
	g.t.Helper()
	g.stop[name]()
	if err := errors.Join(g.members[name].Close(), g.dirs[name].Close()); err != nil && !errors.Is(err, store.ErrBroken) {
		g.t.Error(err)
	}
	delete(g.members, name)
}

// state waits until a member sees all members as want demands.
func (g *group) state(name string, want func(map[string]etcd.MemberState) bool) {
	g.t.Helper()
	var last []etcd.MemberState
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		all, err := g.members[name].Members(context.Background())
		if err != nil {
			g.t.Fatal(err)
		}
		last = all
		by := map[string]etcd.MemberState{}
		for _, x := range all {
			by[x.Name] = x
		}
		if want(by) {
			return
		}
		if err := run.Pause(context.Background(), 50*time.Millisecond); err != nil {
			g.t.Fatal(err)
		}
	}
	g.t.Fatalf("members as %s sees them: %+v", name, last)
}

// TestSuiteMembers runs the suite of a store on a member that is not elected: the others have its entries first.
func TestSuiteMembers(t *testing.T) {
	if os.Getenv("CANTINA_SOAK") == "" {
		t.Skip("each part of the suite starts three members: CANTINA_SOAK=1 runs it")
	}
	storetest.Run(t, func(t testing.TB) storetest.Fixture {
		g := newGroup(t, "a", "b", "c")
		m := g.members["a"]
		m.SetLeads(true) // and so another is elected
		g.state("a", func(by map[string]etcd.MemberState) bool { return by["b"].Elected || by["c"].Elected })
		return storetest.Fixture{Open: func(testing.TB) store.Backend { return m.Backend() }, Clock: run.Kernel()}
	})
}

// TestThreeMembers: a store on three members has one content. It goes on without any one of them, and stops without
// two. The leader of cantina is never the elected member for long. A member is added, removed and replaced.
func TestThreeMembers(t *testing.T) {
	g := newGroup(t, "a", "b", "c")
	cluster := ""
	for n, m := range g.members {
		got, err := m.Backend().Cluster(t.Context())
		if err != nil || cluster != "" && got != cluster {
			t.Fatalf("member %s: cluster %q, not %q: %v", n, got, cluster, err)
		}
		cluster = got
	}
	r := campaign(t, newStore(t, g.members["a"].Backend(), store.Config{Memory: g.dirs["a"], NewCluster: true}))
	commit(t, r, store.Transition{Ops: []store.Op{{Key: "k", Value: []byte("v")}}})
	g.members["a"].SetLeads(true)
	g.state("a", func(by map[string]etcd.MemberState) bool {
		return len(by) == 3 && !by["a"].Elected && (by["b"].Elected || by["c"].Elected) && by["b"].Reachable &&
			by["c"].Reachable
	})
	g.members["a"].SetLeads(false)
	if err := r.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}

	// Each other one can lead on the same content, also while a is down.
	g.end("a")
	r = campaign(t, newStore(t, g.members["b"].Backend(), store.Config{Memory: g.dirs["b"]}))
	if rows := r.Rows(); len(rows) != 1 || rows[0].Key != "k" || r.Restored() {
		t.Errorf("b loads %v, restored %v", rows, r.Restored())
	}
	commit(t, r, store.Transition{Ops: []store.Op{{Key: "without-a", Value: []byte("v")}}})
	g.state("b", func(by map[string]etcd.MemberState) bool { return !by["a"].Reachable && by["c"].Reachable })
	g.start(g.list, false, "a")
	g.state("a", func(by map[string]etcd.MemberState) bool { return by["b"].Reachable })

	// Without a majority nothing is committed and nothing is read.
	g.end("a")
	g.end("c")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if p, err := g.members["b"].Backend().Range(ctx, store.Query{From: "a", To: "z"}); err == nil {
		t.Errorf("one of three members answers a read: %v", p)
	}
	if !waits(func() bool { return !g.members["b"].HasMajority() }) {
		t.Error("b does not notice that it is alone")
	}
	g.start(g.list, false, "a", "c")
	commit(t, r, store.Transition{Ops: []store.Op{{Key: "after", Value: []byte("v")}}})

	// c is replaced by d with an empty directory.
	if err := g.members["a"].RemoveMember(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-g.members["c"].Broken():
	case <-time.After(time.Minute):
		t.Fatal("c does not notice that it was removed")
	}
	g.end("c")
	if err := g.open("c", g.list, false); err == nil || !strings.Contains(err.Error(), "was removed") {
		t.Errorf("a removed member starts again: %v", err)
	}
	d := etcd.MemberAddress{Name: "d", Peer: etcdtest.FreeAddr(t)}
	list, err := g.members["b"].AddMember(t.Context(), d)
	if err != nil || len(list) != 3 || list[2] != d {
		t.Fatalf("%v, %v", list, err)
	}
	_, err = g.members["b"].AddMember(t.Context(), d)
	if err == nil || !strings.Contains(err.Error(), "already a member") {
		t.Errorf("added twice: %v", err)
	}
	g.start(list, true, "d")
	g.state("b", func(by map[string]etcd.MemberState) bool { return !by["d"].Learner && by["d"].Reachable })
	g.end("a")
	commit(t, r, store.Transition{Ops: []store.Op{{Key: "with-d", Value: []byte("v")}}})
	if err := r.Resign(t.Context()); err != nil {
		t.Error(err)
	}
	r = campaign(t, newStore(t, g.members["d"].Backend(), store.Config{Memory: g.dirs["d"]}))
	if n := len(r.Rows()); n != 4 || r.Restored() {
		t.Errorf("d loads %d rows, restored %v", n, r.Restored())
	}
	if err := r.Resign(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestTheElectedMemberLeadsLast: of three candidates, the one whose member is elected leads only when no other does.
func TestTheElectedMemberLeadsLast(t *testing.T) {
	g := newGroup(t, "a", "b", "c")
	type win struct {
		name string
		r    *store.Leadership
		err  error
	}
	elected := ""
	g.state("a", func(by map[string]etcd.MemberState) bool {
		for name, m := range by {
			if m.Elected {
				elected = name
			}
		}
		return elected != ""
	})
	wins := make(chan win)
	for name, m := range g.members {
		s := newStore(t, m.Backend(), store.Config{Memory: g.dirs[name], NewCluster: true})
		go func() {
			r, err := s.Campaign(t.Context(), store.Candidate{ID: name})
			wins <- win{name, r, err}
		}()
	}
	var order []string
	for range g.members {
		w := <-wins
		if w.err != nil {
			t.Fatal(w.err)
		}
		order = append(order, w.name)
		if err := w.r.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if order[2] != elected {
		t.Errorf("leaders %v, of which %s is the elected member", order, elected)
	}
}

// waits waits until want returns true.
func waits(want func() bool) bool {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if want() {
			return true
		}
		if run.Pause(context.Background(), 20*time.Millisecond) != nil {
			return false
		}
	}
	return false
}

// TestSingleMemberGrows: the store of a single server becomes a cluster, with its own entry alone at first.
func TestSingleMemberGrows(t *testing.T) {
	g := &group{t: t, dir: t.TempDir(), members: map[string]*etcd.Member{}, dirs: map[string]*datadir.Dir{},
		stop: map[string]func(){}}
	m, f := startMember(t, filepath.Join(g.dir, "a", "server"))
	r := campaign(t, newStore(t, m.Backend(), store.Config{Memory: f, NewCluster: true}))
	commit(t, r, store.Transition{Ops: []store.Op{{Key: "k", Value: []byte("v")}}})
	if err := r.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	stopMember(t, m, f)
	a := etcd.MemberAddress{Name: "a", Peer: etcdtest.FreeAddr(t)}
	b := etcd.MemberAddress{Name: "b", Peer: etcdtest.FreeAddr(t)}
	err := g.open("a", []etcd.MemberAddress{a, b}, false)
	if !isBadList(err, "--initial-cluster "+a.String()) {
		t.Fatalf("the store of a single server starts as one of two: %v", err)
	}
	g.start([]etcd.MemberAddress{a}, false, "a")
	defer g.end("a")
	g.state("a", func(by map[string]etcd.MemberState) bool { return by["a"].Peer == a.Peer })
	if err := g.members["a"].RemoveMember(t.Context(), "a"); err == nil {
		t.Error("the only member is removed")
	}
	list, err := g.members["a"].AddMember(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	g.start(list, true, "b")
	defer g.end("b")
	g.state("a", func(by map[string]etcd.MemberState) bool {
		return len(by) == 2 && !by["b"].Learner && by["b"].Reachable
	})
	r = campaign(t, newStore(t, g.members["b"].Backend(), store.Config{Memory: g.dirs["b"]}))
	if rows := r.Rows(); len(rows) != 1 || r.Restored() {
		t.Errorf("b loads %v, restored %v", rows, r.Restored())
	}
	if err := r.Resign(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestDirectoryOfAnotherMember: a member does not start in a directory that is not its own, nor with a list that is
// not that of its cluster, and each error has the remedy.
func TestDirectoryOfAnotherMember(t *testing.T) {
	g := newGroup(t, "a", "b", "c")
	for _, n := range []string{"a", "b", "c"} {
		g.end(n)
	}
	refused := func(dir string, p *etcd.Membership, want string) {
		t.Helper()
		f, err := datadir.Open(filepath.Join(g.dir, dir, "server"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		m, err := etcd.Start(t.Context(), f, etcd.MemberConfig{Membership: p})
		if err == nil {
			_ = m.Close()
		}
		if !isBadList(err, want) {
			t.Errorf("%s as %v: %v, want %q", dir, p, err, want)
		}
	}
	list := make([]string, 0, 3)
	for _, a := range g.list {
		list = append(list, a.String())
	}
	refused("a", nil, "start it with --initial-cluster")
	refused("a", nil, strings.Join(list, ","))
	refused("a", &etcd.Membership{Name: "b", Members: g.list}, "belongs to member a and not to b: set --name a")
	refused("a", &etcd.Membership{Name: "a", Members: []etcd.MemberAddress{g.list[0], {Name: "x", Peer: "127.0.0.1:9"}}},
		"belongs to another cluster")
	for _, path := range []string{filepath.Join(g.dir, "a", "server", "memo.json")} {
		if err := os.WriteFile(path, []byte(`{"memo":{"Cluster":"c"}}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(filepath.Join(g.dir, "a", "server", "etcd")); err != nil {
		t.Fatal(err)
	}
	refused("a", &etcd.Membership{Name: "a", Members: g.list}, "replace it")
}

// TestEmptyDirectoryOfAMember: a member whose directory is lost does not begin anew beside the others: it could have
// acknowledged entries that it no longer has.
func TestEmptyDirectoryOfAMember(t *testing.T) {
	g := newGroup(t, "a", "b", "c")
	g.end("c")
	if err := os.RemoveAll(filepath.Join(g.dir, "c")); err != nil {
		t.Fatal(err)
	}
	if err := g.open("c", g.list, false); !isBadList(err, "replace it") {
		t.Errorf("started with an empty directory: %v", err)
	}
	// It joins once it is added again.
	if err := g.open("c", g.list, true); err == nil {
		g.end("c")
		t.Error("joined without being added")
	}
	if err := g.members["a"].RemoveMember(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	list, err := g.members["a"].AddMember(t.Context(), g.list[2])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(g.dir, "c")); err != nil {
		t.Fatal(err)
	}
	g.start(list, true, "c")
	g.state("a", func(by map[string]etcd.MemberState) bool { return len(by) == 3 && !by["c"].Learner })
}

// TestUnbornMemberOfSeveral: a member of several that was killed in its first start is created again only while it has
// promised nothing to the others.
func TestUnbornMemberOfSeveral(t *testing.T) {
	g := newGroup(t, "a", "b", "c")
	g.end("c")
	dir := filepath.Join(g.dir, "c", "server")
	if err := os.WriteFile(filepath.Join(dir, "etcd.unborn"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(filepath.Join(dir, "etcd", "member", "wal"))
	if err != nil {
		t.Fatal(err)
	}
	g.start(g.list, false, "c")
	after, err := os.Stat(filepath.Join(dir, "etcd", "member", "wal"))
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("a member that has voted was created again: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "etcd.unborn")); err == nil {
		t.Error("the mark of a first start is left")
	}
}
