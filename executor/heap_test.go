package executor

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"cantina/action"
	"cantina/image"
	"cantina/image/cache"
	"cantina/internal/heaptest"
	"cantina/internal/run"
	"cantina/logstore"
)

// churned is an executor whose containers start and end, each under a name of its own.
type churned struct {
	*Executor
	t    *testing.T
	skew atomic.Int64 // of the clock of the stored output
}

func newChurned(t *testing.T, change func(*Config)) *churned {
	c := &churned{t: t}
	clock := run.Kernel()
	clock.Wall = func() time.Time { return time.Now().Add(time.Duration(c.skew.Load())) }
	c.Executor = testExecutor(t, func(cfg *Config) {
		cfg.Output = logstore.Config{RetainAge: time.Minute, Clock: clock}
		if change != nil {
			change(cfg)
		}
	})
	return c
}

// each runs containers side by side to their ends and deletes them.
func (c *churned) each(round, n int, spec func(i int) (Reservation, Spec)) {
	c.t.Helper()
	var ids []string
	for i := range n {
		r, s := spec(round*n + i)
		r.ID = fmt.Sprintf("c%d-%d", round, i)
		if err := c.Launch(r, s); err != nil {
			c.t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	for _, id := range ids {
		await(c.t, c.Executor, id, completed)
		c.Delete(id)
		await(c.t, c.Executor, id, gone)
	}
	c.awaitDrivers()
}

// awaitDrivers waits until no output of removed containers is kept.
func (c *churned) awaitDrivers() {
	for range 3 {
		c.skew.Add(int64(time.Hour))
		c.out.Expire()
	}
}

// TestMemoryIsFreed: removed containers leave nothing in the cell's memory. It covers each way to make, to end and
// to read them.
func TestMemoryIsFreed(t *testing.T) {
	if testing.Short() {
		t.Skip("make test runs it")
	}
	for name, churn := range churns() {
		modes := []CgroupMode{CgroupAuto}
		if slices.Contains([]string{"programs", "steps", "probes"}, name) { // the tracking differs
			modes = append(modes, CgroupNone)
		}
		for _, groups := range modes {
			t.Run(strings.ReplaceAll(fmt.Sprintf("%s %s", name,
				map[CgroupMode]string{CgroupAuto: "in groups", CgroupNone: "without groups"}[groups]), " ", "-"),
				func(t *testing.T) {
					if !heaptest.Child(t) {
						return
					}
					c := newChurned(t, func(cfg *Config) {
						cfg.Cgroups, cfg.Cache, cfg.Image = groups, cache.Config{MaxBytes: 64 << 10}, image.Config{MaxBytes: 16 << 20}
					})
					h := churn(c)
					h.Quiesce = c.awaitDrivers
					heaptest.Levels(t, h)
				})
		}
	}
}

func churns() map[string]func(c *churned) heaptest.Config {
	return map[string]func(c *churned) heaptest.Config{
		"programs":  singlePrograms,
		"steps":     steps,
		"refused":   refused,
		"ended":     ended,
		"downloads": downloads,
		"probes":    probes,
		"followers": followers,
		"isolated":  isolated,
		"images":    images,
		"kept":      keptOnes,
	}
}

// singlePrograms are such, bound and free, that print and end well or not.
func singlePrograms(c *churned) heaptest.Config {
	return heaptest.Config{Things: 16, Rounds: 3, Warm: 2, Round: func(round int) {
		c.each(round, 16, func(i int) (Reservation, Spec) {
			s := sh(fmt.Sprintf("echo out %d; echo err >&2; exit %d", i, i%3))
			s.Workload.Ports = []action.Port{{Name: "web"}}
			return Reservation{DeadlineBound: i%2 == 0, Labels: Labels{"task": fmt.Sprint("t", i)}}, s
		})
	}}
}

// steps are containers of several programs: a setup, a row of them, a sidecar and checks.
func steps(c *churned) heaptest.Config {
	return heaptest.Config{Things: 6, Rounds: 3, Warm: 2, Round: func(round int) {
		c.each(round, 6, func(i int) (Reservation, Spec) {
			setup, look := do("echo setup"), &action.Run{Path: "/bin/true"}
			check := []action.Check{{Exec: look, StartupInterval: 5 * time.Millisecond, Interval: 5 * time.Millisecond,
				Timeout: time.Minute}}
			w := action.Workload{Setup: &setup, Action: action.Action{Serial: []action.Action{do("echo 1"),
				do("echo 2 > result"), do("sleep 0.05; exit 1")}},
				Sidecars: []action.Action{do("sleep 1000")}, Checks: check, ReadinessChecks: check, ResultFile: "result"}
			if i%2 == 0 {
				w.Monitor, w.Checks = &action.Action{Run: look}, nil
			}
			return Reservation{}, Spec{Workload: w}
		})
	}}
}

// refused are containers that never run a program.
func refused(c *churned) heaptest.Config {
	return heaptest.Config{Things: 16, Rounds: 3, Warm: 2, Round: func(round int) {
		c.each(round, 16, func(i int) (Reservation, Spec) {
			s := sh("true")
			switch r := s.Workload.Action.Run; i % 4 {
			case 0:
				r.Path = "/no/such/program"
			case 1:
				r.Dir = "/no/such/directory"
			case 2:
				r.User = "no-such-user"
			case 3:
				s.Workload.Setup = &action.Action{Download: &action.Download{From: "file:///no/such/file", To: "x",
					AllowUnpinned: true}}
			}
			return Reservation{DeadlineBound: i%2 == 0}, s
		})
	}}
}

// ended are containers that are stopped, killed or deleted while they run, or before.
func ended(c *churned) heaptest.Config {
	return heaptest.Config{Things: 12, Rounds: 3, Warm: 2, Round: func(round int) {
		for i := range 12 {
			id := fmt.Sprintf("c%d-%d", round, i)
			if err := c.Reserve(Reservation{ID: id, Expires: time.Hour, DeadlineBound: i%2 == 0}); err != nil {
				c.t.Fatal(err)
			}
			if i%4 > 0 {
				if err := c.Start(id, sh("sleep 1000 & sleep 1000")); err != nil {
					c.t.Fatal(err)
				}
				await(c.t, c.Executor, id, runningState)
			}
			switch i % 4 {
			case 1:
				c.Stop(id)
			case 2:
				c.Kill(id, "for the test")
			}
			c.Delete(id)
		}
		for i := range 12 {
			await(c.t, c.Executor, fmt.Sprintf("c%d-%d", round, i), gone)
		}
	}}
}

// downloads are files that no other container uses; the cache has room for a few.
func downloads(c *churned) heaptest.Config {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"`+r.URL.Path+`"`)
		fmt.Fprint(w, strings.Repeat(r.URL.Path, 1<<10))
	}))
	c.t.Cleanup(server.Close)
	dir := tempDir(c.t)
	return heaptest.Config{Things: 9, Rounds: 3, Warm: 4, Round: func(round int) {
		c.each(round, 9, func(i int) (Reservation, Spec) {
			path := fmt.Sprintf("/f%08d", i)
			d := action.Download{From: server.URL + path, To: "in", AllowUnpinned: i%3 == 0}
			if i%3 > 0 {
				d.ChecksumAlgorithm, d.ChecksumValue = "sha256",
					fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Repeat(path, 1<<10))))
			}
			if i%3 == 2 {
				d.From = "file://" + filepath.Join(dir, path)
				if err := os.WriteFile(filepath.Join(dir, path), []byte(strings.Repeat(path, 1<<10)), 0o644); err != nil {
					c.t.Fatal(err)
				}
			}
			return Reservation{}, Spec{Workload: action.Workload{Setup: &action.Action{Download: &d}, Action: do("true")}}
		})
	}}
}

// probes are of the cell itself: some end well, some are given up before they end.
func probes(c *churned) heaptest.Config {
	return heaptest.Config{Things: 8, Rounds: 4, Warm: 2, Round: func(int) {
		for i := range 8 {
			ctx, cancel := context.WithCancel(context.Background())
			if i%2 == 0 {
				cancel()
			}
			_ = c.Probe(ctx) // a slow machine may fail one
			_ = c.testKind(ctx, action.KindNamespaces, sh("true").Workload)
			cancel()
		}
		c.drivers.Wait()
	}}
}

// followers read the output of containers while they run: to the end, until they are cut off,
// and one of all containers all the time.
func followers(c *churned) heaptest.Config {
	ctx, cancel := context.WithCancel(context.Background())
	all := make(chan error, 1)
	go func() {
		all <- c.out.Follow(ctx, logstore.Query{Labels: map[string]string{"service": "web"}},
			func(logstore.Line) error { return nil })
	}()
	c.t.Cleanup(func() { cancel(); <-all })
	return heaptest.Config{Things: 16, Rounds: 3, Warm: 8, Round: func(round int) {
		done := make(chan error, 32)
		for i := range 32 {
			ctx, cancel := context.WithCancel(context.Background())
			go func() {
				defer cancel()
				done <- c.out.Follow(ctx, logstore.Query{IDs: []string{fmt.Sprintf("c%d-%d", round, i/2)}, UntilEnd: i%3 == 0},
					func(logstore.Line) error {
						cancel()
						return nil
					})
			}()
		}
		c.each(round, 16, func(i int) (Reservation, Spec) {
			return Reservation{Labels: Labels{"service": "web", "index": "0"}}, sh("echo hello")
		})
		for range 32 {
			<-done
		}
	}}
}

// isolated are containers in namespaces, with a network of their own or without, and over a
// directory as their root.
func isolated(c *churned) heaptest.Config {
	needRoot(c.t)
	root := smallRoot(c.t)
	return heaptest.Config{Things: 9, Rounds: 3, Warm: 2, Round: func(round int) {
		c.each(round, 9, func(i int) (Reservation, Spec) {
			s := sh(fmt.Sprintf("echo out; exit %d", i%2))
			if s.Workload.Isolation = action.IsolationNamespaces; i%3 == 2 {
				s.Workload.Isolation, s.Workload.Rootfs = action.IsolationRootfs, root
			}
			s.Workload.OwnNet = i%3 == 1
			return Reservation{DeadlineBound: i%2 == 0}, s
		})
	}}
}

// images are roots of images that make room for one another, by file and by a digest that is not there.
func images(c *churned) heaptest.Config {
	needRoot(c.t)
	ref, err := name.ParseReference("small:latest")
	if err != nil {
		c.t.Fatal(err)
	}
	dir := tempDir(c.t)
	var files []string
	for i := range 4 {
		img, err := mutate.AppendLayers(smallImage(c.t), layer(c.t, func(w *tar.Writer) error {
			return w.WriteHeader(&tar.Header{Name: fmt.Sprint("etc/n", i), Mode: 0o644})
		}))
		if err != nil {
			c.t.Fatal(err)
		}
		files = append(files, filepath.Join(dir, fmt.Sprint(i, ".tar")))
		if err := tarball.WriteToFile(files[i], ref, img); err != nil {
			c.t.Fatal(err)
		}
	}
	return heaptest.Config{Things: 5, Rounds: 2, Warm: 2, Round: func(round int) {
		c.each(round, 5, func(i int) (Reservation, Spec) {
			s := sh("true")
			s.Workload.Isolation = action.IsolationRootfs
			if s.Workload.Rootfs = filepath.Join(dir, "none.tar"); i%5 < 4 {
				s.Workload.Rootfs = files[i%5]
			}
			return Reservation{}, s
		})
	}}
}

// keptOnes are programs that would outlive the cell: they end, are stopped, or never run.
func keptOnes(c *churned) heaptest.Config {
	return heaptest.Config{Things: 8, Rounds: 3, Warm: 2, Round: func(round int) {
		for i := range 8 {
			s := sh(fmt.Sprintf("echo out; exit %d", i%3))
			switch i % 4 {
			case 1:
				s = sh("echo up; sleep 1000")
			case 2:
				s = Spec{Workload: action.Workload{Action: action.Action{Run: &action.Run{Path: "/no/such"}}}}
			}
			id := fmt.Sprintf("c%d-%d", round, i)
			if err := c.Launch(Reservation{ID: id, Labels: Labels{"service": "web", "index": "0"}}, keep(s)); err != nil {
				c.t.Fatal(err)
			}
			if i%4 == 1 {
				await(c.t, c.Executor, id, runningState)
				c.Stop(id)
			}
		}
		for i := range 8 {
			id := fmt.Sprintf("c%d-%d", round, i)
			await(c.t, c.Executor, id, completed)
			c.Delete(id)
			await(c.t, c.Executor, id, gone)
		}
		c.awaitDrivers()
	}}
}
