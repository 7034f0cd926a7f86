package sim

import (
	"cantina/cell"
	"cantina/worker"
)

// ownEnds: a batch task that ended before a signal is reported as it ended, even if its agent was
// stopped meanwhile. No session is given up for lost time before it has the past ends.
func (p *promises) ownEnds(ev worker.CellEvent, es []worker.CellEffect) {
	for _, e := range es {
		switch e := e.(type) {
		case worker.SendStatus:
			for _, it := range e.Update.Items {
				p.ownEnd(it)
			}
		case worker.EndBound:
			if _, called := ev.(worker.SuicideAsked); !called {
				p.unheard(ev)
			}
		}
	}
}

func (p *promises) unheard(ev worker.CellEvent) {
	if a, ok := ev.(worker.BeatAnswered); ok && a.Answer.Verdict != worker.Welcome {
		return // it was ordered to end them
	}
	for _, h := range p.m.agent.Held() {
		if c := p.m.containers.container("b-" + h.Run.Invocation.String()); c != nil && !c.alive && !h.Ended {
			p.m.w.fail("contract", "%s ends its work and has not heard that %v had ended: %s", p.m.name, h.Run.Work, c.status)
		}
	}
}

func (p *promises) ownEnd(it worker.StatusItem) {
	own, known := p.m.w.check.own[it.Run.Invocation]
	if it.Kind != worker.StatusEnded || !known {
		return
	}
	end, err := cell.EndOf(it.Status)
	code := map[string]int{"ok": 0, "failed": 1}[own]
	if err != nil || end.Killed || end.TimedOut || end.Signal != 0 || end.ExitCode != code {
		p.m.w.fail("contract", "%s reports %+v, %v of %v, which ended by itself: %s", p.m.name, end, err, it.Run.Work, own)
	}
}
