package mistake

import "cantina/internal/mutate"

// stores are mistakes of a leader's environment: transactions, effects after the commit, the
// lease. The simulator has its own form of these parts.
func stores() []Mistake {
	return []Mistake{
		{Name: "EffectBeforeCommit", Rule: "effects are performed before the commit",
			Args: "--load batch --faults unknown-commit,cut-link", Quiet: true, Patches: []mutate.Patch{
				patch("sim/term.go", "\tr.put(item{ops: r.opsOf(x.Ops), landed: done,",
					`	if mistake.On("EffectBeforeCommit", "ActBeforeCommit") && done != nil {
		landed := done
		done = nil
		r.s.later(0, func() { landed(r.revision, nil) })
	}
	r.put(item{ops: r.opsOf(x.Ops), landed: done,`),
			}},
		{Name: "ActBeforeCommit", Rule: "answers and effects of services and tasks go out before the commit",
			Args: "--load mixed"},
		{Name: "SameLease", Rule: "a server campaigns again on the lease of its last term", Args: "--load batch", Quiet: true,
			Patches: []mutate.Patch{
				patch("sim/store.go", "\tif !s.free() {\n\t\treturn fence.Term{}, false\n\t}\n\ts.revision++\n",
					`	if mistake.On("SameLease") && s.lease == server && s.term.Epoch == s.epoch && !s.term.IsZero() {
		s.leaseID, s.expires = id, s.w.now+leaseTTL
		return s.term, true
	}
	if !s.free() {
		return fence.Term{}, false
	}
	s.revision++
`),
			}},
		{Name: "SplitTransition", Rule: "a transition is committed in two halves", Args: "--load batch", Quiet: true,
			Patches: []mutate.Patch{
				patch("sim/server.go",
					"\tw, s := r.s.w, r.s\n\tw.after(w.between(time.Millisecond, 10*time.Millisecond), func() {\n\t\tunknown :=",
					`	w, s := r.s.w, r.s
	half := len(all)
	if mistake.On("SplitTransition") && half > 1 {
		half = 1 + w.rng.IntN(half-1)
	}
	w.after(w.between(time.Millisecond, 10*time.Millisecond), func() {
		unknown :=`),
				patch("sim/server.go", "ok := !lost && w.store.commit(s.id, r.id, r.term, all)\n\t\trevision := w.store.revision\n",
					`ok := !lost && w.store.commit(s.id, r.id, r.term, all[:half])
		revision := w.store.revision
		if ok && half < len(all) {
			r.transact(all[half:], done)
			return
		}
`),
			}},
	}
}

// executors are mistakes of executors, and of a successor's report about the containers of its
// predecessor. The simulator has its own executor.
func executors() []Mistake {
	return []Mistake{
		{Name: "GateStaysOpen", Rule: "the gate of a job stays open when the job before it runs again",
			Args: "--load batch --jobs 5", By: "gate", Patches: []mutate.Patch{
				patch("scheduler/gate.go", "\t\t\tj.forest.board.SetGate(name, g)\n",
					`			if mistake.On("GateStaysOpen") && !was.Shut && !was.Never {
				continue
			}
			j.forest.board.SetGate(name, g)
`),
			}},
		{Name: "StuckReportedGone", Rule: "what was killed and does not die is taken for ended",
			Args: "--load mixed --faults hang-work,change-service,change-task,drain", Patches: []mutate.Patch{
				patch("sim/grip.go", "\tunseen bool\n}\n", "\tunseen bool\n\tfaked  bool\n}\n"),
				patch("sim/unit.go", "\t\t\tcs.stick(&u.grip, u.snapshot, func() bool { return !u.orphan })\n",
					`			cs.stick(&u.grip, u.snapshot, func() bool { return !u.orphan })
			if mistake.On("StuckReportedGone") && !u.orphan && u.state != completed {
				cs.complete(u)
			}
`),
				patch("sim/unit.go", "\tcs.report(executor.EventDeleted, u)\n", `	cs.report(executor.EventDeleted, u)
	if mistake.On("StuckReportedGone") && u.alive {
		u.orphan = true
		return
	}
`),
				patch("sim/container.go", "\t\t\tcs.stick(&c.grip, c.snapshot, func() bool { return !c.orphan })\n",
					`			cs.stick(&c.grip, c.snapshot, func() bool { return !c.orphan })
			if mistake.On("StuckReportedGone") && !c.orphan && !c.faked {
				c.faked, c.status = true, "killed"
				cs.m.happened(executor.Event{Kind: executor.EventCompleted, Container: c.snapshot()})
			}
`),
				patch("sim/container.go", "\tif !c.alive {\n\t\tct.State", "\tif !c.alive || c.faked {\n\t\tct.State"),
				patch("sim/engine.go", "\t\tif c.alive {\n\t\t\tc.deleting", "\t\tif c.alive && !c.faked {\n\t\t\tc.deleting"),
			}},
		{Name: "StuckForgotten", Rule: "a new process of a cell takes what it could not end for gone",
			Args: "--load mixed --faults hang-work,kill-agent,delete-job", Patches: []mutate.Patch{
				patch("sim/unit.go", "\t\tcase c.orphan && c.held && c.alive && !c.extra:\n",
					`		case c.orphan && c.held && c.alive && !c.extra:
			if mistake.On("StuckForgotten") {
				continue
			}
`),
				patch("sim/unit.go", "\t\tcase u.orphan && u.held && u.alive:\n", `		case u.orphan && u.held && u.alive:
			if mistake.On("StuckForgotten") {
				continue
			}
`),
			}},
		{Name: "StuckDiesWithItsProcess",
			Rule: "what a successor reports of the containers of services and tasks is not heard",
			Args: "--load mixed --faults hang-work,kill-agent,change-task", Patches: []mutate.Patch{
				patch("sim/calls.go", "\t\tgot, err := to.GetRunningTasks(ctx, q)\n", `		got, err := to.GetRunningTasks(ctx, q)
		if mistake.On("StuckDiesWithItsProcess") {
			got.Alive = nil
		}
`),
			}},
	}
}

// quieter are patches of the checks that quiet mistakes leave out.
func quieter() []mutate.Patch {
	return []mutate.Patch{
		patch("sim/contract.go", "if p.m.agent.Accepts(p.m.local()) == nil {",
			"if !mistake.Quiet() && p.m.agent.Accepts(p.m.local()) == nil {"),
		patch("sim/contract.go", "if p.credited == 0 {\n\t\treturn", "if p.credited == 0 || mistake.Quiet() {\n\t\treturn"),
		patch("sim/contract.go", "func (p *promises) starting() {\n",
			"func (p *promises) starting() {\n\tif mistake.Quiet() {\n\t\treturn\n\t}\n"),
		patch("sim/contract_leader.go", "func (r *leadership) contract(s seen, e worker.Event, out worker.Output) {\n",
			"func (r *leadership) contract(s seen, e worker.Event, out worker.Output) {\n\tif mistake.Quiet() {\n"+
				"\t\treturn\n\t}\n"),
		patch("sim/contract_leader.go", "func (r *leadership) explains(q worker.Request) {\n",
			"func (r *leadership) explains(q worker.Request) {\n\tif mistake.Quiet() {\n\t\treturn\n\t}\n"),
	}
}
