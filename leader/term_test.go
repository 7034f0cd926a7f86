package leader

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cantina/action"
	"cantina/batch"
	"cantina/bbs"
	"cantina/cell"
	"cantina/event"
	"cantina/fault"
	"cantina/fence"
	"cantina/internal/link"
	"cantina/lrp"
	"cantina/plan"
	"cantina/registry"
	"cantina/schedule"
	"cantina/scheduler"
	"cantina/store"
	"cantina/task"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
	"cantina/worker"
)

// TestASessionsChangeIsAnEvent: watchers of cells get the cell and the change.
func TestASessionsChangeIsAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		sub := tm.hub.Tail()
		tm.SessionChanged(worker.SessionChanged{Cell: "c", Proc: "p", From: worker.New, To: worker.Unhealthy,
			Reason: "reported"})
		b, err := sub.Next(t.Context(), time.Second)
		if err != nil || len(b.Events) != 1 {
			t.Fatalf("%+v, %v", b, err)
		}
		e := b.Events[0]
		if e.Kind != event.Cell || e.Subject != "c" || e.Cell == nil ||
			*e.Cell != (event.CellState{Name: "c", Proc: "p", Session: worker.Unhealthy, Reason: "reported", Term: tm.Term()}) {
			t.Fatalf("%+v %+v", e, e.Cell)
		}
	})
}

// TestAvailabilityIsAnEvent: watchers of cells see when one gets no new work, the reason, and when
// it takes work again.
func TestAvailabilityIsAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		sub := tm.hub.Tail()
		tm.Availability(worker.Availability{Cell: "c", Proc: "p", Unavailable: true, Reason: "probe: no"})
		tm.Availability(worker.Availability{Cell: "c", Proc: "p"})
		b, err := sub.Next(t.Context(), time.Second)
		if err != nil || len(b.Events) != 2 || b.Events[0].Cell.Unavailable != "probe: no" ||
			b.Events[0].Text != "is given no new work: probe: no" ||
			b.Events[1].Cell.Unavailable != "" || b.Events[1].Text != "takes new work again" {
			t.Fatalf("%+v, %v", b, err)
		}
	})
}

// TestJobWritesHappenOnce: a repeated call with its key gets the first answer, one
// for another revision is refused, and one key is for one call.
func TestJobWritesHappenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		v := viewOf(tm)
		ctx := t.Context()
		if _, err := v.Apply(ctx, plan.Application{Domain: "d", Jobs: []plan.NamedJob{jobOver("j", "a", "b")}},
			plan.Write{Key: "apply"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		first, err := v.PauseJob(ctx, "d/j", true, plan.Write{Key: "pause"})
		if err != nil || !first.Paused {
			t.Fatalf("%+v, %v", first, err)
		}
		if _, err := v.PauseJob(ctx, "d/j", false, plan.Write{Key: "resume"}); err != nil {
			t.Fatal(err)
		}
		if again, err := v.PauseJob(ctx, "d/j", true, plan.Write{Key: "pause"}); err != nil || again.Paused {
			t.Fatalf("the repeated call acted: %+v, %v", again, err)
		}
		if _, err := v.PauseJob(ctx, "d/j", false, plan.Write{Key: "pause"}); !errors.Is(err, fault.ErrKeyReused) {
			t.Fatalf("a key for two calls: %v", err)
		}
		for name, call := range map[string]func(plan.Write) error{
			"pause":   func(w plan.Write) error { _, err := v.PauseJob(ctx, "d/j", true, w); return err },
			"forgive": func(w plan.Write) error { _, err := v.RetryJob(ctx, plan.JobNodeFilter{Job: "d/j"}, w); return err },
			"kill":    func(w plan.Write) error { _, err := v.KillJob(ctx, plan.JobNodeFilter{Job: "d/j"}, w); return err },
			"remove":  func(w plan.Write) error { return v.RemoveJob(ctx, "d/j", w) },
		} {
			if err := call(plan.Write{Expect: first.Revision - 1}); !errors.Is(err, fault.ErrRevision) {
				t.Errorf("%s for another revision: %v", name, err)
			}
		}
		for range 2 {
			if n, err := v.RetryJob(ctx, plan.JobNodeFilter{Job: "d/j"}, plan.Write{Key: "forgive"}); n != 0 || err != nil {
				t.Fatalf("forgiven %d, %v", n, err)
			}
			if n, err := v.KillJob(ctx, plan.JobNodeFilter{Job: "d/j"}, plan.Write{Key: "kill"}); n != 0 || err != nil {
				t.Fatalf("killed %d, %v", n, err)
			}
		}
		for range 2 {
			if err := v.RemoveJob(ctx, "d/j", plan.Write{Key: "remove"}); err != nil {
				t.Fatalf("removed: %v", err)
			}
		}
		if err := v.RemoveJob(ctx, "d/j", plan.Write{}); err == nil {
			t.Fatal("removed twice")
		}
	})
}

// jobOver is a job over hosts.
func jobOver(name string, hosts ...string) plan.NamedJob {
	src := batch.Source{Kind: batch.SourceManual}
	for _, h := range hosts {
		src.Manual = append(src.Manual, batch.ManualNode{Name: h})
	}
	return plan.NamedJob{
		Job: batch.Job{Name: name, Forest: name, Backoff: batch.Backoff{Seconds: []int{10}, Repeat: true},
			Workload: action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/do"}}}},
		Forest: batch.ForestSpec{Name: name, Levels: []string{"host"}, Instance: name, Sources: []batch.Source{src}},
	}
}

// TestARefusedNewcomerDrawsNoCalls: a second process of a cell's name on another machine is
// refused, and neither its address nor its state counts.
func TestARefusedNewcomerDrawsNoCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		dir := t.TempDir()
		beat := func(proc, dataDir string, n int64) worker.Verdict {
			a, err := tm.Heartbeat(t.Context(), worker.Heartbeat{Protocol: worker.Protocol, Cell: "c", Proc: worker.Proc(proc),
				DirID:   dataDir,
				Started: 1, Boot: "b", Beat: n}, cell.State{Address: "unix:" + dir + "/" + proc})
			if err != nil {
				t.Fatal(err)
			}
			return a.Verdict
		}
		if v := beat("p", "f", 1); v != worker.Welcome {
			t.Fatal(v)
		}
		at := tm.cells.Cell("c")
		if v := beat("q", "g", 1); v != worker.DieAll {
			t.Fatal(v)
		}
		if st, _ := tm.State("c"); tm.cells.Cell("c") != at || st.Address != "unix:"+dir+"/p" {
			t.Error("calls to the cell go to the newcomer")
		}
	})
}

// TestADrainThatIsNotCommittedLeavesNothing: the next decision does not build on it.
func TestADrainThatIsNotCommittedLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		err := tm.Drains.Change(t.Context(), plan.Write{}, "drain", nil, "c",
			func(*registry.Drain) (*registry.Drain, string, error) {
				return &registry.Drain{Cell: "c", Reason: strings.Repeat("x", 8<<20), Since: time.Now()}, "is drained", nil
			})
		if err == nil || tm.Drains.Submitted("c") != nil {
			t.Errorf("%v, %v", err, tm.Drains.Submitted("c") != nil)
		}
	})
}

// TestNoCallOutlivesItsTerm: a request for a call while the term ends gets none, or one that is
// waited for.
func TestNoCallOutlivesItsTerm(t *testing.T) {
	for range 2000 {
		tm := &Term{}
		tm.ctx, tm.cancel = context.WithCancel(context.Background())
		var running atomic.Int32
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			tm.call(func(ctx context.Context) { running.Add(1); <-ctx.Done(); running.Add(-1) })
		}()
		tm.end()
		if running.Load() != 0 {
			t.Fatal("a call runs after the end of its term")
		}
		<-asked
	}
}

// TestUnreachableIsDecidedByTheCode: the text of an error does not.
func TestUnreachableIsDecidedByTheCode(t *testing.T) {
	if err := unreachable("c", errors.New("the volume is unavailable")); errors.Is(err, fault.ErrUnreachable) {
		t.Error(err)
	}
	cells := link.NewDirectory(link.Security{})
	defer cells.Close()
	cells.SetAddress("c", "unix:"+t.TempDir()+"/nobody")
	_, err := cells.Cell("c").ReadLogs(t.Context(), &pb.ReadLogsRequest{})
	if err := unreachable("c", err); !errors.Is(err, fault.ErrUnreachable) {
		t.Error(err)
	}
}

// TestErrorsOfThePartsHaveTheirKind: the kind alone determines a client's response to an error of
// a part.
func TestErrorsOfThePartsHaveTheirKind(t *testing.T) {
	for err, kind := range map[error]error{
		bbs.ErrServiceNotFound: fault.ErrNotFound, lrp.ErrNotFound: fault.ErrNotFound, task.ErrNotFound: fault.ErrNotFound,
		batch.ErrUnknownJob: fault.ErrNotFound, batch.ErrUnknownNode: fault.ErrNotFound,
		worker.ErrUnknownProcess: fault.ErrNotFound,
		schedule.ErrNotFound:     fault.ErrNotFound, store.ErrNotQuarantined: fault.ErrNotFound,
		task.ErrExists:       fault.ErrExists,
		fault.ErrQuarantined: fault.ErrConflict, store.ErrQuarantined: fault.ErrConflict,
		task.ErrInvalidStateTransition: fault.ErrConflict,
		task.ErrOtherUID:               fault.ErrConflict, schedule.ErrOverlap: fault.ErrConflict,
		schedule.ErrFired: fault.ErrConflict, ErrDrainUnreadable: fault.ErrConflict,
		scheduler.ErrInvalid: fault.ErrInvalid, lrp.ErrInvalid: fault.ErrInvalid, lrp.ErrNotUpdatable: fault.ErrInvalid,
		task.ErrInvalid:     fault.ErrInvalid,
		schedule.ErrInvalid: fault.ErrInvalid, schedule.ErrNoTime: fault.ErrInvalid, wire.ErrMalformed: fault.ErrInvalid,
		event.ErrPosition: fault.ErrInvalid,
		store.ErrFull:     fault.ErrFull, store.ErrStalled: fault.ErrBusy, store.ErrTooLarge: fault.ErrTooLarge,
		store.ErrUnresolved:     fault.ErrUnknownOutcome,
		store.ErrLeaseNotProven: fault.ErrTermOver, store.ErrLeaseGone: fault.ErrTermOver,
		store.ErrResigned: fault.ErrTermOver, worker.ErrDeposed: fault.ErrTermOver,
	} {
		if !errors.Is(err, kind) {
			t.Errorf("%v is not %v", err, kind)
		}
	}
}

// reporter is a cell that runs nothing.
type reporter struct {
	link.Cell
	term fence.Term
}

func (r reporter) GetRunningTasks(_ context.Context, q worker.ReportRequest) (worker.Report, error) {
	return worker.Report{Term: r.term, Proc: q.Proc, PredecessorsGone: true}, nil
}

func (reporter) RunTasks(context.Context, []cell.RunItem) ([]worker.RunAnswer, error) {
	return nil, nil
}

// TestCallsOfAnEarlierTermAreRefused: a late call to an earlier leader is not accepted by this
// one.
func TestCallsOfAnEarlierTermAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		tm.cells.SetLocal("c", reporter{term: tm.Term()})
		if _, err := tm.Heartbeat(t.Context(), worker.Heartbeat{Protocol: worker.Protocol, Cell: "c", Proc: "p", DirID: "f",
			Started: 1, Boot: "b", Beat: 1}, cell.State{}); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		from := cell.Caller{Cluster: tm.lease.Cluster(), Cell: "c", Proc: "p", Term: tm.Term()}
		if _, err := tm.Rows(t.Context(), from, cell.RowsQuery{}); err != nil {
			t.Fatal(err)
		}
		from.Term.Revision--
		_, err := tm.Rows(t.Context(), from, cell.RowsQuery{})
		_, err2 := tm.LRPEvents(t.Context(), from, nil)
		_, err3 := tm.TaskEvents(t.Context(), from, nil)
		for _, err := range []error{err, err2, err3} {
			if !errors.Is(err, cell.ErrTerm) {
				t.Errorf("%v", err)
			}
		}
	})
}

// TestCallsOfAnotherClusterAreRefused: with an error that names both identities, the cell and
// its address; no term of such a call, or of a process that is not known, ends this one.
func TestCallsOfAnotherClusterAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		v, own := viewOf(tm), tm.lease.Cluster()
		beat := worker.Heartbeat{Protocol: worker.Protocol, Cluster: "other", Cell: "c", Proc: "p", DirID: "f", Started: 1,
			Boot: "b", Beat: 1, Term: fence.Term{Epoch: 9e17}}
		a, err := tm.Heartbeat(t.Context(), beat, cell.State{Address: "10.0.0.7:1"})
		if err != nil || a.Verdict != worker.Foreign || a.Cluster != own {
			t.Fatalf("%+v, %v", a, err)
		}
		from := cell.Caller{Cluster: "other", Cell: "c", Proc: "p", Term: fence.Term{Epoch: 9e17}}
		_, err1 := tm.Rows(t.Context(), from, cell.RowsQuery{})
		_, err2 := tm.LRPEvents(t.Context(), from, nil)
		_, err3 := tm.TaskEvents(t.Context(), from, nil)
		_, err4 := tm.UpdateStatus(t.Context(), worker.UpdateStatus{Cluster: "other", Term: from.Term, Cell: "c", Proc: "p"})
		want := "cell c (10.0.0.7:1) belongs to cluster other, the server to cluster " + string(own)
		for i, err := range []error{err1, err2, err3, err4} {
			if !errors.Is(err, cell.ErrForeign) || err.Error() != want {
				t.Errorf("%d: %v, want %s", i, err, want)
			}
		}
		from.Cluster = own
		if _, err := tm.Rows(t.Context(), from, cell.RowsQuery{}); !errors.Is(err, cell.ErrProc) {
			t.Errorf("a process that is not known: %v", err)
		}
		l, err := v.ListCells(plan.Range{Limit: 9}, nil, false)
		if err != nil || len(l.Items) != 1 || l.Items[0].Cluster != "other" || l.Items[0].Address != "10.0.0.7:1" {
			t.Fatalf("%+v, %v", l.Items, err)
		}
		if x, err := v.Explain(t.Context(), plan.Subject{Kind: plan.SubjectCell, Name: "c"}); err != nil || x.Fine ||
			len(x.Reasons) != 1 || x.Reasons[0].Code != codeForeign {
			t.Errorf("%+v, %v", x, err)
		}
		if s, err := v.Status(); err != nil || s.ClusterID != own ||
			!slices.ContainsFunc(s.Warnings, func(w string) bool {
				return strings.Contains(w,
					"cell c (10.0.0.7:1) belongs to cluster other")
			}) {
			t.Errorf("%v, %v", s.Warnings, err)
		}
		if got := foreignText("c", "", "other", own); got != "cell c belongs to cluster other, the server to cluster "+
			string(own)+": it is refused, and nothing on it changes" {
			t.Error(got) // its address is not known
		}
		if err := v.AdoptCell(t.Context(), "d", plan.Write{By: "ann"}); !errors.Is(err, worker.ErrUnknownProcess) {
			t.Errorf("an unknown cell is adopted: %v", err)
		}
		if err := v.AdoptCell(t.Context(), "c", plan.Write{By: "ann"}); err != nil {
			t.Fatal(err)
		}
		beat.Beat++
		if a, err = tm.Heartbeat(t.Context(), beat, cell.State{}); err != nil || a.Verdict != worker.Adopt {
			t.Fatalf("%+v, %v", a, err)
		}
		pass(2 * time.Minute)
		if got := tm.ForeignCells(); len(got) > 0 {
			t.Errorf("one that does not call any more is still listed: %+v", got)
		}
		if err := tm.lease.Err(); err != nil {
			t.Errorf("the term is over: %v", err)
		}
	})
}

// TestReadsProveTheLease: a leader that may have been succeeded answers no question.
func TestReadsProveTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		end()
		v := viewOf(tm)
		for name, read := range map[string]func() error{
			"plan": func() error { _, err := v.Plan(t.Context(), plan.Application{Domain: "d"}); return err },
			"explain": func() error {
				_, err := v.Explain(t.Context(), plan.Subject{Kind: plan.SubjectJob, Domain: "d", Name: "j"})
				return err
			},
			"upcoming": func() error { _, err := v.Upcoming(schedule.Key{Domain: "d", Name: "s"}, 1); return err },
			"jobs":     func() error { _, err := v.ListJobs(plan.NameFilter{Domain: "d"}, plan.Range{Limit: 1}); return err },
			"status":   func() error { _, err := v.Status(); return err },
		} {
			if err := read(); !errors.Is(err, store.ErrLeaseNotProven) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestEverythingListedCanBeExplained: also a job that was removed, as long as it is listed.
func TestEverythingListedCanBeExplained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		v, ctx := viewOf(tm), t.Context()
		if _, err := v.Apply(ctx, plan.Application{Domain: "d", Jobs: []plan.NamedJob{jobOver("j", "a"), jobOver("k", "a")}},
			plan.Write{}); err != nil {
			t.Fatal(err)
		}
		if err := v.RemoveJob(ctx, "d/j", plan.Write{}); err != nil {
			t.Fatal(err)
		}
		l, err := v.ListJobs(plan.NameFilter{}, plan.Range{Limit: 10})
		if err != nil || len(l.Items) != 2 || !l.Items[0].Removed {
			t.Fatalf("%+v, %v", l.Items, err)
		}
		for _, j := range l.Items {
			e, err := v.Explain(ctx, plan.Subject{Kind: plan.SubjectJob, Name: j.Name})
			if err != nil || e.State == "" || j.Removed != (e.State == "removed") {
				t.Errorf("%s: %+v, %v", j.Name, e, err)
			}
		}
	})
}
