package sim

import (
	"cantina/cell"
	"cantina/worker"
)

// ownEnds: a batch task that ended before a signal is reported as it ended, even if its agent was
// stopped meanwhile. No session is given up for lost time before it has the past ends.
func (m *machine) ownEnds(ev worker.CellEvent, es []worker.CellEffect) {
	for _, e := range es {
		switch e := e.(type) {
		case worker.SendStatus:
			for _, it := range e.Update.Items {
				m.ownEnd(it)
			}
		case worker.EndBound:
			if _, called := ev.(worker.SuicideAsked); !called {
				m.unheard(ev)
			}
		}
	}
}

func (m *machine) unheard(ev worker.CellEvent) {
	if a, ok := ev.(worker.BeatAnswered); ok && a.Answer.Verdict != worker.Welcome {
		return // it was ordered to end them
	}
	for _, h := range m.agent.Held() {
		if c := m.container("b-" + h.Run.Invocation.String()); c != nil && !c.alive && !h.Ended {
			m.w.fail("contract", "%s ends its work and has not heard that %v had ended: %s", m.name, h.Run.Work, c.status)
		}
	}
}

func (m *machine) ownEnd(it worker.StatusItem) {
	own, known := m.w.check.own[it.Run.Invocation]
	if it.Kind != worker.StatusEnded || !known {
		return
	}
	end, err := cell.EndOf(it.Status)
	code := map[string]int{"ok": 0, "failed": 1}[own]
	if err != nil || end.Killed || end.TimedOut || end.Signal != 0 || end.ExitCode != code {
		m.w.fail("contract", "%s reports %+v, %v of %v, which ended by itself: %s", m.name, end, err, it.Run.Work, own)
	}
}
