package worker

import (
	"slices"
	"time"
)

// unsureList has the invocations whose RunTask failed without proof, and when to ask.
type unsureList struct {
	runs  []Run // sorted
	next  time.Duration
	pause time.Duration
	asked map[int64][]Run
}

// unsurePeriod is half the first pause between two questions; each pause is twice the
// one before, at most 256 periods.
const unsurePeriod = time.Second

func (u *unsureList) add(r Run, now time.Duration) {
	i, ok := slices.BinarySearchFunc(u.runs, r, Run.Compare)
	if ok {
		return
	}
	if len(u.runs) == 0 {
		u.next, u.pause = now, unsurePeriod
	}
	u.runs = slices.Insert(u.runs, i, r)
}

func (u *unsureList) remove(r Run) {
	if i, ok := slices.BinarySearchFunc(u.runs, r, Run.Compare); ok {
		u.runs = slices.Delete(u.runs, i, i+1)
	}
}

// checkUnsure asks p which of the invocations on its unsure list do not run.
func (b *batch) checkUnsure(p *process, now time.Duration) {
	u := &p.unsure
	if len(u.runs) == 0 || now < u.next {
		return
	}
	u.pause = min(2*u.pause, 256*unsurePeriod)
	u.next = now + u.pause
	p.seq++
	if u.asked == nil {
		u.asked = map[int64][]Run{}
	}
	runs := slices.Clone(u.runs)
	u.asked[p.seq] = runs
	b.do(SendNotify{p.row.Cell, Notify{b.cfg.Term, p.row.Proc, p.seq, runs}})
}

// notifyAnswered: the cell has received the question, so a RunTask in it can no longer start; the
// cell reports those that it does not hold.
func (b *batch) notifyAnswered(now time.Duration, a NotifyAnswer) {
	if b.heard(now, "", a.Proc, a.Term) || a.Term != b.cfg.Term { // the numbers start again with each term
		return
	}
	p := b.procs[a.Proc]
	if p == nil {
		return
	}
	runs := p.unsure.asked[a.Seq]
	delete(p.unsure.asked, a.Seq)
	if !a.OK {
		return
	}
	for _, r := range runs {
		p.unsure.remove(r)
		b.resolve(p, r.Invocation)
		if e := b.model.byRun[r.Invocation]; e != nil {
			e.sure = true
		}
	}
}
