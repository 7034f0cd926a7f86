package schedule

import (
	"time"

	"cantina/cron"
)

// Event is something that happens to a schedule. One struct for each kind.
type Event interface{ event() }

type (
	// Tick: time has passed, or the state of runs may have changed.
	Tick struct{}
	// Pause stops all firing by time.
	Pause struct{}
	// Resume ends a pause; times during it do not count as missed.
	Resume struct{}
	// Edit: the definition was changed. Nothing fires for the time before it.
	Edit struct{}
	// Fire is a person's wish: At names the logical time, which must be one of the
	// schedule's and not decided yet; zero is a run beside them, now.
	Fire struct{ At time.Time }
	// Backfill fires the logical times from From to To that did not fire, the oldest
	// first, at most Max, one after the other as the overlap policy allows.
	Backfill struct {
		From, To time.Time
		Max      int
	}
	// Rewind is an operator's statement that the clock was wrong: all times decided after now by the
	// clock of Env are due again, except those that have fired.
	Rewind struct{}
	// Delivered: how the signal of a logical time fared.
	Delivered struct {
		At       time.Time
		Delivery Delivery
	}
	// Refused: the work that a firing of this step should have started was refused.
	Refused struct {
		Firing Firing
		Text   string
	}
)

func (Tick) event()     {}
func (Pause) event()    {}
func (Resume) event()   {}
func (Edit) event()     {}
func (Fire) event()     {}
func (Backfill) event() {}
func (Refused) event()  {}

func (Rewind) event()    {}
func (Delivered) event() {}

// Move becomes durable together with the next state. All are comparable.
type Move interface{ move() }

type (
	// Start starts the work of the schedule; a signal is sent after the commit, once. ID is the name
	// of the run.
	Start struct {
		Firing Firing
		ID     string
	}
	// End ends an earlier run, which is to be replaced.
	End struct{ ID string }
)

func (Start) move() {}
func (End) move()   {}

// Env is the input of Step besides the state.
type Env struct {
	// Now is the wall clock.
	Now time.Time
	// Earlier returns runs of a removed schedule of this name that may still run: they count as runs
	// of this one. nil = there are none.
	Earlier func() []Run
	Key     Key
	Cron    cron.Schedule
	// Definition of the schedule.
	Definition *Definition
	// Runs answers for a run that may still run; nil = all have ended.
	Runs func(Run) Answer
	// Outcome is how a run ended that Runs answers Ended for; "" or nil = unknown.
	Outcome func(Run) string
	// Other answers for work of the schedule that is not among its runs, names one and counts it: its job,
	// started by anyone (it may have been applied, retried or rerun by hand), or a task of which a
	// restored store has no row. id is the run that is to start. nil = there is none.
	Other func(id string) (Answer, string, int)
	// Free reports whether a name for a run is free; nil = all are.
	Free func(id string) bool
}
