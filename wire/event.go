package wire

import (
	"errors"
	"fmt"

	"cantina/internal/text"
	"cantina/lrp"
	"cantina/task"
	pb "cantina/wire/cantinav1"
	"cantina/worker"
)

// LRPCall is one event of a cell's harmoniser with the index it is about.
type LRPCall struct {
	Key     lrp.Key
	Service lrp.ServiceKey
	// Event is one of the events of a cell: Claim … RemoveEvacuating.
	Event lrp.Event
}

// FromLRPCall is the wire form of one event of a harmoniser; events that cells do
// not send give ErrMalformed.
func FromLRPCall(c LRPCall) (*pb.LRPEvent, error) {
	m := &pb.LRPEvent{Key: FromLRPKey(c.Key), Service: FromServiceKey(c.Service)}
	switch e := c.Event.(type) {
	case lrp.Claim:
		m.Instance, m.Kind = e.By.Instance, &pb.LRPEvent_Claim{Claim: &pb.LRPEvent_Claimed{}}
	case lrp.Start:
		m.Instance, m.Kind = e.By.Instance, &pb.LRPEvent_Start{Start: &pb.LRPEvent_Started{Net: FromNet(e.Net),
			Exclusive: e.Exclusive}}
	case lrp.Crash:
		m.Instance, m.Kind = e.By.Instance, &pb.LRPEvent_Crash{Crash: &pb.LRPEvent_Ended{Reason: text.Clean(e.Reason),
			Clean: e.Clean}}
	case lrp.Remove:
		m.Instance, m.Kind = e.By.Instance, &pb.LRPEvent_Remove{Remove: &pb.LRPEvent_Removed{}}
	case lrp.Evacuate:
		m.Instance, m.Kind = e.By.Instance, &pb.LRPEvent_Evacuate{Evacuate: &pb.LRPEvent_Evacuating{Net: FromNet(e.Net),
			Until: FromTime(e.Until)}}
	case lrp.EvacuateClaimed:
		m.Instance, m.Kind = e.By.Instance, &pb.LRPEvent_EvacuateClaimed{EvacuateClaimed: &pb.LRPEvent_EvacuatedClaimed{}}
	case lrp.EvacuateStopped:
		m.Instance, m.Kind = e.By.Instance, &pb.LRPEvent_EvacuateStopped{EvacuateStopped: &pb.LRPEvent_EvacuatedStopped{}}
	case lrp.EvacuateCrashed:
		m.Instance, m.Kind = e.By.Instance,
			&pb.LRPEvent_EvacuateCrashed{EvacuateCrashed: &pb.LRPEvent_Ended{Reason: text.Clean(e.Reason), Clean: e.Clean}}
	case lrp.RemoveEvacuating:
		m.Instance, m.Kind = e.By.Instance, &pb.LRPEvent_RemoveEvacuating{RemoveEvacuating: &pb.LRPEvent_RemovedEvacuating{}}
	default:
		return nil, fmt.Errorf("event %T is not a cell's: %w", c.Event, ErrMalformed)
	}
	return m, nil
}

// ToLRPCall is the inverse of FromLRPCall; the cell and its process are those of
// the caller, never the message's. It returns ErrMalformed.
func ToLRPCall(m *pb.LRPEvent, cell worker.CellName, proc worker.Proc) (LRPCall, error) {
	r := &reader{}
	c := LRPCall{Key: r.lrpKey("key", m.GetKey()), Service: ToServiceKey(m.GetService())}
	by := lrp.Identity{Instance: m.GetInstance(), Cell: string(cell), Proc: string(proc)}
	r.named("instance", by.Instance)
	switch k := m.GetKind().(type) {
	case *pb.LRPEvent_Claim:
		c.Event = lrp.Claim{By: by}
	case *pb.LRPEvent_Start:
		c.Event = lrp.Start{By: by, Net: r.net(k.Start.GetNet()), Service: c.Service, Exclusive: k.Start.GetExclusive()}
	case *pb.LRPEvent_Crash:
		c.Event = lrp.Crash{By: by, Reason: k.Crash.GetReason(), Clean: k.Crash.GetClean()}
	case *pb.LRPEvent_Remove:
		c.Event = lrp.Remove{By: by}
	case *pb.LRPEvent_Evacuate:
		c.Event = lrp.Evacuate{By: by, Net: r.net(k.Evacuate.GetNet()), Until: r.time("until", k.Evacuate.GetUntil())}
	case *pb.LRPEvent_EvacuateClaimed:
		c.Event = lrp.EvacuateClaimed{By: by}
	case *pb.LRPEvent_EvacuateStopped:
		c.Event = lrp.EvacuateStopped{By: by}
	case *pb.LRPEvent_EvacuateCrashed:
		c.Event = lrp.EvacuateCrashed{By: by, Reason: k.EvacuateCrashed.GetReason(), Clean: k.EvacuateCrashed.GetClean()}
	case *pb.LRPEvent_RemoveEvacuating:
		c.Event = lrp.RemoveEvacuating{By: by}
	default:
		r.fail("event", "no kind")
	}
	return c, r.err
}

// TaskCall is one event of a cell with the task it is about.
type TaskCall struct {
	GUID string
	// Event is one of Start, Complete, Missing, Adopt, Reject.
	Event task.Event
}

// FromTaskCall is the wire form of one event of a cell; others give ErrMalformed.
func FromTaskCall(c TaskCall) (*pb.TaskEvent, error) {
	m := &pb.TaskEvent{Guid: c.GUID}
	switch e := c.Event.(type) {
	case task.Start:
		m.Uid, m.Kind = e.UID, &pb.TaskEvent_Start{Start: &pb.TaskEvent_Started{Reservation: e.Reservation, Live: e.Live}}
	case task.Complete:
		m.Uid, m.Kind = e.UID, &pb.TaskEvent_Complete{Complete: FromTaskResult(e.Result)}
	case task.Missing:
		m.Uid, m.Kind = e.UID, &pb.TaskEvent_Missing_{Missing: &pb.TaskEvent_Missing{}}
	case task.Adopt:
		m.Uid, m.Kind = e.UID, &pb.TaskEvent_Adopt{Adopt: &pb.TaskEvent_Adopted{From: e.From}}
	case task.Reject:
		m.Uid, m.Kind = e.UID, &pb.TaskEvent_Reject{Reject: &pb.TaskEvent_Rejected{Reason: text.Clean(e.Reason),
			Never: e.Never, Carried: e.Carried}}
	default:
		return nil, fmt.Errorf("event %T is not a cell's: %w", c.Event, ErrMalformed)
	}
	return m, nil
}

// ToTaskCall is the inverse of FromTaskCall; the holder is the caller. It returns
// ErrMalformed.
func ToTaskCall(m *pb.TaskEvent, cell worker.CellName, proc worker.Proc) (TaskCall, error) {
	r := &reader{}
	r.named("guid", m.GetGuid())
	r.named("uid", m.GetUid())
	by := task.Holder{Cell: string(cell), Proc: string(proc)}
	c := TaskCall{GUID: m.GetGuid()}
	switch k := m.GetKind().(type) {
	case *pb.TaskEvent_Start:
		c.Event = task.Start{UID: m.GetUid(), By: by, Reservation: k.Start.GetReservation(), Live: k.Start.GetLive()}
	case *pb.TaskEvent_Complete:
		result, err := ToTaskResult(k.Complete)
		if err != nil {
			r.fail("complete", err.Error())
		}
		c.Event = task.Complete{UID: m.GetUid(), By: by, Result: result}
	case *pb.TaskEvent_Missing_:
		c.Event = task.Missing{UID: m.GetUid(), By: by}
	case *pb.TaskEvent_Adopt:
		c.Event = task.Adopt{UID: m.GetUid(), From: k.Adopt.GetFrom(), By: by}
	case *pb.TaskEvent_Reject:
		c.Event = task.Reject{UID: m.GetUid(), Reason: k.Reject.GetReason(), Never: k.Reject.GetNever(),
			Carried: k.Reject.GetCarried(), By: by}
	default:
		r.fail("event", "no kind")
	}
	return c, r.err
}

// FromEventError is the answer to one event: nil means applied and durable. An
// error that is not in the table is an unknown outcome and false: the whole call
// must fail, so that the cell learns nothing.
func FromEventError(err error) (*pb.EventAnswer, bool) {
	if err == nil {
		return &pb.EventAnswer{}, true
	}
	a := &pb.EventAnswer{Reason: text.Clean(err.Error())}
	for _, e := range eventErrors() {
		if errors.Is(err, e.err) {
			a.Code = e.code
			return a, true
		}
	}
	return nil, false
}

// ToEventError is the inverse of FromEventError: the sentinel of lrp or task (lrp for an event of
// an LRP), or ErrRefused for a final refusal.
func ToEventError(a *pb.EventAnswer) error {
	if a.GetCode() == pb.EventCode_EVENT_CODE_OK {
		return nil
	}
	for _, e := range eventErrors() {
		if e.code == a.GetCode() {
			return fmt.Errorf("%s: %w", a.GetReason(), errors.Join(e.all...))
		}
	}
	return fmt.Errorf("%s: %w", a.GetReason(), ErrRefused)
}

// ErrRefused is a cell's name for an event that the leader finally refused.
var ErrRefused = errors.New("refused by the leader")

type eventError struct {
	err  error
	code pb.EventCode
	all  []error // errors that the cell may test with errors.Is
}

func eventErrors() []eventError {
	refused := func(err error) eventError {
		return eventError{err, pb.EventCode_EVENT_CODE_REFUSED, []error{ErrRefused}}
	}
	notFound := []error{lrp.ErrNotFound, task.ErrNotFound}
	notEligible := []error{lrp.ErrNotEligible, task.ErrNotEligible}
	return []eventError{
		{lrp.ErrNotFound, pb.EventCode_EVENT_CODE_NOT_FOUND, notFound},
		{task.ErrNotFound, pb.EventCode_EVENT_CODE_NOT_FOUND, notFound},
		{lrp.ErrNotEligible, pb.EventCode_EVENT_CODE_NOT_ELIGIBLE, notEligible},
		{task.ErrNotEligible, pb.EventCode_EVENT_CODE_NOT_ELIGIBLE, notEligible},
		{lrp.ErrNotProven, pb.EventCode_EVENT_CODE_NOT_PROVEN, []error{lrp.ErrNotProven}},
		{lrp.ErrNotYet, pb.EventCode_EVENT_CODE_NOT_YET, []error{lrp.ErrNotYet}},
		{task.ErrOtherUID, pb.EventCode_EVENT_CODE_OTHER_UID, []error{task.ErrOtherUID}},
		{ErrMalformed, pb.EventCode_EVENT_CODE_MALFORMED, []error{ErrMalformed, ErrRefused}},
		refused(lrp.ErrCannotBeClaimed), refused(lrp.ErrCannotBeStarted), refused(lrp.ErrCannotBeCrashed),
		refused(lrp.ErrCannotBeFailed), refused(lrp.ErrCannotBeRemoved), refused(lrp.ErrCannotBeEvacuated),
		refused(task.ErrInvalidStateTransition), refused(task.ErrRunningOnDifferentCell),
	}
}
