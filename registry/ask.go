package registry

import (
	"time"

	"cantina/batch"
	"cantina/fence"
	"cantina/worker"
)

func (r *Registry) now() time.Duration { return r.cfg.Clock.Boot() }

// Term returns the term of the leader.
func (r *Registry) Term() fence.Term { return r.cfg.Worker.Term }

// MayRun reports whether a batch task may run anywhere, and if not why.
func (r *Registry) MayRun(q worker.Request) (worker.Hold, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leader.MayRun(r.now(), q)
}

// StartBatch starts a batch task on q.Cell if it may: the invocation enters the model. After
// everything before it is durable, the result of payload is sent to the cell. payload gets the
// invocation before it is assigned, and may refuse it: then nothing has started, HoldVetoed is
// returned, and the next start gets this invocation. No start comes between the two.
func (r *Registry) StartBatch(q worker.Request, payload func(fence.Invocation) (p batch.Payload, ok bool)) (fence.Invocation, worker.Hold, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over != nil {
		return fence.Invocation{}, worker.Hold{Reason: worker.HoldDeposed}, false
	}
	now := r.now()
	if h, ok := r.leader.MayStart(now, q); !ok {
		return fence.Invocation{}, h, false
	}
	p, ok := payload(r.leader.NextInvocation())
	if !ok {
		return fence.Invocation{}, worker.Hold{Reason: worker.HoldVetoed}, false
	}
	inv, out, err := r.leader.RunBatch(now, q)
	if err != nil { // it may start, according to a check under the same lock
		r.log.Error("start refused although it was allowed", "job", q.Work.Job, "node", q.Work.Node, "error", err)
		return fence.Invocation{}, worker.Hold{Reason: worker.HoldVetoed}, false
	}
	r.payloads[inv] = &p
	r.submit(out)
	return inv, worker.Hold{}, true
}

// Kill ends an invocation; repeated until it has ended.
func (r *Registry) Kill(x worker.Run) { r.step(worker.KillWanted{Run: x}) }

// StatusCommitted acknowledges an end that the scheduler received.
func (r *Registry) StatusCommitted(x worker.Run, kind worker.Synthetic) {
	r.step(worker.StatusCommitted{Run: x, Kind: kind})
}

// Running returns the possibly running invocations of one batch task.
func (r *Registry) Running(w worker.Work) []worker.RunView {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leader.Running(w)
}

// Model returns everything that may be running.
func (r *Registry) Model() []worker.RunView {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leader.Model()
}

// Live returns how many invocations may be running.
func (r *Registry) Live() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leader.Live()
}

// Adopted counts the invocations that reports have brought into the model so far.
func (r *Registry) Adopted() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leader.Adopted()
}

// OnCell counts the batch tasks that may be running on a cell, those on their way to it too.
func (r *Registry) OnCell(cell worker.CellName) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leader.OnCell(cell)
}

// Idle reports that nothing of a job can be running any more.
func (r *Registry) Idle(job string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leader.Idle(job)
}

// MayStart reports whether a cell process may be given work of any kind.
func (r *Registry) MayStart(cell, proc string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, ok := r.leader.MayReceive(worker.CellName(cell))
	return ok && h.Proc == worker.Proc(proc)
}

// MayLive returns the processes of a cell that are not certainly dead, in order.
func (r *Registry) MayLive(cell string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, p := range r.leader.MayLive(worker.CellName(cell)) {
		out = append(out, string(p))
	}
	return out
}

// Alive names the containers of services and tasks that a process has reported.
func (r *Registry) Alive(proc string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leader.Alive(worker.Proc(proc))
}

// Receives returns why a cell may not get work now; an empty reason means that it may.
func (r *Registry) Receives(cell worker.CellName) (worker.Proc, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, ok := r.leader.MayReceive(cell)
	if ok {
		return h.Proc, ""
	}
	return h.Proc, h.Reason.String()
}

// Stale reports whether rows may be older than the cells' work. This is so for a store that went
// back, during the initial wait. If the cells' sets have ended that, it is so for as long as work
// without a row may live.
func (r *Registry) Stale() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, stale := r.leader.Waits()
	return stale
}

// Waits reports that the initial wait is on.
func (r *Registry) Waits() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	active, _ := r.leader.Waits()
	return active
}

// Wait describes the initial wait.
func (r *Registry) Wait() worker.WaitView {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leader.Wait(r.now())
}

// Session returns the process that holds a cell's name.
func (r *Registry) Session(cell worker.CellName) (worker.SessionView, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leader.Session(r.now(), cell)
}

// Process returns a process that is known, whether it holds its cell's name or not.
func (r *Registry) Process(proc worker.Proc) (worker.SessionView, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leader.Process(r.now(), proc)
}

// Sessions returns every cell process that is known.
func (r *Registry) Sessions() []worker.SessionView {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leader.Sessions(r.now())
}

// IsBack reports whether a process has reported its work in this term, and is HEALTHY.
func (r *Registry) IsBack(proc worker.Proc) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leader.IsBack(proc)
}

// IsDead reports that a process is certainly dead.
func (r *Registry) IsDead(proc worker.Proc) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leader.IsDead(proc)
}

// EndWait is an operator's end of the initial wait; double starts are accepted.
func (r *Registry) EndWait(by string) error { return r.operator(worker.EndWait{By: by}) }

// Adopt lets a cell of another cluster join this one, by an operator's request.
func (r *Registry) Adopt(name worker.CellName, by string) error {
	return r.operator(worker.AdoptWanted{Cell: name, By: by})
}

// RefusedTerms is how many messages with an impossible term were refused in this term.
func (r *Registry) RefusedTerms() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leader.RefusedTerms()
}

// Forget declares a process dead, by an operator's request. worker.ErrUnknownProcess if the id is
// unknown.
func (r *Registry) Forget(proc worker.Proc, by string) error {
	return r.operator(worker.Forget{Proc: proc, By: by})
}

func (r *Registry) operator(e worker.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over != nil {
		return r.over
	}
	out, err := r.take(e)
	if err != nil {
		return err
	}
	r.submit(out)
	return nil
}

// Members returns the ids of the processes that may be alive.
func (r *Registry) Members() []string {
	var out []string
	for _, s := range r.Sessions() {
		if !s.Dead {
			out = append(out, string(s.Proc))
		}
	}
	return out
}
