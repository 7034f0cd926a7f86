package leader

import (
	"cantina/store"
	"cantina/timetable"
)

// newTimes builds the timetable of a term; board, scheduler and registry are there already.
func (t *Term) newTimes(rows []store.Row) *timetable.Timetable {
	return timetable.New(ConnectTimetable(timetable.Config{
		Store: t.reign, Hub: t.hub, Clock: t.cfg.Clock, Log: t.log, Zone: t.cfg.Zone, NewID: NewID,
		Signals: NewSignalSender(t.board, SignalCalls{Go: t.call, Signal: t.signal}),
	}, t.board, t.jobs, t.reg), rows)
}

// ZonesChanged has the timetable read the rules of time zones again.
func (t *Term) ZonesChanged(names []string) { t.times.ZonesChanged(names) }
