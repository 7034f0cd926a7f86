package wire

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"cantina/batch"
	"cantina/fence"
	"cantina/internal/draw"
	"cantina/lrp"
	"cantina/task"
	pb "cantina/wire/cantinav1"
	"cantina/worker"
)

// full sets every field that can be reached to a value other than zero, so that a field that a conversion forgets
// is noticed.
func full[T any](t *testing.T) T {
	t.Helper()
	var v T
	if err := draw.Fill(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// crossed sends a message through its encoding.
func crossed[M proto.Message](t *testing.T, m M) M {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	out := m.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(b, out); err != nil {
		t.Fatal(err)
	}
	return out.(M)
}

func same[T any](t *testing.T, want, got T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("changed (-sent +received):\n%s", d)
	}
}

func TestSessionMessagesLoseNothing(t *testing.T) {
	t.Run("heartbeat", func(t *testing.T) {
		v := full[worker.Heartbeat](t)
		got, err := ToHeartbeat(crossed(t, FromHeartbeat(v)))
		same(t, v, got, err)
	})
	t.Run("heartbeat answer", func(t *testing.T) {
		v := full[worker.HeartbeatAnswer](t)
		got, err := ToHeartbeatAnswer(crossed(t, FromHeartbeatAnswer(v)))
		same(t, v, got, err)
	})
	t.Run("report", func(t *testing.T) {
		v := full[worker.Report](t)
		got, err := ToReport(crossed(t, FromReport(v)))
		same(t, v, got, err)
		q := full[worker.ReportRequest](t)
		back, err := ToReportRequest(crossed(t, FromReportRequest(q)))
		same(t, q, back, err)
	})
	t.Run("notify", func(t *testing.T) {
		v := full[worker.Notify](t)
		got, err := ToNotify(crossed(t, FromNotify(v)))
		same(t, v, got, err)
		a := full[worker.NotifyAnswer](t)
		same(t, a, ToNotifyAnswer(crossed(t, FromNotifyAnswer(a))), nil)
	})
	t.Run("suicide", func(t *testing.T) {
		v := full[worker.Suicide](t)
		got, err := ToSuicide(crossed(t, FromSuicide(v)))
		same(t, v, got, err)
	})
	t.Run("status", func(t *testing.T) {
		v := full[worker.UpdateStatus](t)
		v.Items[1] = worker.StatusItem{Kind: worker.StatusProbe, Probe: 7, OK: true, Reason: "x"}
		got, err := ToUpdateStatus(crossed(t, FromUpdateStatus(v)))
		same(t, v, got, err)
	})
	t.Run("batch end", func(t *testing.T) {
		v := full[batch.Ended](t)
		got, status := ToBatchEnd(crossed(t, FromBatchEnd(v, []byte("done\xff"))))
		same(t, v, got, nil)
		if string(status) != "done\xff" {
			t.Fatalf("status %q", status)
		}
		if _, none := ToBatchEnd(crossed(t, FromBatchEnd(v, nil))); none != nil {
			t.Fatalf("no status became %q", none)
		}
		if _, empty := ToBatchEnd(crossed(t, FromBatchEnd(v, []byte{}))); empty == nil {
			t.Fatal("an empty status became none")
		}
	})
}

func TestRunTasksKeepEachCallAndItsAnswer(t *testing.T) {
	run := full[worker.Run](t)
	run.Work.Node = "node \xff"
	call := worker.RunTask{Term: fence.Term{Epoch: 1, Revision: 2}, Proc: "p", Run: run, Seq: 9}
	probe := worker.RunTask{Term: call.Term, Proc: "p", Seq: 9, Probe: 4, Beat: 3}
	m := &pb.RunTasksRequest{To: FromCallee(call.Term, "p"), Seq: 9,
		Tasks: []*pb.RunTask{FromRunTask(call), FromRunTask(probe)}}
	if _, err := ToRunTasks(crossed(t, m)); !errors.Is(err, ErrMalformed) {
		t.Fatalf("a task without a workload: %v", err)
	}
	m.Workloads, m.Tasks[0].Workload = []*pb.Workload{{}}, 1
	got, err := ToRunTasks(crossed(t, m))
	same(t, []worker.RunTask{call, probe}, got, err)

	answers := &pb.RunTasksResponse{Term: FromTerm(call.Term), Proc: "p", Answers: []*pb.RunAnswer{
		FromRunAnswer(worker.RunAnswer{Run: run, Result: worker.RunStale, Reason: "seen"}, 0),
		FromRunAnswer(worker.RunAnswer{Result: worker.RunOK}, 4),
	}}
	back, err := ToRunAnswers(crossed(t, answers), got)
	same(t, []worker.RunAnswer{
		{Term: call.Term, Proc: "p", Run: run, Result: worker.RunStale, Reason: "seen"},
		{Term: call.Term, Proc: "p", Result: worker.RunOK},
	}, back, err)

	answers.Answers[0].Run.Invocation.Counter++
	back, err = ToRunAnswers(answers, got)
	if err != nil || back[0].Result != worker.RunUnknown {
		t.Fatalf("an answer about another invocation proves nothing, got %v, %v", back, err)
	}
	if _, err := ToRunAnswers(&pb.RunTasksResponse{}, got); !errors.Is(err, ErrMalformed) {
		t.Fatalf("answers are missing: %v", err)
	}
	if _, err := ToStatusAnswers(&pb.UpdateStatusResponse{Ok: []bool{true}}, nil); !errors.Is(err, ErrMalformed) {
		t.Fatalf("too many answers: %v", err)
	}
}

func TestRowsLoseNothing(t *testing.T) {
	var x lrp.Index
	rows := full[struct{ Ordinary, Evacuating, Suspect lrp.Actual }](t)
	for p, v := range map[lrp.Presence]*lrp.Actual{lrp.Ordinary: &rows.Ordinary, lrp.Evacuating: &rows.Evacuating,
		lrp.Suspect: &rows.Suspect} {
		v.Presence, v.Key = p, lrp.Key{Process: "p", Index: 3}
		x.Key = v.Key
		switch p {
		case lrp.Ordinary:
			x.Ordinary = v
		case lrp.Evacuating:
			x.Evacuating = v
		case lrp.Suspect:
			x.Suspect = v
		}
	}
	m := FromIndex(x)
	got, err := ToIndex(crossed(t, m))
	same(t, x, got, err)
	m.Rows = append(m.Rows, m.Rows[0])
	if _, err := ToIndex(m); !errors.Is(err, ErrMalformed) {
		t.Fatalf("two rows of one presence: %v", err)
	}

	r := full[task.Result](t)
	back, err := ToTaskResult(crossed(t, FromTaskResult(r)))
	same(t, r, back, err)

	row := &task.Task{
		GUID: "g", UID: "u", Domain: "d", State: task.Running, Outcome: task.Lost, Holder: task.Holder{Cell: "c", Proc: "p"},
		Reservation: "r", MayStillRun: true,
	}
	gotRow, err := ToTaskRow(crossed(t, FromTaskRow(row)))
	same(t, row, gotRow, err)
}

func TestEventsLoseNothingAndTrustOnlyTheCaller(t *testing.T) {
	by := lrp.Identity{Instance: "i", Cell: "c", Proc: "p"}
	net := full[lrp.Net](t)
	for _, e := range []lrp.Event{
		lrp.Claim{By: by}, lrp.Start{By: by, Net: net, Service: lrp.ServiceKey{Domain: "d", Name: "n"}, Exclusive: true},
		lrp.Crash{By: by, Reason: "r", Clean: true}, lrp.Remove{By: by},
		lrp.Evacuate{By: by, Net: net, Until: time.Unix(9, 0).UTC()}, lrp.EvacuateClaimed{By: by},
		lrp.EvacuateStopped{By: by},
		lrp.EvacuateCrashed{By: by, Reason: "r", Clean: true}, lrp.RemoveEvacuating{By: by},
	} {
		c := LRPCall{Key: lrp.Key{Process: "x", Index: 2}, Service: lrp.ServiceKey{Domain: "d", Name: "n"}, Event: e}
		m, err := FromLRPCall(c)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ToLRPCall(crossed(t, m), "c", "p")
		same(t, c, got, err)
	}
	if _, err := FromLRPCall(LRPCall{Event: lrp.Undesire{}}); !errors.Is(err, ErrMalformed) {
		t.Fatalf("an event of the leader: %v", err)
	}
	holder := task.Holder{Cell: "c", Proc: "p"}
	for _, e := range []task.Event{
		task.Start{UID: "u", By: holder, Reservation: "r", Live: true},
		task.Complete{UID: "u", By: holder, Result: full[task.Result](t)},
		task.Adopt{UID: "u", From: "q", By: holder}, task.Reject{UID: "u", Reason: "r", Never: true, By: holder},
	} {
		c := TaskCall{GUID: "g", Event: e}
		m, err := FromTaskCall(c)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ToTaskCall(crossed(t, m), "c", "p")
		same(t, c, got, err)
	}
}

func TestEventErrorsKeepTheirMeaning(t *testing.T) {
	for _, err := range []error{lrp.ErrNotFound, lrp.ErrNotEligible, lrp.ErrNotProven, lrp.ErrNotYet, task.ErrNotFound,
		task.ErrNotEligible, task.ErrOtherUID} {
		a, known := FromEventError(fmt.Errorf("claim x/1: %w", err))
		if !known || !errors.Is(ToEventError(a), err) {
			t.Errorf("%v became %v", err, ToEventError(a))
		}
	}
	for _, err := range []error{lrp.ErrCannotBeClaimed, lrp.ErrCannotBeEvacuated, task.ErrInvalidStateTransition,
		task.ErrRunningOnDifferentCell} {
		a, known := FromEventError(err)
		if !known || !errors.Is(ToEventError(a), ErrRefused) || !strings.Contains(ToEventError(a).Error(), err.Error()) {
			t.Errorf("%v became %v", err, ToEventError(a))
		}
	}
	if a, known := FromEventError(nil); !known || ToEventError(a) != nil {
		t.Error("applied is applied")
	}
	if _, known := FromEventError(errors.New("term over")); known {
		t.Error("an unknown outcome must not be reported as an answer")
	}
}
