package api

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cantina/event"
	"cantina/fault"
	"cantina/internal/text"
	"cantina/logstore"
	"cantina/plan"
	pb "cantina/wire/cantinav1"
)

const (
	// followCheck is how often a follower looks for cells that have joined.
	followCheck = time.Second
	// followPage is how many lines a follower catches up with at a time.
	followPage = 500
	// failures is the number of consecutive failures of a cell's stream before it is reported. A cell
	// that a new leader has just contacted refuses calls for a short time, and no output is missing
	// then.
	failures = 3
	// goneKept is the number of cells that are gone in a follower's cursor, so that one that returns
	// is read from its old place. The cursor must not grow without limit.
	goneKept = 100
)

// FollowOutput sends output as it is written, merged over the cells, until the
// subject has ended and everything was sent, or the client goes.
func (c streamCalls) FollowOutput(ctx context.Context, q *request[pb.FollowOutputRequest],
	out *connect.ServerStream[pb.FollowOutputResponse]) error {
	return c.followOutput(ctx, q.Msg, out.Send)
}

func (s *Server) followOutput(ctx context.Context, q *pb.FollowOutputRequest,
	send func(*pb.FollowOutputResponse) error) error {
	b, err := s.now()
	if err != nil {
		return err
	}
	done, err := s.streams.open(ctx)
	if err != nil {
		return err
	}
	defer done()
	if _, err := s.known(ctx, b, q.Query); err != nil {
		return err
	}
	place, err := logstore.ParsePlace(q.Cursor)
	if err != nil {
		return &FieldError{Err: err, Field: "cursor"}
	}
	query, err := logQuery(q.Query)
	if err != nil {
		return err
	}
	f := &follower{s: s, b: b, query: query, subject: q.Query, place: place, send: send, pack: q.Packed}
	err = f.run(ctx, int(q.Query.GetTail()), q.Cursor != "")
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil // the client went
	}
	return err
}

// follower merges the output of several cells while it is written. First it reads the existing
// output, page by page, in exact order; then one stream per cell delivers new output. A stream
// that breaks is resumed at its position.
type follower struct {
	s       *Server
	b       *Backend
	query   *pb.LogQuery
	subject *pb.OutputQuery
	place   logstore.Place
	send    func(*pb.FollowOutputResponse) error
	pack    bool // answer in columns
	// late is the query for cells that join later, if only the newest lines were requested.
	late *pb.LogQuery

	wake    chan struct{} // something about the subject was committed
	over    chan struct{} // closed when this term has no further events
	overWhy error         // valid after over
	wg      sync.WaitGroup
	arrived chan arrival
	running map[string]bool // cells that have a stream
	failed  map[string]int  // how often a cell's stream has failed in a row
}

// arrival is an item of one cell's stream; err or end is the last one.
type arrival struct {
	cell  string
	lines []logstore.Line
	end   bool
	err   error
}

func (f *follower) run(ctx context.Context, tail int, resumed bool) error {
	stop := f.watch(ctx)
	defer stop()
	ended := f.ended()
	if tail > 0 && !resumed {
		f.late = proto.CloneOf(f.query)
		f.late.Backward, f.late.Since = false, timestamppb.Now()
		page, err := readPlace(ctx, f.b.Logs, f.query, f.place, pageSize{lines: min(tail, MaxPage)})
		if err != nil {
			return err
		}
		f.place, page.Missing = page.Next, nil // catchUp tries again
		if err := f.deliver(page); err != nil {
			return err
		}
	}
	f.query.Backward = false
	if err := f.catchUp(ctx, ended); err != nil {
		return err
	}
	if !ended {
		if err := f.stream(ctx); err != nil {
			return err
		}
		// The subject ended after its output was complete: this reads the rest.
		if err := f.catchUp(ctx, true); err != nil {
			return err
		}
	}
	if err := f.termOver(); err != nil {
		return err // cells may have refused to answer: the next leader reads the rest
	}
	return f.send(&pb.FollowOutputResponse{Cursor: f.place.Cursor(), End: true})
}

// catchUp reads pages until there is nothing more. Cells that do not answer are reported at the
// last time; before it their streams are taken up again, and report them.
func (f *follower) catchUp(ctx context.Context, last bool) error {
	for {
		size := pageSize{lines: followPage}
		if f.pack {
			size = packedPage
		}
		page, err := readPlace(ctx, f.b.Logs, f.query, f.place, size)
		if err != nil {
			return err
		}
		f.place = page.Next
		if !last {
			page.Missing = nil
		}
		if err := f.deliver(page); err != nil {
			return err
		}
		if !page.More {
			return nil
		}
	}
}

// deliver sends a page, if it holds anything.
func (f *follower) deliver(page *outputPage) error {
	if page.empty() && len(page.Missing) == 0 {
		return nil
	}
	m := &pb.FollowOutputResponse{Missing: page.Missing, Cursor: f.place.Cursor()}
	if f.pack {
		m.Packed = page.packed()
	} else {
		m.Lines = page.lines()
	}
	return f.send(m)
}

// stream forwards the cells' output until the subject has ended.
func (f *follower) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	f.arrived, f.running, f.failed = make(chan arrival), map[string]bool{}, map[string]int{}
	defer f.wg.Wait()
	defer cancel()
	f.join(ctx)
	check, beat := time.NewTicker(followCheck), time.NewTicker(Heartbeat)
	defer check.Stop()
	defer beat.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case a := <-f.arrived:
			err = f.arrive(a)
		case <-check.C:
			f.join(ctx)
		case <-f.wake:
			f.join(ctx)
		case <-f.over:
			return f.termOver()
		case <-beat.C:
			err = f.send(&pb.FollowOutputResponse{Cursor: f.place.Cursor()})
		}
		if err != nil {
			return err
		}
		if f.ended() {
			return nil
		}
	}
}

// arrive forwards an item of one cell. Lines that a catch-up page already had are dropped.
func (f *follower) arrive(a arrival) error {
	page := &outputPage{Lines: make([]logstore.CellLine, len(a.lines))}
	for i, l := range a.lines {
		page.Lines[i] = logstore.CellLine{Cell: a.cell, Line: l}
	}
	if n := len(a.lines); n > 0 {
		f.place[a.cell] = a.lines[n-1].Cursor()
	}
	if a.end || a.err != nil {
		delete(f.running, a.cell)
	}
	if a.err == nil {
		delete(f.failed, a.cell)
	} else if f.failed[a.cell]++; f.failed[a.cell] == failures {
		page.Missing = []string{text.Clean(ofCell(a.cell, a.err))}
	}
	return f.deliver(page)
}

// join starts a stream for each cell that has none, and forgets cells that are gone.
func (f *follower) join(ctx context.Context) {
	holders := f.b.Logs.Holders(f.query)
	f.place.Forget(holders, goneKept)
	maps.DeleteFunc(f.failed, func(cell string, _ int) bool { return !slices.Contains(holders, cell) })
	for _, cell := range holders {
		if f.running[cell] {
			continue
		}
		f.running[cell] = true
		m := &pb.FollowLogsRequest{Query: f.query, Cursor: f.place[cell]}
		if f.late != nil && m.Cursor == "" {
			m.Query = f.late
		}
		f.wg.Go(func() {
			report := func(a arrival) error {
				a.cell = cell
				select {
				case f.arrived <- a:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			err := f.b.Logs.FollowLogs(ctx, cell, m, func(x *pb.FollowLogsResponse) error {
				got, err := logstore.Unpack(x.Lines)
				if err != nil {
					return err
				}
				return report(arrival{lines: got})
			})
			// When ctx is done there is no reader; that is the only error of report.
			_ = report(arrival{end: true, err: err})
		})
	}
}

// watch wakes the follower when a change of its subject was committed, and when the term of its
// backend is over: its state no longer changes, so the client must ask the next leader.
func (f *follower) watch(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	f.wake, f.over = make(chan struct{}, 1), make(chan struct{})
	sub := f.b.Events.Tail()
	go func() {
		defer close(f.over)
		for {
			b, err := sub.Next(ctx, time.Hour)
			if err != nil {
				f.overWhy = err
				return
			}
			for i := range b.Events {
				if f.about(&b.Events[i]) {
					select {
					case f.wake <- struct{}{}:
					default: // it is awake already
					}
				}
			}
		}
	}()
	return func() { cancel(); <-f.over }
}

// termOver is the reason why the term has no further events; nil while it may have some.
func (f *follower) termOver() error {
	select {
	case <-f.over:
		return f.overWhy
	default:
		return nil
	}
}

func (f *follower) about(e *event.Event) bool {
	switch q := f.subject; {
	case q.GetTask() != "":
		return e.Kind == event.Task && e.Subject == q.GetTask()
	case q.GetJob() != "":
		return e.Kind == event.Job && e.Subject == jobKey(q.GetDomain(), q.GetJob())
	case q.GetService() != "":
		return e.Instance != nil && e.Instance.Service == serviceKey(q.GetDomain(), q.GetService())
	}
	return false
}

// ended reports whether the subject has no further output. Only an answer about the subject proves
// that; an answer that is unavailable does not.
func (f *follower) ended() bool {
	var over bool
	var err error
	switch q := f.subject; {
	case q.GetTask() != "":
		var t plan.Task
		if t, err = f.b.Tasks.GetTask(q.GetTask()); err == nil {
			over = t.Ended() && !t.MayStillRun && !t.BeingEnded
		}
	case q.GetJob() != "":
		var j plan.Job
		j, err = f.b.Jobs.GetJob(jobKey(q.GetDomain(), q.GetJob()))
		over = err == nil && j.Over()
	case q.GetService() != "":
		_, err = f.b.Services.GetService(serviceKey(q.GetDomain(), q.GetService()))
	}
	return over || err != nil && !errors.Is(err, fault.ErrTermOver)
}
