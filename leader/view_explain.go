package leader

import (
	"context"
	"fmt"
	"time"

	"cantina/api"
	"cantina/batch"
	"cantina/cell"
	"cantina/fault"
	"cantina/fence"
	"cantina/lrp"
	"cantina/plan"
	"cantina/worker"
)

// Explain implements api.Explainer.
func (v explainView) Explain(_ context.Context, s plan.Subject) (plan.Explanation, error) {
	if err := v.fresh(); err != nil {
		return plan.Explanation{}, err
	}
	switch s.Kind {
	case plan.SubjectService:
		k := lrp.ServiceKey{Domain: s.Domain, Name: s.Name}
		e, err := v.Board.ExplainService(k)
		out := explained(s, e)
		if err == nil {
			err = v.addUnconfirmed(&out, k, -1)
		}
		return out, err
	case plan.SubjectInstance:
		k := lrp.ServiceKey{Domain: s.Domain, Name: s.Name}
		e, err := v.Board.ExplainInstance(k, s.Index)
		out := explained(s, e)
		if err == nil {
			err = v.addUnconfirmed(&out, k, s.Index)
		}
		return out, err
	case plan.SubjectTask:
		e, err := v.Board.ExplainTask(s.Name)
		out := explained(s, e)
		if err == nil {
			err = v.unsureTask(&out, s.Name)
		}
		return out, err
	case plan.SubjectJob, plan.SubjectNode:
		return v.explainJob(s)
	case plan.SubjectCell:
		return v.explainCell(s)
	case plan.SubjectSchedule:
		return v.explainSchedule(s)
	}
	return plan.Explanation{}, fmt.Errorf("subject %q: %w", s.Kind, fault.ErrInvalid)
}

// explained is an explanation of a subject.
func explained(s plan.Subject, e plan.Explanation) plan.Explanation {
	e.Subject = s
	return e
}

func (v explainView) explainJob(s plan.Subject) (plan.Explanation, error) {
	j, err := v.Scheduler.Job(s.Job())
	if err != nil {
		return plan.Explanation{}, err
	}
	if j.Removed {
		out := plan.Explanation{Subject: s, State: "removed", Wanted: "removed", Fine: true,
			Reasons: []plan.Reason{{Code: "batch",
				Text: fmt.Sprintf("it was removed; it is listed until the last of its batch tasks is certainly over: "+
					"%d are known to run", j.Progress.Running)}}}
		if j.Progress.Running > 0 {
			out.Fine, out.State = false, "removed, being stopped"
		}
		v.heldUp(&out, func(c cell.Condition) bool { return c.Job == s.Job() && (s.Node == "" || c.Node == s.Node) })
		return out, nil
	}
	why, err := v.Scheduler.Explain(s.Job(), s.Node)
	if err != nil {
		return plan.Explanation{}, err
	}
	class := batch.ClassAbsent
	if s.Node != "" {
		p, err := v.Scheduler.JobNodes(s.Job(), batch.NodeFilter{Node: s.Node, Limit: 1})
		if err != nil {
			return plan.Explanation{}, err
		}
		for _, x := range p {
			class = x.Class
		}
	}
	out := explainedJob(s, &j.Progress, class, why)
	if j.Paused && s.Node == "" && j.Progress.State == batch.JobRunning {
		pausedWhileRunning(&out, j.Progress.Running)
	}
	v.heldUp(&out, func(c cell.Condition) bool {
		return c.Job == s.Job() && (s.Node == "" || c.Node == s.Node && !(c.Starting() && class != batch.ClassRunning))
	})
	if s.Node != "" {
		v.doubled(&out, worker.Work{Job: s.Job(), Node: s.Node})
	}
	return out, v.unconfirmedNodes(&out, s.Job(), s.Node)
}

// explainedJob explains a job by its progress, or one of its batch tasks by its class.
func explainedJob(s plan.Subject, p *batch.Progress, class batch.Class, why []batch.Why) plan.Explanation {
	out := plan.Explanation{Subject: s, State: p.State.String(), Wanted: batch.JobDone.String()}
	runs := p.State == batch.JobRunning && len(why) == 0 && p.Failed == 0
	if s.Node != "" {
		out.State, runs = class.String(), class == batch.ClassRunning
	}
	if runs {
		out.Wanted = out.State
	}
	out.Fine = out.State == out.Wanted
	for _, w := range why {
		r := plan.Reason{Code: "batch", Text: w.Text, Change: w.Change, Longest: w.Longest, Level: w.Level,
			Resource: w.Short.Name, Need: w.Short.Need, Have: w.Short.Have}
		for i, h := range w.Holders {
			if i > 0 {
				r.Holder += ", "
			}
			r.Holder += h.Job + "/" + h.Node
		}
		out.Reasons = append(out.Reasons, r)
	}
	if !out.Fine && len(out.Reasons) == 0 {
		out.Reasons = []plan.Reason{{Code: "batch", Text: unexplained(p.State)}}
	}
	return out
}

// pausedWhileRunning describes a paused job with batch tasks that run to their end.
func pausedWhileRunning(out *plan.Explanation, running int) {
	out.State, out.Wanted, out.Fine = "paused, running", batch.JobDone.String(), false
	out.Reasons = append([]plan.Reason{{Code: "paused", Change: "cantina job resume " + out.Subject.Job(),
		Text: fmt.Sprintf("the job is paused: no batch task is started, and %d run to their end", running)}}, out.Reasons...)
}

// unexplained returns why a job is not done if its board has no reason.
func unexplained(s batch.State) string {
	switch s {
	case batch.JobEmpty:
		return "it has no nodes: its sources list none of its level, or its filters leave none"
	case batch.JobRunning:
		return "it runs"
	}
	return "it is about to be started"
}

func (v explainView) explainCell(s plan.Subject) (plan.Explanation, error) {
	c, err := cellView(v).GetCell(worker.CellName(s.Name))
	if err != nil {
		return plan.Explanation{}, err
	}
	if c.Gone != nil {
		return explainGone(s, &c), nil
	}
	if c.Cluster != "" {
		return v.explainForeign(s, &c), nil
	}
	out := explainCell(s, &c, v.cfg.Clock.Wall())
	for _, x := range v.reported().of(c.Name) {
		if x.Unknown {
			out.Reasons = append(out.Reasons,
				plan.Reason{Code: codeUnknown, Text: x.What + " runs there, and the store does not know it: " + x.Text,
					Change: "it is left alone until it ends; cantina cells discard " + s.Name + " ends it"})
			continue
		}
		code := codeHeldUp
		if !x.Since.IsZero() {
			code = codeStarting
		}
		out.Reasons = append(out.Reasons, plan.Reason{Code: code, Text: x.What + ": " + x.Words(v.cfg.Clock.Wall())})
	}
	return out, nil
}

// codeForeign and codeUnknown are the codes of the reasons that a cell belongs to another cluster,
// and that it runs work that the store does not contain.
const (
	codeForeign = "foreign"
	codeUnknown = "unknown_work"
)

// foreignText describes that a cell of another cluster is refused; its address may be unknown.
func foreignText(name worker.CellName, address string, its, own fence.Cluster) string {
	f := &cell.Foreign{Cell: name, Address: address, Cluster: its, Other: own}
	return f.Error() + ": it is refused, and nothing on it changes"
}

// explainForeign returns why a cell of another cluster is refused, and the possible decisions.
func (v explainView) explainForeign(s plan.Subject, c *api.Cell) plan.Explanation {
	return plan.Explanation{Subject: s, State: "FOREIGN", Wanted: worker.Healthy.String(),
		Reasons: []plan.Reason{{Code: codeForeign,
			Text: foreignText(c.Name, c.Address, c.Cluster, v.lease.Cluster()),
			Change: "give the cell the servers of its own cluster (--servers), or start this server on the right data " +
				"directory; cantina cells adopt " + s.Name + " has it join this cluster"}}}
}

// explainGone describes the fate of a cell that is gone, and of its work.
func explainGone(s plan.Subject, c *api.Cell) plan.Explanation {
	g := c.Gone
	out := plan.Explanation{Subject: s, State: g.Word(), Wanted: worker.Healthy.String()}
	since := "since " + g.At.UTC().Format(time.DateTime) + " UTC: "
	why := plan.Reason{Code: "lost", Text: since + g.Why,
		Change: "a cell that is started under this name takes its place; cantina cells forget " + string(c.Proc) +
			" takes it off the list"}
	if g.Left {
		out.Wanted, out.Fine, why.Code, why.Change = out.State, true, "left", ""
	}
	out.Reasons = []plan.Reason{why, {Code: "work", Text: g.Work}}
	if c.Drain != nil {
		out.Reasons = append(out.Reasons, plan.Reason{Code: "draining", Text: explainDrain(c.Drain),
			Change: "cantina undrain " + s.Name + " lets a cell of this name take work"})
	}
	return out
}

// ifSilent returns when a process that stays silent is certainly dead.
func ifSilent(dead time.Duration) string {
	if dead <= 0 {
		return ""
	}
	return fmt.Sprintf("; if it stays silent, certainly dead in %s", dead.Round(time.Second))
}

// forgetHint names the verb that frees the name and the work of a silent cell before it is certainly dead; a cell
// is named, or one of its processes.
func forgetHint(cell string) string {
	return "cantina cells forget " + cell + ", where you know that it is dead: if it is alive, its work may run twice"
}

func explainCell(s plan.Subject, c *api.Cell, now time.Time) plan.Explanation {
	out := plan.Explanation{Subject: s, State: c.Session.String(), Wanted: worker.Healthy.String(),
		Fine: c.Session == worker.Healthy && c.Unavailable == "" && !c.Draining}
	add := func(code, text string) { out.Reasons = append(out.Reasons, plan.Reason{Code: code, Text: text}) }
	if c.Session != worker.Healthy {
		add("session", c.Reason+ifSilent(c.DeadIn))
		if c.Session == worker.Unhealthy || c.Session == worker.MustDie {
			out.Reasons[len(out.Reasons)-1].Change = forgetHint(s.Name)
		}
	}
	if c.Unavailable != "" {
		out.State += ", unavailable"
		add("unavailable", c.Unavailable)
	}
	switch {
	case c.Drain != nil:
		out.State += drainState(c.Drain)
		out.Reasons = append(out.Reasons, plan.Reason{Code: "draining", Text: explainDrain(c.Drain),
			Change: "cantina undrain " + s.Name + " lets it take work again"})
		if left := c.Drain.Until.Sub(now); left > 0 && c.Drain.Ended.IsZero() {
			out.Reasons[len(out.Reasons)-1].Longest = left
		}
	case c.Draining:
		out.State += ", draining"
		add("draining", "undrained; waiting for the cell's next heartbeat")
	}
	return out
}
