package cell

import (
	"log/slog"
	"sync"

	"cantina/internal/run"
	"cantina/worker"
)

// acts performs the machine's decisions, the effects of one step at a time: it queues heartbeats
// and statuses for their loops, and passes the rest to the cell.
type acts struct {
	mu    sync.Mutex
	log   *slog.Logger
	hands hands
	ticks *ticks

	beats    mailbox[worker.Heartbeat]
	beating  *run.Loop
	statuses statusQueue
	probes   statusQueue                  // answers to probes alone
	foreign  mailbox[worker.ForeignHeard] // sent by the loop of heartbeats

	ended chan struct{} // closed when the session does nothing more
	once  sync.Once
}

// perform does one effect.
func (a *acts) perform(e worker.CellEffect, got *answers) {
	switch e := e.(type) {
	case worker.SendBeat:
		a.beats.replace(e.Beat)
		a.beating.Wake()
	case worker.SendStatus:
		if e.Update.Items[0].Kind == worker.StatusProbe {
			a.probes.send(e.Update)
		} else {
			a.statuses.send(e.Update)
		}
	case worker.AnswerReport:
		got.report = &e.Report
	case worker.AnswerRun:
		got.runs = append(got.runs, e.Answer)
	case worker.AnswerNotify:
		got.notify = &e.Answer
	case worker.AnswerKill:
		got.found = e.Found
	case worker.Launch:
		a.hands.launch(e.Run)
	case worker.StopWork:
		a.hands.stopRun(e.Run)
	case worker.StartProbe:
		a.hands.startProbe(e.Probe)
	case worker.SetDeadline:
		a.hands.setDeadline(e.At)
	case worker.EndBound:
		a.hands.endBound(e.Grace, e.Reason)
	case worker.EndAll:
		a.hands.endAll(e.Reason)
		a.finish()
	case worker.NewSession:
		a.ticks.beginIn(0)
	case worker.CellChanged:
		a.hands.changed(e.From, e.To, e.Reason)
	case worker.ForeignHeard:
		a.foreign.put(e)
	case worker.TermRefused:
		a.log.Warn("refused a term that no leader of this cluster can have", "term", e.Term.String())
	case worker.Exit:
		a.finish()
	}
}

func (a *acts) finish() { a.once.Do(func() { close(a.ended) }) }
