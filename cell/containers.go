package cell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"cantina/action"
	"cantina/batch"
	"cantina/executor"
	"cantina/fence"
	"cantina/wire"
	"cantina/worker"
)

// containers has the cell's data about containers: the plan of a reserved one, and data that its
// executor does not have.
type containers struct {
	cfg  *Config
	log  *slog.Logger
	exec Executor

	plans      *table[plan]
	endReasons *table[string]
	unknown    *table[string] // why the leader's store does not contain the work of a container
}

// plan is the work of a reserved container.
type plan struct {
	workload *action.Workload
	domain   string
	env      []action.Variable
}

// forget removes the data of a container that is gone.
func (k *containers) forget(id string) {
	k.plans.drop(id)
	k.endReasons.drop(id)
	k.unknown.drop(id)
}

// keep removes the data of containers that are not here: the event of a deletion may be lost, and
// a reason may arrive after it.
func (k *containers) keep(here map[string]bool) {
	has := func(id string) bool { return here[id] }
	k.plans.keep(has)
	k.endReasons.keep(has)
	k.unknown.keep(has)
}

// stop begins to end a container, for a reason of the cell's own.
func (k *containers) stop(id, reason string) {
	k.endReasons.put(id, reason)
	k.warn("stop", id, k.exec.Stop(id))
}

// brief returns the labels and the state of a container. It is not inlined: a copy of a container in
// the frame of each caller makes the stack of every new goroutine grow.
//
//go:noinline
func (k *containers) brief(id string) (executor.Labels, executor.State, bool) {
	ct, ok := k.exec.Get(id)
	return ct.Labels, ct.State, ok
}

// statusOf is the scheduler's status of an ended batch container; it decodes it with
// wire.DecodeBatchEnd.
func (k *containers) statusOf(ct *executor.Container) (string, error) {
	r := ct.Result
	end := batch.Ended{ExitCode: r.ExitCode, Signal: r.Signal,
		Killed: r.Stopped || r.Expired, TimedOut: r.TimedOut, Reason: r.Reason}
	switch {
	case r.NotMade:
		end.Again = batch.AgainLater
	case k.interrupted(ct):
		end.Reason, end.Again = reasonDrained, batch.AgainNow
	}
	return wire.EncodeBatchEnd(end, r.Status)
}

// alive returns the containers of services that have not ended, and those of tasks, including ends
// that are not reported yet. While the session is NEW, as when it reports, none is started. cluster
// and term are those of the leader that it reports to.
func (k *containers) alive(cluster fence.Cluster, term fence.Term) (all []worker.Alive) {
	for _, ct := range k.exec.List() {
		l, ended := ct.Labels, ct.State == executor.Completed
		switch {
		case ct.State == executor.Reserved:
		case l[labelKind] == kindLRP && !ended:
			a := worker.Alive{ID: l[labelInstance], Bound: ct.DeadlineBound, Older: ofOlder(l, cluster, term)}
			if key, service, ok := keyOf(l); ok && l[labelExclusive] != "" {
				a.Process, a.Index, a.Domain, a.Service = key.Process, key.Index, service.Domain, service.Name
			}
			all = append(all, a)
		case l[labelKind] == kindTask:
			all = append(all, worker.Alive{ID: l[labelUID], Task: l[labelTask],
				Bound: ct.DeadlineBound, Older: ofOlder(l, cluster, term)})
		}
	}
	slices.SortFunc(all, func(a, b worker.Alive) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// interrupted reports whether a batch container was stopped because the cell is draining. A
// container that had ended on its own just before was not.
func (k *containers) interrupted(ct *executor.Container) bool {
	reason, ok := k.endReasons.get(ct.ID)
	return ok && reason == reasonDrained && ct.Result.Stopped
}

// live describes the remaining work of a drain.
func (k *containers) live() []string {
	var out []string
	for _, ct := range k.exec.List() {
		switch ct.Labels[labelKind] {
		case kindLRP, kindTask, kindBatch:
			out = append(out, describe(&ct))
		}
	}
	slices.Sort(out)
	return out
}

// atWhat is the phase in which a container that does not run yet has been for long.
func (k *containers) atWhat(ct *executor.Container) executor.Phase {
	if p := ct.Phase; p.What != "" && !ct.Ending && !ct.Decided && k.cfg.Clock.Boot()-p.Since >= executor.SlowPhase {
		return p
	}
	return executor.Phase{}
}

// nameless reports whether unidentified work of an earlier process of the directory survives: its
// end is not proven, and this process cannot hold it.
func (k *containers) nameless() bool {
	return slices.ContainsFunc(k.exec.List(), func(ct executor.Container) bool {
		return ct.Adopted && ct.Labels[labelKind] == "" && ct.State != executor.Completed
	})
}

// start runs a reserved container by its plan.
func (k *containers) start(ct *executor.Container) error {
	p, ok := k.plans.get(ct.ID)
	if !ok {
		return fmt.Errorf("container %s has no workload: %w", ct.ID, ErrUnknownContainer)
	}
	return k.exec.Start(ct.ID, executor.Spec{Workload: *p.workload, Domain: p.domain, Defaults: k.cfg.Env,
		Env: k.environment(p.workload, p.env)})
}

func (k *containers) delete(id string) { k.warn("delete", id, k.exec.Delete(id)) }

func (k *containers) has(id string) bool {
	_, ok := k.exec.Get(id)
	return ok
}

// environment is the environment of a container besides its workload's own variables, and the
// stronger part.
func (k *containers) environment(w *action.Workload, own []action.Variable) []action.Variable {
	var api []action.Variable
	if w.API {
		api = k.cfg.API
	}
	return slices.Concat(api, []action.Variable{{Name: "CANTINA_CELL", Value: string(k.cfg.Name)}}, own)
}

// interruptBatch stops every batch task: it runs again elsewhere, and no retry is counted.
func (k *containers) interruptBatch() {
	for _, ct := range k.exec.List() {
		if ct.Labels[labelKind] == kindBatch && ct.State != executor.Completed {
			k.stop(ct.ID, reasonDrained)
		}
	}
}

func (k *containers) warn(what, id string, err error) {
	if err != nil && !errors.Is(err, executor.ErrUnknown) {
		k.log.Log(context.Background(), slog.LevelWarn, "container", "what", what, "container", id, "error", err)
	}
}
