package etcd_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cantina/internal/run"
	"cantina/store"
	"cantina/store/datadir"
	"cantina/store/etcd"
	"cantina/store/etcdtest"
)

// The tests of this file run the test program again as a child. The child leads and commits, and kills itself with
// SIGKILL at a named point.

const childEnv = "CANTINA_STORE_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childEnv) {
	case "":
		os.Exit(m.Run())
	case "count":
		os.Exit(say(countingChild()))
	case "fill":
		os.Exit(say(fillingChild()))
	}
}

func say(err error) int {
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	return 0
}

// deadly kills the process at the n-th passing of a point.
type deadly struct {
	store.Backend
	point string
	mu    sync.Mutex
	n     int
}

func (d *deadly) at(point string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if point != d.point {
		return
	}
	if d.n--; d.n == 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

func (d *deadly) Grant(ctx context.Context, ttl time.Duration) (store.LeaseID, time.Duration, error) {
	d.at("before grant")
	defer d.at("after grant")
	return d.Backend.Grant(ctx, ttl)
}

// kind names a transaction by the rows it writes.
func kind(t store.Txn) string {
	head, election := false, false
	for _, w := range t.Then {
		head = head || w.Key == "cantina/head"
		election = election || w.Key == "cantina/election"
	}
	switch {
	case head && election:
		return "win"
	case election:
		return "election"
	}
	return "commit"
}

func (d *deadly) Txn(ctx context.Context, t store.Txn) (store.TxnAnswer, error) {
	d.at("before " + kind(t))
	defer d.at("after " + kind(t))
	return d.Backend.Txn(ctx, t)
}

func (d *deadly) Range(ctx context.Context, q store.Query) (store.Page, error) {
	if strings.HasPrefix(q.From, "cantina/row/") {
		d.at("load")
	}
	return d.Backend.Range(ctx, q)
}

// points are the moments at which a leader may die: around each call to the store, and between a commit and its
// effect.
var points = []string{
	"before grant", "after grant", "before election", "after election", "before win", "after win", "load",
	"before commit", "after commit", "before effect", "after effect",
}

// countingChild leads, prints the state that it found, and counts: each number is one transition of two rows,
// followed by its effect, a line.
func countingChild() error {
	f, err := datadir.Open(os.Getenv("CHILD_DIR"))
	if err != nil {
		return err
	}
	var b store.Backend
	if endpoint := os.Getenv("CHILD_ETCD"); endpoint != "" {
		c, err := etcd.Dial(etcd.ClusterConfig{Endpoints: []string{endpoint}})
		if err != nil {
			return err
		}
		b = c.Backend()
	} else {
		m, err := etcd.Start(context.Background(), f, etcd.MemberConfig{})
		if err != nil {
			return err
		}
		b = m.Backend()
	}
	n, _ := strconv.Atoi(os.Getenv("CHILD_N"))
	ttl, err := time.ParseDuration(os.Getenv("CHILD_TTL"))
	if err != nil {
		return err
	}
	d := &deadly{Backend: b, point: os.Getenv("CHILD_POINT"), n: n}
	s, err := store.New(d, store.Config{Clock: run.Kernel(), Memory: f, LeaseTTL: ttl, KeepAlive: 200 * time.Millisecond})
	if err != nil {
		return err
	}
	r, err := s.Campaign(context.Background(), store.Candidate{ID: "child"})
	if err != nil {
		return err
	}
	last, err := counted(r.Rows())
	if err != nil {
		return err
	}
	fmt.Println("led", r.Term(), last)
	for i := last + 1; i <= last+1000; i++ {
		v := []byte(strconv.Itoa(i))
		done := make(chan error)
		r.Submit(store.Transition{Ops: []store.Op{{Key: "count/a", Value: v}, {Key: "count/b", Value: v}}},
			func(_ int64, err error) { done <- err })
		if err := <-done; err != nil {
			return err
		}
		d.at("before effect")
		fmt.Println("effect", i)
		d.at("after effect")
	}
	return errors.New("survived")
}

// counted returns the number that both rows hold.
func counted(rows []store.Row) (int, error) {
	if len(rows) == 0 {
		return 0, nil
	}
	if len(rows) != 2 || string(rows[0].Value) != string(rows[1].Value) {
		return 0, fmt.Errorf("half a transition: %v", rows)
	}
	return strconv.Atoi(string(rows[0].Value))
}

// life has the lines of one child before its end.
type life struct {
	led    bool
	term   string
	loaded int
	effect int // the last one; -1 when there was none
	err    string
	killed bool
}

func runChild(t *testing.T, env ...string) life {
	t.Helper()
	return runChildUntil(t, t.Context(), env...)
}

// runChildUntil kills the child when ctx is done.
func runChildUntil(t *testing.T, ctx context.Context, env ...string) life {
	t.Helper()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	l := life{effect: -1}
	if err := cmd.Start(); err != nil {
		if ctx.Err() != nil {
			return l
		}
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "led":
			l.led = true
			if _, err := fmt.Sscan(rest, &l.term, &l.loaded); err != nil {
				t.Fatal(err)
			}
		case "effect":
			if n, err := strconv.Atoi(rest); err == nil { // the last line may be torn
				l.effect = max(l.effect, n)
			}
		case "error":
			l.err = rest
		}
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		l.killed = exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
	}
	return l
}

// A leader on an embedded store is killed at every point, again and again on the same directory. No effect is lost
// and no transition is half. The next one leads at once though the lease of the dead one has a minute to live.
func TestKilledAtNamedPoints(t *testing.T) {
	dir := t.TempDir()
	f, err := datadir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	low, high := 0, 0 // the least and the most that the store must hold
	lastTerm := ""
	hits := make(map[string]int)
	for round := range times() {
		for _, point := range points {
			n := 1
			if strings.Contains(point, "commit") || strings.Contains(point, "effect") {
				n = 1 + round%5
			}
			l := runChild(t, childEnv+"=count", "CHILD_DIR="+dir, "CHILD_POINT="+point, fmt.Sprint("CHILD_N=", n),
				"CHILD_TTL=60s")
			if !l.killed {
				t.Fatalf("%s: not killed: %+v", point, l)
			}
			hits[point]++
			if !l.led {
				continue
			}
			if l.loaded < low || l.loaded > high {
				t.Fatalf("%s: loaded %d, want %d to %d", point, l.loaded, low, high)
			}
			if lastTerm != "" && !grows(t, lastTerm, l.term) {
				t.Fatalf("%s: term %s after %s", point, l.term, lastTerm)
			}
			lastTerm = l.term
			low = max(l.loaded, l.effect)
			high = low + 1 // committed, but killed before its effect
		}
	}
	for _, point := range points {
		if hits[point] != times() {
			t.Errorf("%s was hit %d times", point, hits[point])
		}
	}
	t.Logf("%d kills, %s each", times()*len(points), time.Since(start)/time.Duration(times()*len(points)))
}

// A leader on an operator's etcd is killed while another server stands by: it takes
// over when the lease has run out, and finds every effect.
func TestStandByTakesOverFromTheDead(t *testing.T) {
	server := etcdtest.Start(t)
	for i := range times() {
		point := []string{"after commit", "before effect", "before commit"}[i%3]
		l := runChild(t, childEnv+"=count", "CHILD_DIR="+t.TempDir(), "CHILD_ETCD="+server.Endpoint, "CHILD_POINT="+point,
			"CHILD_N=5", "CHILD_TTL=2s")
		if !l.killed || !l.led || l.effect < 4 {
			t.Fatalf("%+v", l)
		}
		died := time.Now()
		r := campaign(t, newStore(t, server.Dial(t), store.Config{}))
		if waited := time.Since(died); waited > 30*time.Second {
			t.Errorf("took over after %s", waited)
		}
		got, err := counted(r.Rows())
		if err != nil || got < l.effect || got > l.effect+1 || !grows(t, l.term, r.Term().String()) {
			t.Fatalf("found %d, %v, in term %s; the dead one: %+v", got, err, r.Term(), l)
		}
		if err := r.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// A child is killed at a seeded moment of its life on a new directory, its very first
// start included: the directory can always be started again, and holds every effect.
func TestKilledAtAnyMomentOfTheFirstStart(t *testing.T) {
	seed := time.Now().UnixNano()
	rng := rand.New(rand.NewSource(seed))
	early := 0
	for range 4 * times() {
		dir := filepath.Join(t.TempDir(), "data")
		moment := time.Duration(20+rng.Intn(200)) * time.Millisecond
		ctx, cancel := context.WithTimeout(t.Context(), moment)
		l := runChildUntil(t, ctx, childEnv+"=count", "CHILD_DIR="+dir, "CHILD_TTL=60s")
		cancel()
		if !l.led {
			early++
		}
		f, err := datadir.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		start, cancel := context.WithTimeout(t.Context(), time.Minute)
		m, err := etcd.Start(start, f, etcd.MemberConfig{})
		cancel()
		if err != nil {
			t.Fatalf("killed after %s (seed %d): %v", moment, seed, err)
		}
		r := campaign(t, newStore(t, m.Backend(), store.Config{Memory: f}))
		got, err := counted(r.Rows())
		if err != nil || got < l.effect || got > max(0, l.effect)+1 {
			t.Fatalf("killed after %s (seed %d): found %d, %v; the dead one: %+v", moment, seed, got, err, l)
		}
		if err := r.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		stopMember(t, m, f)
	}
	t.Logf("%d kills, %d before the first term", 4*times(), early)
}
