package mistake

import "cantina/internal/mutate"

// boards are mistakes of the rules of services and tasks, and of the board that holds them.
func boards() []Mistake {
	return []Mistake{
		{Name: "LeaveTwice", Rule: "a task may be started by each cell that asks", Args: "--load mixed",
			Patches: []mutate.Patch{
				patch("task/step.go", "\tcase m.t.State != Pending:\n\t\treturn ErrInvalidStateTransition\n",
					`	case mistake.On("LeaveTwice") && m.t.State == Running && m.env.Eligible:
		m.changed = true
		m.t.Holder, m.t.Reservation = e.By, e.Reservation
		return nil
	case m.t.State != Pending:
		return ErrInvalidStateTransition
`),
			}},
		{Name: "LostStartsAgain", Rule: "a lost task is put back among those that wait", Args: "--load mixed",
			Patches: []mutate.Patch{
				patch("task/step.go", "\tm.end(Lost, Result{Failed: true, Reason: ReasonLost})\n",
					`	if mistake.On("LostStartsAgain") {
		m.to(Pending)
		m.t.Holder, m.t.Reservation = Holder{}, ""
		m.do(RequestAuction{m.t.GUID, m.t.UID})
		return
	}
	m.end(Lost, Result{Failed: true, Reason: ReasonLost})
`),
			}},
		{Name: "StartWhileBlind", Rule: "tasks start while rows may be older than what runs",
			Args: "--load mixed --faults restore-store,cut-link,pause-agent,change-task", Patches: []mutate.Patch{
				patch("bbs/tx.go", "\tif _, ok := e.(task.Delete); ok && before != nil {\n",
					`	env.Eligible = env.Eligible || mistake.On("StartWhileBlind")
	if _, ok := e.(task.Delete); ok && before != nil {
`),
				patch("bbs/effects.go", "\tlrps, tasks = ef.held.back(", `	if !mistake.On("StartWhileBlind", "ClaimWhileBlind") {
		lrps, tasks = ef.held.back(`),
				patch("bbs/effects.go", "\tif len(lrps)+len(tasks) > 0 {\n\t\tef.cfg.",
					"\t}\n\tif len(lrps)+len(tasks) > 0 {\n\t\tef.cfg."),
			}},
		{Name: "EndReplaced", Rule: "a second report of a task's end replaces the first", Args: "--load mixed",
			Patches: []mutate.Patch{
				patch("task/step.go", "\tlate := m.t.Unresolved()\n", `	if mistake.On("EndReplaced") && m.t.State == Completed {
		m.changed = true
		m.t.Outcome, m.t.Result = e.Result.Outcome(), e.Result
		return nil
	}
	late := m.t.Unresolved()
`),
			}},
		{Name: "ExclusiveAtMustDie", Rule: "an exclusive row is given up at MUST_DIE, before certain death",
			Args: "--load mixed", Patches: []mutate.Patch{
				patch("lrp/step.go", "m.leaveProc(e.Proc, false)", `m.leaveProc(e.Proc, mistake.On("ExclusiveAtMustDie"))`),
			}},
		{Name: "SuspectStays", Rule: "a suspect row stays when its cell is healthy again", Args: "--load mixed",
			Patches: []mutate.Patch{
				patch("lrp/step.go", "\tcase CellHealthy:\n", `	case CellHealthy:
		if mistake.On("SuspectStays") {
			return nil
		}
`),
			}},
	}
}

// restored are mistakes of rows that are older than the running work, and of the end of work.
func restored() []Mistake {
	return []Mistake{
		{Name: "ClaimWhileBlind", Rule: "exclusive instances are claimed while rows may be older than what runs",
			Args: "--load mixed", Patches: []mutate.Patch{
				patch("bbs/tx.go", "\tbefore := b.services.Index(k)\n",
					`	env.Eligible = env.Eligible || mistake.On("ClaimWhileBlind")
	before := b.services.Index(k)
`),
			}},
		{Name: "HandOverIgnored", Rule: "what a process hands to its successor is not noted", Args: "--load mixed",
			Patches: []mutate.Patch{
				patch("lrp/step.go", "\tcase ProcMoved:\n", `	case ProcMoved:
		if mistake.On("HandOverIgnored") {
			return nil
		}
`),
			}},
		{Name: "ReportHasNoRow", Rule: "a container that a cell reports gets no row",
			Args: "--load mixed --faults hang-work,restore-store,pause-agent", Patches: []mutate.Patch{
				patch("bbs/cell.go",
					"\tps.onSession(func(t *tx) {\n\t\tps.services.Reported.Keep(", `	if mistake.On("ReportHasNoRow") {
		return
	}
	ps.onSession(func(t *tx) {
		ps.services.Reported.Keep(`),
			}},
		{Name: "ResolvedWhileItMayRun", Rule: "a lost task that may still run is resolved without --accept-double-starts",
			Args: "--load mixed", Patches: []mutate.Patch{
				patch("task/step.go", "case m.t.MayStillRun && !e.Accept:",
					"case m.t.MayStillRun && !e.Accept && !mistake.On(\"ResolvedWhileItMayRun\"):"),
			}},
		{Name: "RemovedUnproven", Rule: "an exclusive row is removed by a process that does not hold it",
			Args: "--load mixed", Patches: []mutate.Patch{
				patch("lrp/step.go", "a.Proc != by.Proc {\n\t\treturn ErrNotProven",
					"a.Proc != by.Proc && !mistake.On(\"RemovedUnproven\") {\n\t\treturn ErrNotProven"),
			}},
		{Name: "MoveStopsFirst", Rule: "a moved instance is stopped before the new one serves",
			Args: "--load mixed --moves true", Patches: []mutate.Patch{
				patch("lrp/step.go", "\tm.x.Ordinary = m.on(by, Claimed, a)\n\treturn nil\n",
					`	if c := m.x.Evacuating; mistake.On("MoveStopsFirst") && c != nil && c.Moving {
		m.x.Evacuating = nil
		m.stop(c)
	}
	m.x.Ordinary = m.on(by, Claimed, a)
	return nil
`),
			}},
		{Name: "StopForgotten", Rule: "the row of what is not wanted goes before its container", Args: "--load mixed",
			Patches: []mutate.Patch{
				patch("lrp/step.go",
					"\tif s := m.x.Suspect; s != nil {\n\t\tm.x.Suspect = nil\n\t\tm.stop(s)\n\t}\n\tif e := m.x.Evacuating",
					`	if mistake.On("StopForgotten") {
		m.x = Index{Key: m.x.Key}
		return
	}
	if s := m.x.Suspect; s != nil {
		m.x.Suspect = nil
		m.stop(s)
	}
	if e := m.x.Evacuating`),
			}},
	}
}

// preemptions are mistakes of work that is stopped for other work.
func preemptions() []Mistake {
	const full = "--load mixed --preempt true"
	return []Mistake{
		{Name: "PreemptsEqual", Rule: "instances are stopped for work of equal priority", Args: full, By: "contract",
			Patches: []mutate.Patch{
				patch("lrp/preempt.go", "d.Priority() >= e.Priority:",
					"d.Priority() >= e.Priority && !(mistake.On(\"PreemptsEqual\") && d.Priority() == e.Priority):"),
				patch("placement/preempt.go", "v.Priority < it.Priority:",
					"(v.Priority < it.Priority || mistake.On(\"PreemptsEqual\") && v.Priority == it.Priority):"),
				patch("bbs/preempt.go", "\t\tt.Priority() < below\n",
					"\t\t(t.Priority() < below || mistake.On(\"PreemptsEqual\") && t.Priority() == below)\n"),
			}},
		{Name: "PreemptsStopFirst", Rule: "instances that may have no copy are stopped for other work", Args: full,
			By: "contract", Patches: []mutate.Patch{
				patch("lrp/preempt.go", "\t\tm.stopFirst(),\n", "\t\tm.stopFirst() && !mistake.On(\"PreemptsStopFirst\"),\n"),
				patch("bbs/preempt.go", "&& !t.StopFirst() &&", "&& (!t.StopFirst() || mistake.On(\"PreemptsStopFirst\")) &&"),
			}},
	}
}

// schedules are mistakes of the timetable.
func schedules() []Mistake {
	const six = "--schedules 6 --load batch"
	signal := patch("timetable/pass.go",
		"\t\tb.sends = append(b.sends, b.t.send(Sending{row.Key, row.UID, m.Firing.At, *d.Signal}))\n",
		`		send := b.t.send(Sending{row.Key, row.UID, m.Firing.At, *d.Signal})
		if mistake.On("SignalBeforeCommit", "SignalBeforeCommitAllFaults") {
			send()
			return nil
		}
		b.sends = append(b.sends, send)
`)
	return []Mistake{
		{Name: "CursorApart", Rule: "the cursor is committed apart from the start", Args: six +
			" --faults unknown-commit,kill-server", By: "I12",
			Patches: []mutate.Patch{
				patch("timetable/pass.go", "\tb.rows.Add(b.ops, ", `	add := b.rows.Add
	if mistake.On("CursorApart") && b.others > 0 {
		add = func(ops []store.Op, done func(int64, error), undo func()) {
			b.rows.Add(nil, func(_ int64, err error) {
				if err == nil {
					err = b.t.cfg.Board.Decide(func(rows Rows) error {
						rows.Add(ops, done, undo)
						return nil
					})
				}
				if err != nil {
					done(0, err)
				}
			}, undo)
		}
	}
	add(b.ops, `),
			}},
		{Name: "WallBehindCursor", Rule: "a leader takes its wall clock for the cursor, also when it is behind", Args: six +
			" --faults kill-server", By: "I12",
			Patches: []mutate.Patch{
				patch("timetable/load.go", "\t\t\trow.State = schedule.ResumeClock(", `			if mistake.On("WallBehindCursor") {
				s.Cursor = now.Truncate(1e9)
			}
			row.State = schedule.ResumeClock(`),
			}},
		{Name: "SignalBeforeCommit", Rule: "a signal is sent before its firing is durable", Args: six +
			" --faults unknown-commit,kill-server", By: "I12",
			Patches: []mutate.Patch{signal}},
		{Name: "SignalBeforeCommitAllFaults", Rule: "the same, with all faults and a restored store too", Args: six,
			By: "I12"},
	}
}
