package wire

import (
	"fmt"

	"cantina/fence"
	pb "cantina/wire/cantinav1"
	"cantina/worker"
	"cantina/workerset"
)

// FromSet is nil for "no set seen".
func FromSet(i workerset.ID) *pb.SetID {
	if i.IsZero() {
		return nil
	}
	h := i.Hash
	return &pb.SetID{Leader: FromTerm(i.Leader), Version: i.Version, Hash: &pb.SetHash{
		Count: int64(h.Count), Sum1: h.Sum1, Xor1: h.Xor1, Sum2: h.Sum2, Xor2: h.Xor2,
	}}
}

// ToSet is "no set seen" for nil.
func ToSet(m *pb.SetID) workerset.ID {
	h := m.GetHash()
	return workerset.ID{Leader: ToTerm(m.GetLeader()), Version: m.GetVersion(), Hash: workerset.Hash{
		Count: int(h.GetCount()), Sum1: h.GetSum1(), Xor1: h.GetXor1(), Sum2: h.GetSum2(), Xor2: h.GetXor2(),
	}}
}

// FromHeartbeat is the wire form of a heartbeat; the shell adds CellState.
func FromHeartbeat(b worker.Heartbeat) *pb.HeartbeatRequest {
	return &pb.HeartbeatRequest{
		From:     FromCaller(b.Cluster, b.Term, b.Cell, b.Proc),
		Protocol: int32(b.Protocol), DirId: b.DirID, Started: b.Started, Boot: b.Boot, Beat: b.Beat, Epoch: b.Epoch,
		Set: FromSet(b.SetID), HasWork: b.HasWork, Promise: FromDuration(b.Promise), Period: FromDuration(b.Period),
		Predecessor: string(b.Predecessor), PredecessorsGone: b.PredecessorsGone, Deregister: b.Deregister,
		Returns: b.Returns,
	}
}

// ToHeartbeat is the inverse of FromHeartbeat. It returns ErrMalformed.
func ToHeartbeat(m *pb.HeartbeatRequest) (worker.Heartbeat, error) {
	r := &reader{}
	from := m.GetFrom()
	b := worker.Heartbeat{
		Protocol: int(m.GetProtocol()), Cluster: fence.Cluster(from.GetCluster()), Term: ToTerm(from.GetTerm()),
		Cell: worker.CellName(from.GetCell()), Proc: worker.Proc(from.GetProc()),
		DirID: m.GetDirId(), Started: m.GetStarted(), Boot: m.GetBoot(), Beat: m.GetBeat(), Epoch: m.GetEpoch(),
		SetID: ToSet(m.GetSet()), HasWork: m.GetHasWork(),
		Promise: r.duration("promise", m.GetPromise()), Period: r.duration("period", m.GetPeriod()),
		Predecessor: worker.Proc(m.GetPredecessor()), PredecessorsGone: m.GetPredecessorsGone(),
		Deregister: m.GetDeregister(), Returns: m.GetReturns(),
	}
	r.named("cell", from.GetCell())
	r.named("proc", from.GetProc())
	return b, r.err
}

func (r *reader) named(place, name string) {
	if name == "" {
		r.fail(place, "missing")
	}
}

// FromCaller names the cell process that calls.
func FromCaller(cluster fence.Cluster, t fence.Term, cell worker.CellName, proc worker.Proc) *pb.Caller {
	return &pb.Caller{Cluster: string(cluster), Term: FromTerm(t), Cell: string(cell), Proc: string(proc)}
}

// ToCaller returns ErrMalformed when cell or process is missing.
func ToCaller(m *pb.Caller) (fence.Term, worker.CellName, worker.Proc, error) {
	r := &reader{}
	r.named("from.cell", m.GetCell())
	r.named("from.proc", m.GetProc())
	return ToTerm(m.GetTerm()), worker.CellName(m.GetCell()), worker.Proc(m.GetProc()), r.err
}

// FromCallee names the cell process that is called and the leader's term; the transport adds
// its cluster.
func FromCallee(t fence.Term, proc worker.Proc) *pb.Callee {
	return &pb.Callee{Term: FromTerm(t), Proc: string(proc)}
}

// ToCallee returns ErrMalformed when the process is missing.
func ToCallee(m *pb.Callee) (fence.Term, worker.Proc, error) {
	r := &reader{}
	r.named("to.proc", m.GetProc())
	return ToTerm(m.GetTerm()), worker.Proc(m.GetProc()), r.err
}

// FromTimeouts is the wire form of the session's flags.
func FromTimeouts(t worker.Timeouts) *pb.Timeouts {
	return &pb.Timeouts{
		Heartbeat: FromDuration(t.Heartbeat), HeartbeatGrace: FromDuration(t.HeartbeatGrace),
		Healthcheck: FromDuration(t.Healthcheck), HealthcheckGrace: FromDuration(t.HealthcheckGrace),
		Check: FromDuration(t.Check), Lost: FromDuration(t.Lost), KillWait: FromDuration(t.KillWait),
		Margin:        FromDuration(t.Margin),
		DriftPerMille: int32(t.DriftPerMille), MaxDiesWithin: FromDuration(t.MaxDiesWithin),
		Lease: FromDuration(t.Lease), KeepAlive: FromDuration(t.KeepAlive), LeaseDrift: FromDuration(t.LeaseDrift),
	}
}

func (r *reader) timeouts(m *pb.Timeouts) worker.Timeouts {
	return worker.Timeouts{
		Heartbeat:        r.duration("heartbeat", m.GetHeartbeat()),
		HeartbeatGrace:   r.duration("heartbeat_grace", m.GetHeartbeatGrace()),
		Healthcheck:      r.duration("healthcheck", m.GetHealthcheck()),
		HealthcheckGrace: r.duration("healthcheck_grace", m.GetHealthcheckGrace()),
		Check:            r.duration("check", m.GetCheck()), Lost: r.duration("lost", m.GetLost()),
		KillWait: r.duration("kill_wait", m.GetKillWait()), Margin: r.duration("margin", m.GetMargin()),
		DriftPerMille: int(m.GetDriftPerMille()), MaxDiesWithin: r.duration("max_dies_within", m.GetMaxDiesWithin()),
		Lease: r.duration("lease", m.GetLease()), KeepAlive: r.duration("keep_alive", m.GetKeepAlive()),
		LeaseDrift: r.duration("lease_drift", m.GetLeaseDrift()),
	}
}

// FromHeartbeatAnswer is the wire form of the answer to a heartbeat.
func FromHeartbeatAnswer(a worker.HeartbeatAnswer) *pb.HeartbeatResponse {
	return &pb.HeartbeatResponse{
		Cluster: string(a.Cluster), Term: FromTerm(a.Term), Proc: string(a.Proc), Beat: a.Beat, Protocol: int32(a.Protocol),
		Verdict: pb.Verdict(a.Verdict), Reason: a.Reason, State: pb.SessionState(a.State), Reported: a.Reported,
		Eligible: a.Eligible,
		Credit:   a.Credit, Promise: FromDuration(a.Promise), Resolved: a.Resolved, Timeouts: FromTimeouts(a.Timeouts),
		Set: FromSet(a.SetID),
	}
}

// ToHeartbeatAnswer is the inverse of FromHeartbeatAnswer. It returns ErrMalformed.
func ToHeartbeatAnswer(m *pb.HeartbeatResponse) (worker.HeartbeatAnswer, error) {
	r := &reader{}
	a := worker.HeartbeatAnswer{
		Protocol: int(m.GetProtocol()), Cluster: fence.Cluster(m.GetCluster()), Term: ToTerm(m.GetTerm()),
		Proc: worker.Proc(m.GetProc()), Beat: m.GetBeat(),
		Verdict: worker.Verdict(r.enum("verdict", pb.Verdict_name, int32(m.GetVerdict()))), Reason: m.GetReason(),
		State:    worker.State(r.enum("state", pb.SessionState_name, int32(m.GetState()))),
		Reported: m.GetReported(), Eligible: m.GetEligible(), Credit: m.GetCredit(),
		Promise:  r.duration("promise", m.GetPromise()),
		Resolved: m.GetResolved(), Timeouts: r.timeouts(m.GetTimeouts()), SetID: ToSet(m.GetSet()),
	}
	return a, r.err
}

// FromRun is the wire form of one attempt at a batch task.
func FromRun(x worker.Run) *pb.BatchRun {
	return &pb.BatchRun{Job: x.Work.Job, Node: []byte(x.Work.Node), Invocation: FromInvocation(x.Invocation)}
}

func (r *reader) batchRun(place string, m *pb.BatchRun) worker.Run {
	x := worker.Run{Work: worker.Work{Job: m.GetJob(), Node: string(m.GetNode())},
		Invocation: ToInvocation(m.GetInvocation())}
	if x.Invocation.IsZero() {
		r.fail(place, "no invocation")
	}
	return x
}

func (r *reader) runs(ms []*pb.BatchRun) []worker.Run {
	return eachAt(ms, func(i int, m *pb.BatchRun) worker.Run { return r.batchRun(fmt.Sprintf("runs[%d]", i), m) })
}

// FromReportRequest is the wire form of getRunningTasks.
func FromReportRequest(q worker.ReportRequest) *pb.GetRunningTasksRequest {
	return &pb.GetRunningTasksRequest{To: FromCallee(q.Term, q.Proc)}
}

// ToReportRequest returns ErrMalformed when the process is missing.
func ToReportRequest(m *pb.GetRunningTasksRequest) (worker.ReportRequest, error) {
	t, p, err := ToCallee(m.GetTo())
	return worker.ReportRequest{Term: t, Proc: p}, err
}

// FromReport is the wire form of the answer to getRunningTasks.
func FromReport(x worker.Report) *pb.GetRunningTasksResponse {
	return &pb.GetRunningTasksResponse{
		Term: FromTerm(x.Term), Proc: string(x.Proc), Predecessor: string(x.Predecessor),
		PredecessorsGone: x.PredecessorsGone,
		Held: each(x.Held, func(h worker.Held) *pb.HeldRun {
			return &pb.HeldRun{Run: FromRun(h.Run), Ended: h.Ended, Adopted: h.Adopted}
		}),
		Alive: each(x.Alive, func(a worker.Alive) *pb.AliveContainer {
			return &pb.AliveContainer{Id: a.ID, Task: a.Task, Older: a.Older, Bound: a.Bound,
				Process: a.Process, Index: int32(a.Index), Domain: a.Domain, Service: a.Service}
		}),
	}
}

// ToReport is the inverse of FromReport. It returns ErrMalformed.
func ToReport(m *pb.GetRunningTasksResponse) (worker.Report, error) {
	r := &reader{}
	x := worker.Report{
		Term: ToTerm(m.GetTerm()), Proc: worker.Proc(m.GetProc()), Predecessor: worker.Proc(m.GetPredecessor()),
		PredecessorsGone: m.GetPredecessorsGone(),
		Held: eachAt(m.GetHeld(), func(i int, h *pb.HeldRun) worker.Held {
			return worker.Held{Run: r.batchRun(fmt.Sprintf("held[%d]", i), h.GetRun()), Ended: h.GetEnded(),
				Adopted: h.GetAdopted()}
		}),
		Alive: each(m.GetAlive(), func(a *pb.AliveContainer) worker.Alive {
			return worker.Alive{ID: a.GetId(), Task: a.GetTask(), Older: a.GetOlder(), Bound: a.GetBound(),
				Process: a.GetProcess(), Index: int(a.GetIndex()), Domain: a.GetDomain(), Service: a.GetService()}
		}),
	}
	return x, r.err
}
