package mistake

import "cantina/internal/mutate"

// sessions are mistakes of the leader's side of the worker protocol.
func sessions() []Mistake {
	return []Mistake{
		{Name: "PartialConsensus", Rule: "the wait ends when the connected cells agree, whoever is missing",
			Args:   "--load batch",
			Search: "tasks 1, restart 1, time 1", Quiet: true, Patches: []mutate.Patch{
				patch("worker/leader_wait.go", "\tif iw.agreed() {\n", `	if mistake.On("PartialConsensus") && iw.partial() {
		iw.endWait(AuditWaitEnded, "the connected cells agree")
		return
	}
	if iw.agreed() {
`),
				patch("worker/leader_wait.go", "func (iw *waiting) endWait(", `func (iw *waiting) partial() bool {
	if iw.sessions.set != nil {
		return iw.sessions.set.Agree()
	}
	some := false
	for _, p := range iw.order {
		if p.connected && p.health.State == New {
			return false
		}
		some = some || p.connected
	}
	return some
}

func (iw *waiting) endWait(`),
				patch("workerset/tracker.go", "// Permits reports", `// Agree reports that all that live first showed the same set.
func (t *Tracker) Agree() bool { return t.unshown == 0 && len(t.initial) == 1 }

// Permits reports`),
			}},
		{Name: "CreditWithoutLease", Rule: "credit is given without a check of the lease",
			Args: "--load batch --faults cut-store,pause-server,pause-agent", Quiet: true, Patches: []mutate.Patch{
				patch("worker/leader_beat.go", "if lease &&", `if (lease || mistake.On("CreditWithoutLease")) &&`),
			}},
		{Name: "CreditBeforeRecord", Rule: "credit is given to a process whose adopted work is not recorded",
			Args: "--load batch --faults cut-calls,kill-agent,pause-agent", Quiet: true, Patches: []mutate.Patch{
				patch("worker/leader_beat.go", " a.Eligible {", ` (a.Eligible || mistake.On("CreditBeforeRecord")) {`),
			}},
		{Name: "MemberAfterEligible", Rule: "a process is eligible before its member row is durable",
			Args: "--load batch --faults kill-server,cut-link,kill-agent,unknown-commit,deregister", Quiet: true,
			Patches: []mutate.Patch{
				patch("worker/leader_batch.go", "case !p.durable:", `case !p.durable && !mistake.On("MemberAfterEligible"):`),
				patch("worker/leader_beat.go", "p.reported && p.durable,",
					`p.reported && (p.durable || mistake.On("MemberAfterEligible")),`),
				patch("worker/leader_report.go", "\tif !p.member {\n\t\tl.members.enlist(p, now)",
					"\tif !p.member && !mistake.On(\"MemberAfterEligible\") {\n\t\tl.members.enlist(p, now)"),
				patch("worker/leader_session.go", "func (l *Leader) tickProcess(p *process, now time.Duration, judge bool) {\n",
					`func (l *Leader) tickProcess(p *process, now time.Duration, judge bool) {
	if mistake.On("MemberAfterEligible") && p.reported && !p.member && !p.dead {
		l.members.enlist(p, now)
	}
`),
			}},
		{Name: "LatenessIsSilence", Rule: "a late leader counts its lateness as silence of its cells",
			Args: "--load mixed --cells 6 --late true --faults none", By: "I15", Patches: []mutate.Patch{
				patch("registry/registry.go", "if r.cfg.Behind(cell) {",
					`if r.cfg.Behind(cell) && !mistake.On("LatenessIsSilence") {`),
			}},
		{Name: "ReadingIsJudging", Rule: "a late leader judges a cell by the first of several unread messages",
			Args: "--load mixed --cells 6 --late true --faults none", By: "I15", Patches: []mutate.Patch{
				patch("worker/leader_session.go", "if next != MustDie && (next == Healthy || p.health.State != Healthy) {",
					`if next != MustDie && (next == Healthy || p.health.State != Healthy) || mistake.On("ReadingIsJudging") {`),
			}},
		{Name: "DeleteAtMustDie", Rule: "the member row goes at MUST_DIE, before certain death", Args: "--load batch",
			Search: "tasks 1, pause 1, time 1", Quiet: true, Patches: []mutate.Patch{
				patch("worker/leader_session.go", "\t\tl.tickProcess(p, now, lease && !behind)\n",
					`		l.tickProcess(p, now, lease && !behind)
		if mistake.On("DeleteAtMustDie") && p.member && p.health.State == MustDie {
			l.die(p, now, ProofExpiry)
		}
`),
			}},
	}
}

// records are mistakes about the leader's rows of cells: writes before effects, and processes that leave.
func records() []Mistake {
	return []Mistake{
		{Name: "WaitByOwnFlags", Rule: "waits use the leader's time-outs, not the rows'",
			Args: "--load batch --faults other-flags,kill-server,pause-agent,cut-link", Quiet: true, Patches: []mutate.Patch{
				patch("worker/leader_session.go", "\tfrom := p.since\n", `	if mistake.On("WaitByOwnFlags") {
		promise = s.ownPromise()
	}
	from := p.since
`),
				patch("worker/leader_wait.go", "\treturn iw.t0 + iw.t.Stretch(lapse)\n", `	if mistake.On("WaitByOwnFlags") {
		lapse = iw.ownPromise()
	}
	return iw.t0 + iw.t.Stretch(lapse)
`),
			}},
		{Name: "NewByUID", Rule: "a job counts as new when its uid is, though its name had a row",
			Args: "--load batch --faults delete-job,kill-server,cut-link", Quiet: true, Patches: []mutate.Patch{
				patch("worker/leader.go", "w.jobs[j.Name] = true", "w.jobs[jobKey(j.Name, j.UID)] = true"),
				patch("worker/leader_batch.go", "l.waiting.jobs[r.Work.Job]", "l.waiting.jobs[jobKey(r.Work.Job, r.JobUID)]"),
				patch("worker/leader_batch.go", "// RunBatch starts", `func jobKey(name, uid string) string {
	if mistake.On("NewByUID") {
		return name + "\x00" + uid
	}
	return name
}

// RunBatch starts`),
			}},
		{Name: "AckBeforeCommit", Rule: "a status is acknowledged before it is durable", Args: "--load batch", Quiet: true,
			Patches: []mutate.Patch{
				patch("worker/leader_batch.go", "b.end(e, p, Ended{Kind: Real, Status: it.Status})\n\t}\n",
					`b.end(e, p, Ended{Kind: Real, Status: it.Status})
	}
	if mistake.On("AckBeforeCommit") {
		b.ack(p.row.Proc, it, true)
	}
`),
			}},
		{Name: "SetBeforeWaitEnds", Rule: "a cell is given the set of a leader that still waits",
			Args: "--load batch --witness consensus --faults restore-store,kill-server,cut-link,pause-agent", Quiet: true,
			Patches: []mutate.Patch{
				patch("worker/leader_beat.go", "case !l.waiting.wait && credit &&",
					`case mistake.On("SetBeforeWaitEnds"), !l.waiting.wait && credit &&`),
			}},
		{Name: "DisplacedLeaves", Rule: "a process that has lost its cell's name leaves the set before it is certainly dead",
			Args: "--load batch --witness consensus --faults restore-store,cut-link,kill-agent,hang-work", Quiet: true,
			Patches: []mutate.Patch{
				patch("worker/leader_session.go", "\tif !p.member {\n\t\ts.leaveSet(p)",
					"\tif !p.member || how != lost && mistake.On(\"DisplacedLeaves\") {\n\t\ts.leaveSet(p)"),
			}},
		{Name: "AloneWithOthers",
			Rule: "the first cell that reports ends the wait for what no row names, as if there were no other",
			Args: "--load batch --faults restore-store,cut-link,pause-agent,change-task", Quiet: true, Patches: []mutate.Patch{
				patch("worker/alone.go", "\tif iw.alone && !iw.cfg.Alone {\n", `	if mistake.On("AloneWithOthers") {
		iw.alone = true
		return
	}
	if iw.alone && !iw.cfg.Alone {
`),
			}},
		{Name: "DeadByTimeAlone", Rule: "a promise that passed is proof, though a successor says that something is not gone",
			Args: "--load batch --faults hang-work,kill-agent", Quiet: true, Patches: []mutate.Patch{
				patch("worker/leader_session.go", "!l.reports(p) && !l.survived(p) {",
					`!l.reports(p) && (!l.survived(p) || mistake.On("DeadByTimeAlone")) {`),
			}},
	}
}

// cells are mistakes of the cell's side of the worker protocol.
func cells() []Mistake {
	return []Mistake{
		{Name: "SkipSequence", Rule: "the cell accepts a RunTask older than the last Notify", Args: "--load batch",
			Search: "tasks 1, calls 1", Quiet: true, Patches: []mutate.Patch{
				patch("worker/cell_call.go", "if r.Seq < c.seq {", `if r.Seq < c.seq && !mistake.On("SkipSequence") {`),
			}},
		{Name: "DomainLeftOut", Rule: "a cell takes running work of a job for that of the job of this name in another domain",
			Args: "--load batch", Quiet: true, Patches: []mutate.Patch{
				patch("cell/labels.go", "\treturn worker.Work{Job: batch.FullName(", `	if mistake.On("DomainLeftOut") {
		return worker.Work{Job: batch.FullName("d", l[labelJob]), Node: l[labelNode]}
	}
	return worker.Work{Job: batch.FullName(`),
			}},
		{Name: "CellOutlives", Rule: "the cell's time-out is longer than the leader's promise", Args: "--load batch",
			Search: "tasks 1, pause 1, time 1", Quiet: true, Patches: []mutate.Patch{
				patch("worker/cell.go", "\treturn g\n", `	if mistake.On("CellOutlives") {
		g.Lost *= 3
	}
	return g
`),
				patch("worker/cell_call.go", "\tif a.Promise == 0 {\n", `	if mistake.On("CellOutlives") {
		deadline += a.Promise
	}
	if a.Promise == 0 {
`),
			}},
		{Name: "EndsUnheard", Rule: "lost time ends a session before the ends that have happened are taken",
			Args: "--load batch --faults pause-agent",
			By:   "contract", Patches: []mutate.Patch{
				patch("worker/cell.go", "\tif c.ended || c.renewing {\n\t\treturn false\n",
					"\tif c.ended || c.renewing || mistake.On(\"EndsUnheard\") {\n\t\treturn false\n"),
			}},
		{Name: "CountFromAnswer", Rule: "the cell counts credit from the answer's arrival",
			Args: "--load batch --faults cut-link,pause-agent", Quiet: true, Patches: []mutate.Patch{
				patch("worker/cell_call.go", "\tat := c.beats.sentAt(a.Beat)\n", `	at := c.beats.sentAt(a.Beat)
	if mistake.On("CountFromAnswer") {
		at = now
	}
`),
			}},
		{Name: "DuplicateNeverStarted", Rule: `a repeated RunTask is answered stale, and that is read as "never started"`,
			Args:   "--load batch",
			Search: "tasks 1, twice 1", Quiet: true, Patches: []mutate.Patch{
				patch("worker/cell_call.go", "h != nil && h.run == r.Run {",
					`h != nil && h.run == r.Run && !mistake.On("DuplicateNeverStarted") {`),
				patch("worker/leader_batch.go", "\tresult := a.Result\n", `	result := a.Result
	if result == RunStale && mistake.On("DuplicateNeverStarted") {
		result, e.sure = RunRefused, false
	}
`),
				patch("worker/search_moves_test.go", "known := e.sure &&",
					`known := e.sure && !mistake.On("DuplicateNeverStarted") &&`),
			}},
	}
}
