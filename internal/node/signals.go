package node

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"cantina/bbs"
	"cantina/internal/link"
	"cantina/lrp"
	"cantina/schedule"
	"cantina/worker"
)

// Bounds of signals under way: calls at once over all schedules, and firings that are
// being sent. What is beyond is not sent, and says so.
const (
	maxSignalCalls   = 64
	maxSignalFirings = 4096
)

// timeSignals sends the signals of schedules. It never repeats a call.
type timeSignals struct {
	*term
	firings chan struct{} // a place for each firing under way
	calls   chan struct{} // a place for each call under way
}

func newTimeSignals(t *term) timeSignals {
	return timeSignals{t, make(chan struct{}, maxSignalFirings), make(chan struct{}, maxSignalCalls)}
}

// Signal implements timetable.Signals.
func (s timeSignals) Signal(domain string, what schedule.Signal, tell func(schedule.Delivery)) {
	select {
	case s.firings <- struct{}{}:
		s.call(func(ctx context.Context) {
			defer func() { <-s.firings }()
			if d, ok := s.send(ctx, domain, what); ok {
				tell(d)
			}
		})
	default:
		s.call(func(context.Context) {
			tell(schedule.Delivery{Problem: fmt.Sprintf("more than %d signals are being sent", maxSignalFirings)})
		})
	}
}

// targets lists the instances of a service that run, whatever their presence.
func (s timeSignals) targets(domain, service string) (list []lrp.Actual, known bool) {
	if _, err := s.board.GetService(lrp.ServiceKey{Domain: domain, Name: service}); errors.Is(err, bbs.ErrServiceNotFound) {
		return nil, false
	}
	for r := (bbs.Range{Limit: 1000}); ; {
		p, err := s.board.ListInstances(bbs.InstanceFilter{Domain: domain, Service: service}, r)
		if err != nil {
			return list, true
		}
		for _, i := range p.Items {
			for _, a := range i.Rows.Rows() {
				if a.State == lrp.Running {
					list = append(list, *a)
				}
			}
		}
		if r.After = p.Next; r.After == "" {
			return list, true
		}
	}
}

// Signalled implements timetable.Signals.
func (s timeSignals) Signalled(domain, service string) (int, bool) {
	list, known := s.targets(domain, service)
	return len(list), known
}

// send makes one call for each running instance; false when the term ended meanwhile.
func (s timeSignals) send(ctx context.Context, domain string, what schedule.Signal) (schedule.Delivery, bool) {
	list, known := s.targets(domain, what.Service)
	if !known {
		return schedule.Delivery{Problem: fmt.Sprintf("there is no service %s in domain %s", what.Service, domain)}, true
	}
	d := schedule.Delivery{Of: len(list)}
	var mu sync.Mutex
	var wait sync.WaitGroup
	for _, a := range list {
		select {
		case s.calls <- struct{}{}:
		case <-ctx.Done():
			wait.Wait()
			return d, false
		}
		wait.Go(func() {
			err := s.signal(ctx, &a, what.Number)
			<-s.calls
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				d.Reached++
				return
			}
			d.Missed = append(d.Missed, fmt.Sprintf("instance %d on cell %s: %v", a.Key.Index, a.Cell, err))
		})
	}
	wait.Wait()
	return d, ctx.Err() == nil
}

// signal makes one call, once; its error is for the history.
func (s timeSignals) signal(ctx context.Context, a *lrp.Actual, number int) error {
	c := s.cells.Cell(worker.CellName(a.Cell))
	if c == nil {
		return errNoAddress
	}
	err := c.SignalInstance(ctx, s.Term(), worker.Proc(a.Proc), a.Key, a.Instance, number)
	if err == nil {
		return nil
	}
	if words, ok := link.Refused(err); ok {
		return errors.New(words)
	}
	if link.NeverSent(err) {
		return errors.New("it cannot be reached")
	}
	return errors.New("it did not answer, and may have got it")
}
