package leader

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"cantina/bbs"
	"cantina/fault"
	"cantina/lrp"
	"cantina/plan"
	"cantina/schedule"
	"cantina/timetable"
)

// instances are those of service web, in pages of ten.
type instances []lrp.Actual

func (in instances) GetService(k lrp.ServiceKey) (plan.Service, error) {
	if k != (lrp.ServiceKey{Domain: "d", Name: "web"}) {
		return plan.Service{}, fmt.Errorf("service %v: %w", k, bbs.ErrServiceNotFound)
	}
	return plan.Service{}, nil
}

func (in instances) ListInstances(_ plan.InstanceFilter, r plan.Range) (p plan.Page[plan.Instance], _ error) {
	from := 0
	if _, err := fmt.Sscan(r.After, &from); err != nil {
		from = 0
	}
	for i := from; i < min(from+10, len(in)); i++ {
		p.Items = append(p.Items, plan.Instance{Rows: lrp.Index{Key: in[i].Key, Ordinary: &in[i]}})
	}
	if from+10 < len(in) {
		p.Next = fmt.Sprint(from + 10)
	}
	return p, nil
}

// web has n instances, of which every fifth is only claimed.
func web(n int) (in instances, running int) {
	for i := range n {
		a := lrp.Actual{Key: lrp.Key{Process: "g", Index: i}, State: lrp.Running,
			Identity: lrp.Identity{Cell: fmt.Sprint("c", i)}}
		if i%5 == 4 {
			a.State = lrp.Claimed
		} else {
			running++
		}
		in = append(in, a)
	}
	return in, running
}

// hall runs concurrent code when the test calls it: no code runs automatically.
type hall struct {
	ctx  context.Context
	jobs []func(context.Context)
}

func (h *hall) run(f func(context.Context)) { h.jobs = append(h.jobs, f) }

func (h *hall) next() bool {
	if len(h.jobs) == 0 {
		return false
	}
	f := h.jobs[0]
	h.jobs = h.jobs[1:]
	f(h.ctx)
	return true
}

func signalOf(service string) timetable.Sending {
	return timetable.Sending{Key: schedule.Key{Domain: "d", Name: "n"},
		Signal: schedule.Signal{Service: service, Number: 1}}
}

// TestASignalReachesEachInstanceOnce, and unreached ones are reported, once.
func TestASignalReachesEachInstanceOnce(t *testing.T) {
	in, running := web(200)
	h := &hall{ctx: t.Context()}
	called := map[int]int{}
	s := NewSignalSender(in, SignalCalls{Go: h.run,
		Signal: func(_ context.Context, what timetable.Sending, a *lrp.Actual) error {
			if called[a.Key.Index]++; what.Number != 1 || a.State != lrp.Running {
				t.Errorf("%+v to %+v", what, a)
			}
			if a.Key.Index == 7 {
				return errors.New("it cannot be reached")
			}
			return nil
		}})
	var reported []schedule.Delivery
	report := func(d schedule.Delivery) { reported = append(reported, d) }
	s.Signal(signalOf("web"), report)
	for widest := 0; h.next(); {
		if widest = max(widest, len(h.jobs)); widest > maxCalls {
			t.Fatalf("%d calls at once", widest)
		}
	}
	if len(called) != running || called[3] != 1 || len(reported) != 1 || reported[0].Of != running ||
		reported[0].Reached != running-1 || len(reported[0].Missed) != 1 ||
		reported[0].Missed[0] != "instance 7 on cell c7: it cannot be reached" {
		t.Fatalf("%d called, reported %+v", len(called), reported)
	}
	if n, known := s.Signalled("d", "web"); n != running || !known {
		t.Fatal(n, known)
	}
	s.Signal(signalOf("other"), report)
	for h.next() {
	}
	if len(reported) != 2 || reported[1].Problem != "service \"other\" not found in domain \"d\"" || s.firings != 0 {
		t.Fatalf("%+v, %d being sent", reported[1:], s.firings)
	}
}

// TestTooManySignals are not sent, and the result shows it; after the end of the term no result is
// reported.
func TestTooManySignals(t *testing.T) {
	in, _ := web(1)
	ctx, end := context.WithCancel(t.Context())
	h := &hall{ctx: ctx}
	s := NewSignalSender(in, SignalCalls{Go: h.run,
		Signal: func(context.Context, timetable.Sending, *lrp.Actual) error { return nil }})
	reported := 0
	for range maxFirings {
		s.Signal(signalOf("web"), func(schedule.Delivery) { reported++ })
	}
	problem := ""
	s.Signal(signalOf("web"), func(d schedule.Delivery) { problem = d.Problem })
	h.jobs[maxFirings](ctx)
	if !strings.Contains(problem, "more than 4096") {
		t.Fatal(problem)
	}
	end()
	for h.next() {
	}
	if reported != 0 || s.firings != 0 {
		t.Fatal(reported, s.firings)
	}
}

// torn is a list of instances that ends after its first page.
type torn struct{ instances }

func (x torn) ListInstances(f plan.InstanceFilter, r plan.Range) (plan.Page[plan.Instance], error) {
	if r.After != "" {
		return plan.Page[plan.Instance]{}, fault.ErrInvalid
	}
	return x.instances.ListInstances(f, r)
}

// TestHalfAListIsNone: an incomplete list is reported, and none of its members is called.
func TestHalfAListIsNone(t *testing.T) {
	in, _ := web(20)
	h := &hall{ctx: t.Context()}
	s := NewSignalSender(torn{in}, SignalCalls{Go: h.run,
		Signal: func(_ context.Context, _ timetable.Sending, a *lrp.Actual) error {
			t.Errorf("instance %d is called", a.Key.Index)
			return nil
		}})
	var reported []schedule.Delivery
	s.Signal(signalOf("web"), func(d schedule.Delivery) { reported = append(reported, d) })
	for h.next() {
	}
	if len(reported) != 1 || reported[0].Problem != fault.ErrInvalid.Error() || s.firings != 0 {
		t.Fatalf("%+v, %d being sent", reported, s.firings)
	}
}
