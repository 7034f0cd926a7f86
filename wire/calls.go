package wire

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"cantina/batch"
	"cantina/fence"
	pb "cantina/wire/cantinav1"
	"cantina/worker"
)

// ToRunTasks splits a batched runTask into the calls of the protocol; the work stays in the
// message. It returns ErrMalformed.
func ToRunTasks(m *pb.RunTasksRequest) ([]worker.RunTask, error) {
	t, p, err := ToCallee(m.GetTo())
	if err != nil {
		return nil, err
	}
	r := &reader{}
	out := eachAt(m.GetTasks(), func(i int, x *pb.RunTask) worker.RunTask {
		call := worker.RunTask{Term: t, Proc: p, Seq: m.GetSeq(), Probe: x.GetProbe(), Beat: x.GetBeat()}
		at := fmt.Sprintf("tasks[%d]", i)
		if call.Probe < 0 {
			r.fail(at+".probe", "a negative number")
		}
		if call.Probe <= 0 {
			call.Run = r.batchRun(at, x.GetRun())
			if w := x.GetWorkload(); w < 1 || int(w) > len(m.GetWorkloads()) {
				r.fail(at, "no workload")
			}
		}
		return call
	})
	return out, r.err
}

// FromRunTask is the wire form of one runTask without its work.
func FromRunTask(c worker.RunTask) *pb.RunTask {
	if c.Probe > 0 {
		return &pb.RunTask{Probe: c.Probe, Beat: c.Beat}
	}
	return &pb.RunTask{Run: FromRun(c.Run), Beat: c.Beat}
}

// FromRunAnswer is the wire form of the cell's answer to one runTask; probe is the
// number of the probe, or 0.
func FromRunAnswer(a worker.RunAnswer, probe int64) *pb.RunAnswer {
	m := &pb.RunAnswer{Reason: a.Reason, Probe: probe}
	if probe == 0 {
		m.Run = FromRun(a.Run)
	}
	switch a.Result {
	case worker.RunOK:
		m.Verdict = pb.RunVerdict_RUN_VERDICT_OK
	case worker.RunRefused:
		m.Verdict = pb.RunVerdict_RUN_VERDICT_REFUSED
	case worker.RunStale:
		m.Verdict = pb.RunVerdict_RUN_VERDICT_STALE
	case worker.RunUnknown, worker.RunNeverSent:
		m.Verdict = pb.RunVerdict_RUN_VERDICT_UNKNOWN
	}
	return m
}

// ToRunAnswers reads the answers to a batched runTask. A response that does not
// have one answer for each task proves nothing: ErrMalformed.
func ToRunAnswers(m *pb.RunTasksResponse, asked []worker.RunTask) ([]worker.RunAnswer, error) {
	if len(m.GetAnswers()) != len(asked) {
		return nil, fmt.Errorf("%d answers to %d tasks: %w", len(m.GetAnswers()), len(asked), ErrMalformed)
	}
	return eachAt(m.GetAnswers(), func(i int, a *pb.RunAnswer) worker.RunAnswer {
		out := worker.RunAnswer{Term: ToTerm(m.GetTerm()), Proc: worker.Proc(m.GetProc()), Run: asked[i].Run,
			Reason: a.GetReason()}
		switch a.GetVerdict() {
		case pb.RunVerdict_RUN_VERDICT_OK:
			out.Result = worker.RunOK
		case pb.RunVerdict_RUN_VERDICT_REFUSED:
			out.Result = worker.RunRefused
		case pb.RunVerdict_RUN_VERDICT_STALE:
			out.Result = worker.RunStale
		default:
			out.Result = worker.RunUnknown
		}
		if asked[i].Probe == 0 && ToInvocation(a.GetRun().GetInvocation()) != asked[i].Invocation {
			out.Result, out.Reason = worker.RunUnknown, "the answer is about another invocation"
		}
		return out
	}), nil
}

// FromNotify is the wire form of notifyIfTasksNotRunning.
func FromNotify(n worker.Notify) *pb.NotifyIfTasksNotRunningRequest {
	return &pb.NotifyIfTasksNotRunningRequest{To: FromCallee(n.Term, n.Proc), Seq: n.Seq, Runs: each(n.Runs, FromRun)}
}

// ToNotify is the inverse of FromNotify. It returns ErrMalformed.
func ToNotify(m *pb.NotifyIfTasksNotRunningRequest) (worker.Notify, error) {
	t, p, err := ToCallee(m.GetTo())
	r := &reader{err: err}
	return worker.Notify{Term: t, Proc: p, Seq: m.GetSeq(), Runs: r.runs(m.GetRuns())}, r.err
}

// FromNotifyAnswer is the wire form of its answer.
func FromNotifyAnswer(a worker.NotifyAnswer) *pb.NotifyIfTasksNotRunningResponse {
	return &pb.NotifyIfTasksNotRunningResponse{Term: FromTerm(a.Term), Proc: string(a.Proc), Seq: a.Seq, Ok: a.OK}
}

// ToNotifyAnswer is the inverse of FromNotifyAnswer.
func ToNotifyAnswer(m *pb.NotifyIfTasksNotRunningResponse) worker.NotifyAnswer {
	return worker.NotifyAnswer{Term: ToTerm(m.GetTerm()), Proc: worker.Proc(m.GetProc()), Seq: m.GetSeq(), OK: m.GetOk()}
}

// ToKills splits a batched killTask. It returns ErrMalformed.
func ToKills(m *pb.KillTaskRequest) ([]worker.KillTask, error) {
	t, p, err := ToCallee(m.GetTo())
	r := &reader{err: err}
	return each(r.runs(m.GetRuns()), func(x worker.Run) worker.KillTask {
		return worker.KillTask{Term: t, Proc: p, Run: x}
	}), r.err
}

// FromSuicide is the wire form of requestSuicide.
func FromSuicide(s worker.Suicide) *pb.RequestSuicideRequest {
	return &pb.RequestSuicideRequest{To: FromCallee(s.Term, s.Proc), All: s.All}
}

// ToSuicide returns ErrMalformed when the process is missing.
func ToSuicide(m *pb.RequestSuicideRequest) (worker.Suicide, error) {
	t, p, err := ToCallee(m.GetTo())
	return worker.Suicide{Term: t, Proc: p, All: m.GetAll()}, err
}

// FromUpdateStatus is the wire form of updateStatus.
func FromUpdateStatus(u worker.UpdateStatus) *pb.UpdateStatusRequest {
	return &pb.UpdateStatusRequest{
		From: FromCaller(u.Cluster, u.Term, u.Cell, u.Proc),
		Items: each(u.Items, func(i worker.StatusItem) *pb.StatusItem {
			m := &pb.StatusItem{Kind: pb.StatusKind(i.Kind), Probe: i.Probe, Ok: i.OK, Reason: i.Reason}
			if i.Kind != worker.StatusProbe {
				m.Run, m.Status = FromRun(i.Run), []byte(i.Status)
			}
			return m
		}),
	}
}

// ToUpdateStatus is the inverse of FromUpdateStatus. It returns ErrMalformed.
func ToUpdateStatus(m *pb.UpdateStatusRequest) (worker.UpdateStatus, error) {
	t, c, p, err := ToCaller(m.GetFrom())
	r := &reader{err: err}
	u := worker.UpdateStatus{Cluster: fence.Cluster(m.GetFrom().GetCluster()), Term: t, Cell: c, Proc: p}
	u.Items = eachAt(m.GetItems(), func(i int, x *pb.StatusItem) worker.StatusItem {
		at := fmt.Sprintf("items[%d]", i)
		out := worker.StatusItem{
			Kind:  worker.StatusKind(r.enum(at, pb.StatusKind_name, int32(x.GetKind()))),
			Probe: x.GetProbe(), OK: x.GetOk(), Reason: x.GetReason(), Status: string(x.GetStatus()),
		}
		if out.Kind != worker.StatusProbe {
			out.Run = r.batchRun(at, x.GetRun())
		}
		return out
	})
	return u, r.err
}

// ToStatusAnswers reads the answers to an updateStatus, one for each item; a
// response with another number of answers acknowledges nothing: ErrMalformed.
func ToStatusAnswers(m *pb.UpdateStatusResponse, asked []worker.StatusItem) ([]worker.StatusAnswer, error) {
	if len(m.GetOk()) != len(asked) {
		return nil, fmt.Errorf("%d answers to %d items: %w", len(m.GetOk()), len(asked), ErrMalformed)
	}
	return eachAt(m.GetOk(), func(i int, ok bool) worker.StatusAnswer {
		return worker.StatusAnswer{
			Term: ToTerm(m.GetTerm()), Proc: worker.Proc(m.GetProc()), Kind: asked[i].Kind, Run: asked[i].Run,
			Probe: asked[i].Probe, OK: ok,
		}
	}), nil
}

// FromBatchEnd is the content of StatusItem.Status: how an invocation ended, and
// the last line of its status pipe (nil = none).
func FromBatchEnd(e batch.Ended, status []byte) *pb.BatchEnd {
	return &pb.BatchEnd{
		ExitCode: int32(e.ExitCode), Signal: int32(e.Signal), Killed: e.Killed, TimedOut: e.TimedOut, Reason: e.Reason,
		Status: status,
		Again:  pb.BatchAgain(e.Again),
	}
}

// ToBatchEnd is the inverse of FromBatchEnd.
func ToBatchEnd(m *pb.BatchEnd) (batch.Ended, []byte) {
	return batch.Ended{
		ExitCode: int(m.GetExitCode()), Signal: int(m.GetSignal()), Killed: m.GetKilled(), TimedOut: m.GetTimedOut(),
		Reason: m.GetReason(),
		Again:  batch.Again(m.GetAgain()),
	}, m.Status
}

// EncodeBatchEnd returns the bytes of FromBatchEnd, as a StatusItem carries them.
func EncodeBatchEnd(e batch.Ended, status []byte) (string, error) {
	text, err := proto.Marshal(FromBatchEnd(e, status))
	if err != nil {
		return "", fmt.Errorf("batch end: %w", err)
	}
	return string(text), nil
}

// DecodeBatchEnd is the inverse of EncodeBatchEnd.
func DecodeBatchEnd(text string) (batch.Ended, []byte, error) {
	var m pb.BatchEnd
	if err := proto.Unmarshal([]byte(text), &m); err != nil {
		return batch.Ended{}, nil, fmt.Errorf("batch end: %w", err)
	}
	e, status := ToBatchEnd(&m)
	return e, status, nil
}
