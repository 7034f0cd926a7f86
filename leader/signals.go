package leader

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"cantina/bbs"
	"cantina/internal/run"
	"cantina/lrp"
	"cantina/plan"
	"cantina/schedule"
	"cantina/timetable"
)

// Limits of signals in progress: concurrent calls over all schedules, and firings that are being
// sent. Signals beyond these are not sent, and the result shows it.
const (
	maxCalls   = 64
	maxFirings = 4096
)

// SignalCalls is how a Sender reaches cells.
type SignalCalls struct {
	// Go runs f beside everything else, and not at all when the term is over; its context
	// ends with the term.
	Go func(f func(context.Context))
	// Signal makes one call, once. Its error is for the history.
	Signal func(ctx context.Context, s timetable.Sending, a *lrp.Actual) error
}

// Instances is where a Sender finds its receivers: bbs.BBS.
type Instances interface {
	GetService(k lrp.ServiceKey) (plan.Service, error)
	ListInstances(f plan.InstanceFilter, r plan.Range) (plan.Page[plan.Instance], error)
}

// SignalSender sends the signals of schedules to the instances of the board. It never repeats
// a call. It implements timetable.Signals.
type SignalSender struct {
	board Instances
	calls SignalCalls
	queue *run.Keyed

	mu      sync.Mutex
	firings int // being sent
	serial  int // of calls
}

// NewSignalSender returns the sender of a term.
func NewSignalSender(b Instances, c SignalCalls) *SignalSender {
	return &SignalSender{board: b, calls: c, queue: run.NewKeyed(maxCalls,
		func(f func()) { c.Go(func(context.Context) { f() }) })}
}

// Signal implements timetable.Signals.
func (s *SignalSender) Signal(what timetable.Sending, report func(schedule.Delivery)) {
	if !s.enter() {
		s.calls.Go(func(context.Context) {
			report(schedule.Delivery{Problem: fmt.Sprintf("more than %d signals are being sent", maxFirings)})
		})
		return
	}
	s.calls.Go(func(ctx context.Context) { s.send(ctx, what, report) })
}

func (s *SignalSender) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.firings == maxFirings {
		return false
	}
	s.firings++
	return true
}

// send makes one call for each running instance.
func (s *SignalSender) send(ctx context.Context, what timetable.Sending, report func(schedule.Delivery)) {
	list, problem := s.targets(what.Key.Domain, what.Service)
	x := &sending{left: len(list), delivery: schedule.Delivery{Of: len(list), Problem: problem}, report: report}
	if len(list) == 0 {
		s.ended(ctx, x)
		return
	}
	for i := range list {
		s.queue.Push(s.next(), func(context.Context) {
			s.called(ctx, x, &list[i], s.calls.Signal(ctx, what, &list[i]))
		})
	}
}

// next is a key of the queue: no call waits for another one of the same instance.
func (s *SignalSender) next() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serial++
	return strconv.Itoa(s.serial)
}

// sending is one signal in progress.
type sending struct {
	left     int
	delivery schedule.Delivery
	report   func(schedule.Delivery)
}

// called adds up how one call fared.
func (s *SignalSender) called(ctx context.Context, x *sending, a *lrp.Actual, err error) {
	s.mu.Lock()
	if err == nil {
		x.delivery.Reached++
	} else {
		x.delivery.Missed = append(x.delivery.Missed, fmt.Sprintf("instance %d on cell %s: %v", a.Key.Index, a.Cell, err))
	}
	x.left--
	last := x.left == 0
	s.mu.Unlock()
	if last {
		s.ended(ctx, x)
	}
}

// ended reports the result of a signal, unless the term ended meanwhile.
func (s *SignalSender) ended(ctx context.Context, x *sending) {
	s.mu.Lock()
	s.firings--
	s.mu.Unlock()
	if ctx.Err() == nil {
		x.report(x.delivery)
	}
}

// targets lists the running instances of a service, in any presence; problem is the reason why
// there can be none. A service with an unreadable row still has its instances.
func (s *SignalSender) targets(domain, service string) (list []lrp.Actual, problem string) {
	if _, err := s.board.GetService(lrp.ServiceKey{Domain: domain, Name: service}); errors.Is(err,
		bbs.ErrServiceNotFound) {
		return nil, fmt.Sprintf("service %q not found in domain %q", service, domain)
	}
	for r := (plan.Range{Limit: 1000}); ; {
		p, err := s.board.ListInstances(plan.InstanceFilter{Domain: domain, Service: service}, r)
		if err != nil {
			return nil, err.Error() // better none than some
		}
		for _, i := range p.Items {
			for _, a := range i.Rows.Rows() {
				if a.State == lrp.Running {
					list = append(list, *a)
				}
			}
		}
		if r.After = p.Next; r.After == "" {
			return list, ""
		}
	}
}

// Signalled implements timetable.Signals.
func (s *SignalSender) Signalled(domain, service string) (int, bool) {
	list, problem := s.targets(domain, service)
	return len(list), problem == ""
}
