package sim

import (
	"slices"

	"cantina/leader"
	"cantina/task"
	"cantina/worker"
)

// seen is the content of the leader's views before a step.
type seen struct {
	holder  worker.SessionView
	held    bool
	sender  worker.SessionView // of the process that calls
	known   bool
	wait    worker.WaitView
	earlier []worker.SessionView // members of the sender's directory that began before it
	adopted map[worker.Run]bool  // reported by an unknown process, and held by another
}

func (r *leadership) look(cell worker.CellName, proc worker.Proc) seen {
	now, l := r.s.local(), r.leader
	s := seen{wait: l.Wait(now)}
	s.holder, s.held = l.Session(now, cell)
	m := r.s.w.byProc[proc]
	for _, v := range l.Sessions(now) {
		if v.Proc == proc {
			s.sender, s.known = v, true
		}
		if m != nil && r.s.w.byProc[v.Proc] == m && v.Member && !v.Dead && number(v.Proc) < number(proc) {
			s.earlier = append(s.earlier, v)
		}
	}
	return s
}

// number is how many processes were begun before one: p17 is the seventeenth.
func number(p worker.Proc) int {
	n := 0
	for _, c := range p[1:] {
		n = 10*n + int(c-'0')
	}
	return n
}

// before reads the data that a step is compared with.
func (r *leadership) before(e worker.Event) seen {
	switch e := e.(type) {
	case worker.BeatReceived:
		return r.look(e.Beat.Cell, e.Beat.Proc)
	case worker.ReportReceived:
		return r.look("", e.Report.Proc)
	case worker.StatusReceived:
		s := r.look(e.Update.Cell, e.Update.Proc)
		s.adopted = r.adopted(s, e.Update)
		return s
	}
	return seen{}
}

// adopted returns the part of a status of an unknown process that another one may run.
func (r *leadership) adopted(s seen, u worker.UpdateStatus) map[worker.Run]bool {
	if s.known {
		return nil
	}
	held := map[worker.Run]bool{}
	for _, it := range u.Items {
		for _, v := range r.leader.Running(it.Run.Work) {
			if v.Run == it.Run && it.Kind == worker.StatusEnded {
				held[v.Run] = true
			}
		}
	}
	return held
}

// contract checks the leader's contract, right after a step.
func (r *leadership) contract(s seen, e worker.Event, out worker.Output) {
	for _, f := range out.Effects {
		if d, ok := f.(worker.Dead); ok {
			r.perished[d.Proc] = true
			r.silentAt[d.Proc] = slices.DeleteFunc(slices.Clone(r.s.w.machines), func(m *machine) bool { return couldSay(r, m) })
		}
		if c, ok := f.(worker.SessionChanged); ok && c.To == worker.MustDie {
			r.perished[c.Proc] = true // one that was never listed is forgotten without a proof
		}
		if c, ok := f.(worker.SessionChanged); ok {
			r.s.judged(c)
		}
		if c, ok := f.(worker.SessionChanged); ok && c.Displaced {
			r.displaced[c.Proc] = true
		}
		if d, ok := f.(worker.SendSuicide); ok && d.Call.All && s.held && d.Call.Proc == s.holder.Proc {
			r.displaced[d.Call.Proc] = true // a holder that was lost already: its session changes no more
		}
	}
	r.agrees(e, out)
	r.asked++
	leads := r.receives(r.s.w.machines[r.asked%len(r.s.w.machines)].name)
	switch e := e.(type) {
	case worker.BeatReceived:
		r.verdict(s, e.Beat, out)
	case worker.StatusReceived:
		r.statuses(s, e.Update, out)
	case worker.RunAnswered:
		r.sure(e.Answer)
	}
	if leads { // a leader that has received a higher term handles nothing more
		r.succession(s, e)
	}
}

// agrees: with the hashes as the witness a session is HEALTHY for the first time only if its
// newest heartbeat showed the newest set that any cell received.
func (r *leadership) agrees(e worker.Event, out worker.Output) {
	if b, ok := e.(worker.BeatReceived); ok && b.Beat.Beat > r.shows[b.Beat.Proc].Beat {
		r.shows[b.Beat.Proc] = b.Beat
	}
	for _, f := range out.Effects {
		switch f := f.(type) {
		case worker.AnswerBeat:
			if !f.Answer.SetID.IsZero() {
				r.reported = f.Answer.SetID
			}
		case worker.SessionChanged:
			if f.To != worker.Healthy || r.agreed[f.Proc] {
				continue
			}
			r.agreed[f.Proc] = true
			if shown := r.shows[f.Proc].SetID; r.s.w.cfg.Witness == worker.WitnessConsensus && shown != r.reported {
				r.s.w.fail("contract", "%s becomes HEALTHY, and shows the set %v, not %v", f.Proc, shown, r.reported)
			}
		}
	}
}

// verdict: a heartbeat is answered by the table of docs/design/worker-protocol.md.
func (r *leadership) verdict(s seen, h worker.Heartbeat, out worker.Output) {
	var got worker.Verdict
	answered := false
	for _, f := range out.Effects {
		if a, ok := f.(worker.AnswerBeat); ok {
			got, answered = a.Answer.Verdict, true
		}
		if a, ok := f.(worker.EndTerm); ok && r.term.Less(a.Higher) {
			return
		}
	}
	if h.Deregister {
		r.leaves(h, out)
	}
	want, why, sure := r.wanted(s, h)
	if gone := !s.known && (got == worker.Die || got == worker.DieAll); gone &&
		(want == worker.Die || want == worker.Refused) {
		return // it was displaced or lost earlier in this term, and gets that response
	}
	old := h.HasWork && h.Epoch != r.term.Epoch && got == worker.Die
	if old && want == worker.Refused {
		return // an old heartbeat with work of another store: either answer ends it
	}
	if !answered || sure && got != want {
		r.s.w.fail("contract", "heartbeat of %s (%s): %v, want %v: %s", h.Proc, h.Cell, got, want, why)
	}
}

// leaves: a deregistering process gets the response that its session is over, in every state.
func (r *leadership) leaves(h worker.Heartbeat, out worker.Output) {
	for _, f := range out.Effects {
		if a, ok := f.(worker.AnswerBeat); ok && a.Answer.Verdict == worker.Welcome && a.Answer.State != worker.MustDie {
			r.s.w.fail("contract", "%s deregisters and is answered %v", h.Proc, a.Answer.State)
		}
	}
	if v, known := r.leader.Session(r.s.local(), h.Cell); known && v.Proc == h.Proc && v.State != worker.MustDie &&
		!h.HasWork {
		r.s.w.fail("contract", "%s has deregistered and is %v", h.Proc, v.State)
	}
}

func (r *leadership) wanted(s seen, h worker.Heartbeat) (v worker.Verdict, why string, sure bool) {
	w := r.s.w
	stale := r.leader.Wait(r.s.local()).Stale
	listed := s.known && s.sender.Member || len(s.earlier) > 0
	adopts := s.wait.All || r.leader.Wait(r.s.local()).All
	switch {
	case r.perished[h.Proc] && !s.known:
		return worker.Die, "given up, or declared dead", !s.sender.Displaced && !r.displaced[h.Proc]
	case s.known && s.sender.Displaced:
		return worker.DieAll, "displaced", true
	case h.Deregister || !s.known && r.displaced[h.Proc]:
		return 0, "", false
	case h.HasWork && !listed && !adopts:
		return worker.Die, "unlisted", true
	case h.HasWork && h.Epoch != r.term.Epoch && !stale:
		return worker.Die, "another epoch", true
	case !s.held || s.holder.Proc == h.Proc:
		return 0, "", false
	case w.byProc[s.holder.Proc] == w.byProc[h.Proc] && number(h.Proc) < number(s.holder.Proc):
		return worker.Refused, "an older process of the directory", true
	case w.byProc[s.holder.Proc] == w.byProc[h.Proc], s.holder.State == worker.MustDie:
		return worker.Welcome, "replaces", !s.known || s.sender.State != worker.MustDie
	case s.holder.State == worker.Healthy && r.fresh(s.holder.Proc):
		return worker.DieAll, "the name is held", true
	}
	return 0, "", false
}

// fresh: the holder's session did not time out within this very step.
func (r *leadership) fresh(p worker.Proc) bool {
	for _, v := range r.leader.Sessions(r.s.local()) {
		if v.Proc == p {
			return v.State == worker.Healthy
		}
	}
	return false
}

// statuses: no status of an earlier term, from before the report, or of work that another process
// has adopted from an unknown one is accepted, and every end is answered, passed on, or on its
// way.
func (r *leadership) statuses(s seen, u worker.UpdateStatus, out worker.Output) {
	early := u.Term.Less(r.term) || s.known && !s.sender.Reported && !s.sender.Dead
	for _, f := range out.Effects {
		if e, ok := f.(worker.Ended); ok {
			r.handed[e.Run] = true
			if early || s.adopted[e.Run] {
				r.s.w.fail("contract", "%v is taken from %s too early", e.Run, u.Proc)
			}
		}
		if a, ok := f.(worker.AnswerStatus); ok && a.Answer.OK && (early || s.adopted[a.Answer.Run]) {
			r.s.w.fail("contract", "%v of %s is acknowledged too early", a.Answer.Run, u.Proc)
		}
		if _, ok := f.(worker.EndTerm); ok {
			return
		}
	}
	for _, it := range u.Items {
		answered := slices.ContainsFunc(out.Effects, func(f worker.Effect) bool {
			a, ok := f.(worker.AnswerStatus)
			return ok && a.Answer.Run == it.Run && a.Answer.Kind == it.Kind
		})
		if !answered && (it.Kind != worker.StatusEnded || !r.handed[it.Run]) {
			r.s.w.fail("contract", "%+v of %s is neither answered nor handed over", it, u.Proc)
		}
	}
}

// promised: after the faults every cell lives by the promise of the present leader, and its row
// has it: no leader waits longer for it than necessary.
func (r *leadership) promised() {
	own := r.t.DiesWithin()
	if r.s.w.cfg.Alone {
		own = 0
	}
	for _, v := range r.leader.Sessions(r.s.local()) {
		if v.State == worker.Healthy && v.Member && v.Promise != own {
			r.s.w.fail("I14", "the row of %s promises %v, the leader %v", v.Proc, v.Promise, own)
		}
	}
}

func (r *leadership) sure(a worker.RunAnswer) {
	for _, v := range r.leader.Running(a.Run.Work) {
		known := v.Run == a.Run && v.Proc == a.Proc && !v.Ending && r.lives(v.Proc)
		if known && a.Result == worker.RunOK && !v.Sure {
			r.s.w.fail("contract", "%v runs, and the leader is not sure", v.Run)
		}
	}
}

func (r *leadership) lives(p worker.Proc) bool {
	for _, v := range r.leader.Sessions(r.s.local()) {
		if v.Proc == p {
			return v.State != worker.MustDie && !v.Dead
		}
	}
	return false
}

// succession: if a process has reported its predecessors as gone, or was rebooted, none of them
// stays on the list; no process is displaced and off the list.
func (r *leadership) succession(before seen, e worker.Event) {
	var proc worker.Proc
	gone := false
	switch e := e.(type) {
	case worker.BeatReceived:
		proc, gone = e.Beat.Proc, e.Beat.PredecessorsGone
	case worker.ReportReceived:
		if before.sender.Reported {
			return // only the first report counts; the next heartbeat shows it
		}
		proc, gone = e.Report.Proc, e.Report.PredecessorsGone
	default:
		return
	}
	s := r.look("", proc)
	for _, v := range r.leader.Sessions(r.s.local()) {
		if v.Displaced && !v.Member && !v.Dead {
			r.s.w.fail("contract", "%s is displaced, on no list, and kept", v.Proc)
		}
	}
	if !s.known || !s.sender.Reported || !s.sender.Holder || s.sender.State == worker.MustDie {
		return
	}
	for _, v := range s.earlier {
		if gone || r.s.w.boots[v.Proc] != r.s.w.boots[proc] {
			r.s.w.fail("contract", "%s has succeeded %s, which is still on the list", proc, v.Proc)
		}
	}
}

// explains: a refusal names the reason that the views show.
func (r *leadership) explains(q worker.Request) {
	if !r.receives(q.Cell) {
		return // EndTerm waits for the commit before it
	}
	now, l := r.s.local(), r.leader
	wait := l.Wait(now)
	node := slices.ContainsFunc(q.Nodes, func(n string) bool { return r.nodes[n] })
	idle := len(l.Running(q.Work)) == 0
	_, ok := l.MayRun(now, q)
	if free := idle && (!wait.Active || !wait.All && !r.jobs[q.Work.Job] && !node); free != ok {
		r.s.w.fail("contract", "%v may run: %v (waiting %v, node %v, running %v)", q.Work, ok, wait.Active, node, !idle)
	}
}

// receives: whether a cell may get work, and why not, agrees with its session; false if the leader
// has received a higher term.
func (r *leadership) receives(cell worker.CellName) bool {
	h, ok := r.leader.MayReceive(cell)
	if h.Reason == worker.HoldDeposed {
		return false
	}
	if want := reason(r.leader.Session(r.s.local(), cell)); h.Reason != want || ok != (want == worker.HoldNone) {
		r.s.w.fail("contract", "%s: %v, want %v", cell, h.Reason, want)
	}
	return true
}

func reason(v worker.SessionView, held bool) worker.HoldReason {
	switch {
	case !held:
		return worker.HoldNoSession
	case !v.Reported:
		return worker.HoldNotReported
	case !v.Eligible:
		return worker.HoldNotMember
	case v.State != worker.Healthy && v.Blocked:
		return worker.HoldConsensus
	case v.State != worker.Healthy:
		return worker.HoldNotHealthy
	case v.Unavailable:
		return worker.HoldUnavailable
	}
	return worker.HoldNone
}

// joined: no task fails as too large for every cell while a cell of the last term has not reported
// its capacity yet, or one may be about to join.
func (r *leadership) joined(t *task.Task) {
	if age := r.s.local() - r.began; age < leader.JoinGrace {
		r.s.w.fail("contract", "%s is too large for every cell %v after the term began", describeTask(t), age)
	}
	for _, v := range r.leader.Sessions(r.s.local()) {
		if v.Member && !v.Reported && !v.Dead && !v.Displaced {
			r.s.w.fail("contract", "%s is too large for every cell, and %s has not reported", describeTask(t), v.Proc)
		}
	}
}
