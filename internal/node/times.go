package node

import (
	"time"

	"cantina/internal/timing"
	"cantina/store"
	"cantina/timetable"
)

// newTimes builds the timetable of a term; board, scheduler and registry are there already.
func (t *term) newTimes(rows []store.Row) *timetable.Timetable {
	return timetable.New(timing.Connect(timetable.Config{
		Store: t.reign, Hub: t.hub, Clock: t.cfg.Clock, Log: t.log, Zone: t.cfg.zone, NewID: newID,
		Signals: timing.NewSender(t.board, timing.Calls{Go: t.call, Signal: t.signal}),
	}, t.board, t.jobs, t.reg), rows)
}

// zone finds a time zone.
func (c *ServerConfig) zone(name string) (*time.Location, error) {
	z, err := c.Zones.Load(name)
	return z.Location, err
}
