package wire

import (
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"
	"time"

	"cantina/internal/text"
	"cantina/lrp"
	"cantina/task"
	pb "cantina/wire/cantinav1"
)

func (r *reader) time(place string, t *timestamppb.Timestamp) time.Time {
	out, err := ToTime(t)
	if err != nil {
		r.fail(place, "impossible time")
	}
	return out
}

// FromServiceKey is the wire form of a service's key.
func FromServiceKey(k lrp.ServiceKey) *pb.ServiceKey {
	return &pb.ServiceKey{Domain: k.Domain, Name: k.Name}
}

// ToServiceKey is the zero key for nil.
func ToServiceKey(m *pb.ServiceKey) lrp.ServiceKey {
	return lrp.ServiceKey{Domain: m.GetDomain(), Name: m.GetName()}
}

// FromLRPKey is the wire form of an index's key.
func FromLRPKey(k lrp.Key) *pb.LRPKey { return &pb.LRPKey{Process: k.Process, Index: int32(k.Index)} }

// ToLRPKey returns ErrMalformed for a key that names no index.
func ToLRPKey(m *pb.LRPKey) (lrp.Key, error) {
	r := &reader{}
	k := r.lrpKey("key", m)
	return k, r.err
}

func (r *reader) lrpKey(place string, m *pb.LRPKey) lrp.Key {
	if m.GetProcess() == "" || m.GetIndex() < 0 {
		r.fail(place, "no such index")
	}
	return lrp.Key{Process: m.GetProcess(), Index: int(m.GetIndex())}
}

// FromIdentity is nil for the zero identity.
func FromIdentity(i lrp.Identity) *pb.Identity {
	if i == (lrp.Identity{}) {
		return nil
	}
	return &pb.Identity{Instance: i.Instance, Cell: i.Cell, Proc: i.Proc}
}

// ToIdentity is the zero identity for nil.
func ToIdentity(m *pb.Identity) lrp.Identity {
	return lrp.Identity{Instance: m.GetInstance(), Cell: m.GetCell(), Proc: m.GetProc()}
}

// FromNet is nil when there is nothing to reach.
func FromNet(n lrp.Net) *pb.Net {
	if n.Equal(lrp.Net{}) {
		return nil
	}
	return &pb.Net{Address: n.Address, Ports: FromMappings(n.Ports), Routable: n.Routable, Zone: n.Zone,
		Stopping: n.Stopping, StopBy: FromTime(n.StopBy)}
}

// net is the zero Net for nil.
func (r *reader) net(m *pb.Net) lrp.Net {
	return lrp.Net{Address: m.GetAddress(), Ports: ToMappings(m.GetPorts()), Routable: m.GetRoutable(), Zone: m.GetZone(),
		Stopping: m.GetStopping(), StopBy: r.time("stop_by", m.GetStopBy())}
}

// FromLastCrash is nil when there was none.
func FromLastCrash(c lrp.LastCrash) *pb.LastCrash {
	if c == (lrp.LastCrash{}) {
		return nil
	}
	return &pb.LastCrash{Reason: text.Clean(c.Reason), Cell: c.Cell, At: FromTime(c.At)}
}

func (r *reader) lastCrash(m *pb.LastCrash) lrp.LastCrash {
	return lrp.LastCrash{Reason: m.GetReason(), Cell: m.GetCell(), At: r.time("at", m.GetAt())}
}

// fromPreempted is nil for an instance that is not stopped for other work.
func fromPreempted(p lrp.Preempted) *pb.Preempted {
	if p == (lrp.Preempted{}) {
		return nil
	}
	return &pb.Preempted{By: text.Clean(p.By), Priority: int32(p.Priority), Cell: p.Cell, At: FromTime(p.At)}
}

func (r *reader) preempted(m *pb.Preempted) lrp.Preempted {
	return lrp.Preempted{By: m.GetBy(), Priority: int(m.GetPriority()), Cell: m.GetCell(), At: r.time("at", m.GetAt())}
}

// FromActual is the wire form of one row of an index.
func FromActual(a *lrp.Actual) *pb.ActualLRP {
	return &pb.ActualLRP{
		Key: FromLRPKey(a.Key), Service: FromServiceKey(a.Service), Presence: pb.Presence(a.Presence),
		State:    pb.LRPState(a.State),
		Identity: FromIdentity(a.Identity), Net: FromNet(a.Net), Exclusive: a.Exclusive,
		CrashCount: int32(a.CrashCount), CrashReason: text.Clean(a.CrashReason), PlacementError: text.Clean(a.PlacementError),
		Since: FromTime(a.Since), Expires: FromTime(a.Expires), Retiring: a.Retiring, Finished: a.Finished,
		Unheard: a.Unheard, Moving: a.Moving,
		NotBefore: FromTime(a.NotBefore), Replaces: FromIdentity(a.Replaces), LastCrash: FromLastCrash(a.LastCrash),
		Preempted: fromPreempted(a.Preempted),
	}
}

// ToActual is the inverse of FromActual. It returns ErrMalformed.
func ToActual(m *pb.ActualLRP) (*lrp.Actual, error) {
	r := &reader{}
	a := &lrp.Actual{
		Key: r.lrpKey("key", m.GetKey()), Service: ToServiceKey(m.GetService()),
		Presence: lrp.Presence(r.enum("presence", pb.Presence_name, int32(m.GetPresence()))),
		State:    lrp.State(r.enum("state", pb.LRPState_name, int32(m.GetState()))),
		Identity: ToIdentity(m.GetIdentity()), Net: r.net(m.GetNet()), Exclusive: m.GetExclusive(),
		CrashCount: int(m.GetCrashCount()), CrashReason: m.GetCrashReason(), PlacementError: m.GetPlacementError(),
		Since: r.time("since", m.GetSince()), Expires: r.time("expires", m.GetExpires()), Retiring: m.GetRetiring(),
		Finished: m.GetFinished(), Unheard: m.GetUnheard(), Moving: m.GetMoving(),
		NotBefore: r.time("not_before", m.GetNotBefore()), Replaces: ToIdentity(m.GetReplaces()),
		LastCrash: r.lastCrash(m.GetLastCrash()), Preempted: r.preempted(m.GetPreempted()),
	}
	return a, r.err
}

// FromIndex is the wire form of all rows of an index.
func FromIndex(x lrp.Index) *pb.LRPIndex {
	return &pb.LRPIndex{Key: FromLRPKey(x.Key), Rows: each(x.Rows(), FromActual)}
}

// ToIndex is the inverse of FromIndex. Two rows of one presence, or rows of
// another index, are ErrMalformed.
func ToIndex(m *pb.LRPIndex) (lrp.Index, error) {
	key, err := ToLRPKey(m.GetKey())
	if err != nil {
		return lrp.Index{}, err
	}
	x := lrp.Index{Key: key}
	for _, row := range m.GetRows() {
		a, err := ToActual(row)
		if err != nil {
			return lrp.Index{}, err
		}
		at := &x.Ordinary
		switch a.Presence {
		case lrp.Evacuating:
			at = &x.Evacuating
		case lrp.Suspect:
			at = &x.Suspect
		}
		if *at != nil || a.Key != key {
			return lrp.Index{}, fmt.Errorf("rows of %v: %w", key, ErrMalformed)
		}
		*at = a
	}
	return x, nil
}

// FromTaskRow is the part of a task that a cell's harmoniser needs.
func FromTaskRow(t *task.Task) *pb.TaskRow {
	return &pb.TaskRow{
		Guid: t.GUID, Uid: t.UID, Domain: t.Domain, State: pb.TaskState(t.State), Outcome: pb.TaskOutcome(t.Outcome),
		Holder: fromHolder(t.Holder), Reservation: t.Reservation, MayStillRun: t.MayStillRun,
	}
}

// ToTaskRow gives the row without definition and result. It returns ErrMalformed.
func ToTaskRow(m *pb.TaskRow) (*task.Task, error) {
	r := &reader{}
	r.named("guid", m.GetGuid())
	t := &task.Task{
		GUID: m.GetGuid(), UID: m.GetUid(), Domain: m.GetDomain(),
		State:   task.State(r.enum("state", pb.TaskState_name, int32(m.GetState()))),
		Outcome: task.Outcome(r.enum("outcome", pb.TaskOutcome_name, int32(m.GetOutcome()))),
		Holder:  task.Holder{Cell: m.GetHolder().GetCell(), Proc: m.GetHolder().GetProc()}, Reservation: m.GetReservation(),
		MayStillRun: m.GetMayStillRun(),
	}
	return t, r.err
}

func fromHolder(h task.Holder) *pb.Holder {
	if h == (task.Holder{}) {
		return nil
	}
	return &pb.Holder{Cell: h.Cell, Proc: h.Proc}
}

// FromTaskResult is the wire form of how a task's container ended.
func FromTaskResult(x task.Result) *pb.TaskResult {
	return &pb.TaskResult{
		Failed: x.Failed, Cancelled: x.Cancelled, Ordered: x.Ordered, Lost: x.Lost,
		OutputLost: x.OutputLost, Reason: text.Clean(x.Reason),
		Output:   x.Output,
		ExitCode: int32(x.ExitCode), Signal: int32(x.Signal), Oom: x.OOM, Started: FromTime(x.Started),
		Ended: FromTime(x.Ended),
	}
}

// ToTaskResult is the inverse of FromTaskResult. It returns ErrMalformed.
func ToTaskResult(m *pb.TaskResult) (task.Result, error) {
	r := &reader{}
	x := task.Result{
		Failed: m.GetFailed(), Cancelled: m.GetCancelled(), Ordered: m.GetOrdered(), Lost: m.GetLost(),
		OutputLost: m.GetOutputLost(),
		Reason:     m.GetReason(), Output: m.GetOutput(),
		ExitCode: int(m.GetExitCode()), Signal: int(m.GetSignal()), OOM: m.GetOom(),
		Started: r.time("started", m.GetStarted()), Ended: r.time("ended", m.GetEnded()),
	}
	return x, r.err
}
