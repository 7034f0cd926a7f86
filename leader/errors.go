package leader

import (
	"cantina/api"
	"cantina/bbs"
	"cantina/registry"
	"cantina/scheduler"
	"cantina/store"
	"cantina/timetable"
	"cantina/worker"
)

// Aliases say to the API what the errors of the leader's loops mean: the API knows
// none of them (docs/decisions/0803).
func Aliases() []api.Alias {
	return []api.Alias{
		{Err: bbs.ErrServiceNotFound, As: api.ErrNotFound},
		{Err: bbs.ErrCollected, As: api.ErrCollected},
		{Err: bbs.ErrRevision, As: api.ErrRevision},
		{Err: bbs.ErrKeyReused, As: api.ErrKeyReused},
		{Err: bbs.ErrQuarantined, As: api.ErrConflict},
		{Err: bbs.ErrInvalid, As: api.ErrInvalid},
		{Err: bbs.ErrOver, As: api.ErrTermOver},
		{Err: scheduler.ErrOver, As: api.ErrTermOver},
		{Err: scheduler.ErrInvalid, As: api.ErrInvalid},
		{Err: scheduler.ErrTaken, As: api.ErrExists},
		{Err: scheduler.ErrQuarantined, As: api.ErrConflict},
		{Err: timetable.ErrOver, As: api.ErrTermOver},
		{Err: timetable.ErrQuarantined, As: api.ErrConflict},
		{Err: timetable.ErrRevision, As: api.ErrRevision},
		{Err: timetable.ErrTaken, As: api.ErrExists},
		{Err: registry.ErrOver, As: api.ErrTermOver},
		{Err: worker.ErrDeposed, As: api.ErrTermOver},
		{Err: store.ErrFull, As: api.ErrFull},
		{Err: store.ErrTooLarge, As: api.ErrTooLarge},
		{Err: store.ErrUnsettled, As: api.ErrUnknownOutcome},
		{Err: store.ErrLeaseNotProven, As: api.ErrTermOver},
		{Err: store.ErrLeaseGone, As: api.ErrTermOver},
		{Err: store.ErrResigned, As: api.ErrTermOver},
		{Err: store.ErrQuarantined, As: api.ErrConflict},
		{Err: store.ErrNotQuarantined, As: api.ErrNotFound},
	}
}
