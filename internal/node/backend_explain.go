package node

import (
	"context"
	"fmt"

	"cantina/api"
	"cantina/batch"
	"cantina/bbs"
	"cantina/lrp"
	"cantina/worker"
)

// Explain implements api.Explainer.
func (v view) Explain(_ context.Context, s api.Subject) (api.Explanation, error) {
	if err := v.fresh(); err != nil {
		return api.Explanation{}, err
	}
	switch s.Kind {
	case api.SubjectService:
		e, err := v.board.ExplainService(lrp.ServiceKey{Domain: s.Domain, Name: s.Name})
		return explained(s, e), err
	case api.SubjectInstance:
		e, err := v.board.ExplainInstance(lrp.ServiceKey{Domain: s.Domain, Name: s.Name}, s.Index)
		return explained(s, e), err
	case api.SubjectTask:
		e, err := v.board.ExplainTask(s.Name)
		return explained(s, e), err
	case api.SubjectJob, api.SubjectPair:
		return v.explainJob(s)
	case api.SubjectCell:
		return v.explainCell(s)
	case api.SubjectSchedule:
		return v.explainSchedule(s)
	}
	return api.Explanation{}, fmt.Errorf("subject %q: %w", s.Kind, api.ErrInvalid)
}

func explained(s api.Subject, e bbs.Explanation) api.Explanation {
	out := api.Explanation{Subject: s, State: e.State, Wanted: e.Wanted, Fine: e.Fine}
	for _, r := range e.Reasons {
		out.Reasons = append(out.Reasons, api.Reason{Code: r.Code, Text: r.Text, Change: r.Change, Longest: r.Longest})
	}
	return out
}

func (v view) explainJob(s api.Subject) (api.Explanation, error) {
	j, err := v.jobs.Job(s.Name)
	if err != nil {
		return api.Explanation{}, err
	}
	if j.Removed {
		return api.Explanation{Subject: s, State: "removed", Wanted: "removed", Fine: true, Reasons: []api.Reason{{Code: "batch",
			Text: fmt.Sprintf("it was removed; it is listed until the last of its batch tasks is certainly over: %d are known to run", j.Progress.Running)}}}, nil
	}
	why, err := v.jobs.Explain(s.Name, s.Node)
	if err != nil {
		return api.Explanation{}, err
	}
	out := api.Explanation{Subject: s, State: j.Progress.State.String(), Wanted: batch.JobDone.String(), Fine: j.Progress.State == batch.JobDone}
	if s.Node != "" {
		p, err := v.jobs.Pairs(s.Name, batch.NodeFilter{Node: s.Node, Limit: 1})
		if err != nil {
			return api.Explanation{}, err
		}
		out.State, out.Fine = batch.ClassAbsent.String(), false
		for _, x := range p {
			out.State, out.Fine = x.Class.String(), x.Class == batch.ClassDone || x.Class == batch.ClassRunning
		}
	}
	for _, w := range why {
		r := api.Reason{Code: "batch", Text: w.Text, Change: w.Change, Longest: w.Longest, Level: w.Level, Resource: w.Short.Name, Need: w.Short.Need, Have: w.Short.Have}
		for i, h := range w.Holders {
			if i > 0 {
				r.Holder += ", "
			}
			r.Holder += h.Job + "/" + h.Node
		}
		out.Reasons = append(out.Reasons, r)
	}
	return out, nil
}

func (v view) explainCell(s api.Subject) (api.Explanation, error) {
	c, err := v.GetCell(worker.CellName(s.Name))
	if err != nil {
		return api.Explanation{}, err
	}
	out := api.Explanation{Subject: s, State: c.Session.String(), Wanted: worker.Healthy.String(), Fine: c.Session == worker.Healthy && c.Unavailable == "" && !c.Evacuating}
	add := func(code, text string) {
		out.Reasons = append(out.Reasons, api.Reason{Code: code, Text: text, Longest: c.DeadIn})
	}
	if c.Session != worker.Healthy {
		add("session", c.Reason)
	}
	if c.Unavailable != "" {
		add("unavailable", c.Unavailable)
	}
	switch {
	case c.Drain != nil:
		out.State += drainState(c.Drain)
		out.Reasons = append(out.Reasons, api.Reason{Code: "evacuating", Text: explainDrain(c.Drain),
			Change: "cantina undrain " + s.Name + " lets it take work again"})
		if left := c.Drain.Until.Sub(v.cfg.Clock.Wall()); left > 0 && c.Drain.Ended.IsZero() {
			out.Reasons[len(out.Reasons)-1].Longest = left
		}
	case c.Evacuating:
		add("evacuating", "its drain was taken back, and it has not heard of it yet")
	}
	return out, nil
}
