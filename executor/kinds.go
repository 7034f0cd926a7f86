package executor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"cantina/action"
	"cantina/internal/run"
)

// How often each kind of isolation is tested: soon again while one fails.
const (
	kindPeriod = time.Minute
	kindRetry  = 10 * time.Second
	kindLimit  = 10 * time.Second // of one test
)

// Withdrawn are the kinds of isolation that are not available, with the reason: those that the
// machine does not have, and those whose last test has failed.
func (k *kinds) Withdrawn() map[string]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.withdrawn)
}

// testKinds tests each kind of isolation in turn until ctx is done.
func (k *kinds) testKinds(ctx context.Context) error {
	for {
		pause := kindPeriod
		if k.testEach(ctx); len(k.Withdrawn()) > 0 {
			pause = kindRetry
		}
		if run.Pause(ctx, pause) != nil {
			return nil
		}
	}
}

// testEach tests each kind once. A cell that cannot run any container reports that elsewhere.
func (k *kinds) testEach(ctx context.Context) {
	program := action.Action{Run: &action.Run{Path: "/bin/true"}}
	root, rerr := k.testRoot()
	inRoot := action.Action{Run: &action.Run{Path: "/" + testProgram}}
	for _, x := range []struct {
		kind string
		w    action.Workload
		err  error
	}{
		{action.KindNamespaces, action.Workload{Action: program, Isolation: action.IsolationNamespaces}, nil},
		{action.KindOwnNet, action.Workload{Action: program, Isolation: action.IsolationNamespaces, OwnNet: true}, nil},
		{action.KindRootfs, action.Workload{Action: inRoot, Isolation: action.IsolationRootfs, Rootfs: root}, rerr},
	} {
		err := x.err
		if k.e.spaces == nil || os.Getuid() != 0 {
			err = errors.New("this machine has no namespaces for the cell")
		}
		if err == nil {
			err = k.testKind(ctx, x.kind, x.w)
		}
		if ctx.Err() != nil {
			return
		}
		k.noteKind(x.kind, err)
	}
}

// noteKind notes the outcome of a test.
func (k *kinds) noteKind(kind string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	was, out := k.withdrawn[kind]
	switch {
	case err == nil && out:
		delete(k.withdrawn, kind)
		k.e.log.Info("a kind of isolation is offered again", "kind", kind)
	case err != nil:
		k.withdrawn[kind] = err.Error()
		if was != err.Error() {
			k.e.log.Warn("a kind of isolation is withdrawn", "kind", kind, "reason", err)
		}
	}
}

// testKind runs a container of one kind, outside the ledger, as the probe does. If the cell can
// run no container of any kind now, the kind is not withdrawn.
func (k *kinds) testKind(ctx context.Context, kind string, w action.Workload) error {
	ctx, cancel := context.WithTimeout(ctx, kindLimit)
	defer cancel()
	k.e.mu.Lock()
	none := k.e.prober.groupless != nil || k.e.disk.Disk().Fault != nil
	k.e.prober.probes++
	id := fmt.Sprint(probePrefix, kind, "-", k.e.prober.probes)
	k.e.mu.Unlock()
	if none {
		return nil
	}
	r, err := k.e.prober.run(ctx, id, w)
	switch {
	case errors.Is(err, ErrClosed):
	case err != nil:
		return fmt.Errorf("its test took longer than %v", kindLimit)
	case r.Failed && !r.NotMade:
		return fmt.Errorf("its test failed: %s", r.Reason)
	}
	return nil
}

// testProgram is the only program of the root file system that is tested.
const testProgram = "test"

// testRoot is the directory of a root file system with one program in it.
func (k *kinds) testRoot() (string, error) {
	dir := k.e.path("test-root")
	if _, err := os.Stat(filepath.Join(dir, testProgram)); err == nil {
		return dir, nil
	}
	return dir, WriteExit0(dir, testProgram)
}

// Isolation describes the isolation of this machine, for the cell's state.
func (e *Executor) Isolation() []string {
	out := []string{e.backend.String()}
	if e.spaces == nil || os.Getuid() != 0 {
		return append(out, "no namespaces")
	}
	return append(out, "namespaces", "roots")
}
