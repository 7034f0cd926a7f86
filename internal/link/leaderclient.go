package link

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"cantina/cell"
	"cantina/fence"
	"cantina/internal/mux"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
	"cantina/wire/cantinav1/cantinav1connect"
	"cantina/worker"

	"connectrpc.com/connect"
)

// LeaderClient is the leader as a cell reaches it through a list of servers. It
// stays with the server that answered last; when that one fails or does not lead,
// the next call goes to the leader that was named, or to another server, in random
// order.
type LeaderClient struct {
	servers []string
	sec     Security
	lost    func()
	late    func(worker.HeartbeatAnswer) // nil = late answers are dropped
	beats   sync.WaitGroup               // heartbeats that are waited for
	ctx     context.Context              // of these
	end     context.CancelFunc
	handler http.Handler // of the leader's calls, over the same connection
	address string       // where the cell can be called without a connection

	mu      sync.Mutex
	current string
	clients map[string]*leaderConn
	cluster fence.Cluster // that the cell belongs to
	heard   fence.Term    // the highest term of it
}

type leaderConn struct {
	rpc  cantinav1connect.LeaderServiceClient
	conn *mux.Client
}

// NewLeaderClient returns a client of the servers; lost is called when a connection ends,
// and must not wait.
func NewLeaderClient(servers []string, sec Security, lost func()) *LeaderClient {
	ctx, end := context.WithCancel(context.Background())
	return &LeaderClient{servers: servers, sec: sec, lost: lost, ctx: ctx, end: end,
		current: servers[rand.IntN(len(servers))],
		clients: map[string]*leaderConn{}}
}

// Serve has the leader's calls answered that come over the connections: address is where
// the leader can call the cell without one. It is called before the first call.
func (c *LeaderClient) Serve(address string, h http.Handler) { c.address, c.handler = address, h }

// Late has f called with answers to heartbeats that come after the time of the call. It is called
// before the first call; f must not wait.
func (c *LeaderClient) Late(f func(worker.HeartbeatAnswer)) { c.late = f }

// Close ends the connections and waits for the requests that they serve.
func (c *LeaderClient) Close() {
	c.end()
	c.mu.Lock()
	clients := slices.Collect(maps.Values(c.clients))
	c.mu.Unlock()
	for _, conn := range clients {
		conn.conn.Close()
	}
	c.beats.Wait()
}

func (c *LeaderClient) conn() (string, *leaderConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn := c.clients[c.current]
	if conn == nil {
		way := c.sec.way(c.current)
		l := mux.NewClient(mux.Config{Connect: dial(way), TLS: muxTLS(c.current, c.sec), Host: way.Host(), Sign: way.Sign,
			Service: mux.Service{Handler: c.handler, Urgent: urgent}, Address: c.address, Lost: c.lost})
		conn = &leaderConn{cantinav1connect.NewLeaderServiceClient(l, baseURL(way, c.sec), clientOptions()...), l}
		c.clients[c.current] = conn
		for address, other := range c.clients {
			switch {
			case address == c.current:
			case other.conn.Idle() && !slices.Contains(c.servers, address): // a leader that was named
				delete(c.clients, address)
			}
		}
	}
	return c.current, conn
}

// failed chooses another server after a call at address failed.
func (c *LeaderClient) failed(address string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != address {
		return
	}
	var not *NotLeader
	if errors.As(err, &not) && (not.Cluster == "" || c.cluster == "" || not.Cluster == c.cluster) &&
		len(not.Addresses) > 0 && !not.Term.Less(c.heard) && not.Addresses[0] != address {
		c.current = not.Addresses[0]
		return
	}
	c.current = c.servers[rand.IntN(len(c.servers))]
}

// call makes one call and records its result.
func call[Q, A any](ctx context.Context, c *LeaderClient,
	do func(cantinav1connect.LeaderServiceClient) func(context.Context, *connect.Request[Q]) (*connect.Response[A], error),
	q *Q) (*A, error) {
	address, conn := c.conn()
	answer, err := do(conn.rpc)(ctx, connect.NewRequest(q))
	if err != nil {
		err = fromConnect(err)
		c.judge(ctx, address, err)
		return nil, err
	}
	return answer.Msg, nil
}

type leaderRPC = cantinav1connect.LeaderServiceClient

// patience is how many times as long as its call a heartbeat is waited for: a leader that is late has
// it, and the cell counts from the time it was sent.
const patience = 3

// Heartbeat implements cell.Leader. An answer that comes later is passed to Late; meanwhile the next
// heartbeats are sent, to another server if there is one.
func (c *LeaderClient) Heartbeat(ctx context.Context, b worker.Heartbeat, s cell.State) (worker.HeartbeatAnswer,
	error) {
	c.mu.Lock()
	if c.cluster != b.Cluster {
		c.cluster, c.heard = b.Cluster, fence.Term{}
	}
	c.mu.Unlock()
	q := wire.FromHeartbeat(b)
	q.State = fromState(s)
	address, conn := c.conn()
	if c.late == nil {
		a, err := c.beat(ctx, address, conn, q)
		c.judge(ctx, address, err)
		return a, err
	}
	type result struct {
		answer worker.HeartbeatAnswer
		err    error
	}
	got := make(chan result)
	c.beats.Go(func() {
		long, cancel := context.WithTimeout(c.ctx, patience*max(b.Period, time.Second))
		defer cancel()
		a, err := c.beat(long, address, conn, q)
		select {
		case got <- result{a, err}:
		case <-ctx.Done():
			if err == nil {
				c.late(a)
			}
		}
	})
	select {
	case r := <-got:
		c.judge(ctx, address, r.err)
		return r.answer, r.err
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			conn.conn.EndIfCut()
		}
		c.judge(ctx, address, ctx.Err())
		return worker.HeartbeatAnswer{}, ctx.Err()
	}
}

// judge chooses another server after a call failed, unless the caller has ended it.
func (c *LeaderClient) judge(ctx context.Context, address string, err error) {
	if err != nil && (ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded)) {
		c.failed(address, err)
	}
}

// beat makes the call.
func (c *LeaderClient) beat(ctx context.Context, address string, conn *leaderConn,
	q *pb.HeartbeatRequest) (worker.HeartbeatAnswer, error) {
	m, err := conn.rpc.Heartbeat(ctx, connect.NewRequest(q))
	if err != nil {
		return worker.HeartbeatAnswer{}, fromConnect(err)
	}
	a, err := wire.ToHeartbeatAnswer(m.Msg)
	if err != nil {
		return a, err
	}
	if a.Verdict == worker.Foreign || a.Verdict == worker.Adopt {
		a.Reason = "server " + address + ": " + a.Reason
		if a.Verdict == worker.Foreign {
			c.failed(address, cell.ErrForeign)
		}
		return a, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heard.Less(a.Term) {
		c.heard = a.Term
	}
	return a, nil
}

// UpdateStatus implements cell.Leader.
func (c *LeaderClient) UpdateStatus(ctx context.Context, u worker.UpdateStatus) ([]worker.StatusAnswer, error) {
	m, err := call(ctx, c, func(r leaderRPC) func(context.Context,
		*connect.Request[pb.UpdateStatusRequest]) (*connect.Response[pb.UpdateStatusResponse], error) {
		return r.UpdateStatus
	}, wire.FromUpdateStatus(u))
	if err != nil {
		return nil, err
	}
	return wire.ToStatusAnswers(m, u.Items)
}

// Rows implements cell.Leader.
func (c *LeaderClient) Rows(ctx context.Context, from cell.Caller, q cell.RowsQuery) (cell.Rows, error) {
	m, err := call(ctx, c, func(r leaderRPC) func(context.Context,
		*connect.Request[pb.RowsRequest]) (*connect.Response[pb.RowsResponse], error) {
		return r.Rows
	}, &pb.RowsRequest{From: fromCaller(from), Only: q.Only, Tasks: q.Tasks, Lrps: fromKeys(q.LRPs)})
	if err != nil {
		return cell.Rows{}, err
	}
	if wire.ToTerm(m.GetTerm()).Less(from.Term) {
		return cell.Rows{}, cell.ErrTerm
	}
	return rowsOf(m)
}

// LRPEvents implements cell.Leader.
func (c *LeaderClient) LRPEvents(ctx context.Context, from cell.Caller, events []cell.LRPEvent) ([]error, error) {
	all, err := each(events, wire.FromLRPCall)
	if err != nil {
		return nil, err
	}
	q := &pb.LRPEventsRequest{From: fromCaller(from), Events: all}
	m, err := call(ctx, c, func(r leaderRPC) func(context.Context,
		*connect.Request[pb.LRPEventsRequest]) (*connect.Response[pb.LRPEventsResponse], error) {
		return r.LRPEvents
	}, q)
	if err != nil {
		return nil, err
	}
	return eventErrors(m, from)
}

// TaskEvents implements cell.Leader.
func (c *LeaderClient) TaskEvents(ctx context.Context, from cell.Caller, events []cell.TaskEvent) ([]error, error) {
	all, err := each(events, wire.FromTaskCall)
	if err != nil {
		return nil, err
	}
	q := &pb.TaskEventsRequest{From: fromCaller(from), Events: all}
	m, err := call(ctx, c, func(r leaderRPC) func(context.Context,
		*connect.Request[pb.TaskEventsRequest]) (*connect.Response[pb.TaskEventsResponse], error) {
		return r.TaskEvents
	}, q)
	if err != nil {
		return nil, err
	}
	return eventErrors(m, from)
}

func fromCaller(c cell.Caller) *pb.Caller { return wire.FromCaller(c.Cluster, c.Term, c.Cell, c.Proc) }

// each converts all or fails.
func each[A, B any](all []A, convert func(A) (B, error)) ([]B, error) {
	out := make([]B, len(all))
	for i, x := range all {
		var err error
		if out[i], err = convert(x); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// eventErrors reads the answers of a leader to events; cell.ErrTerm when its term is
// lower than the caller's.
func eventErrors(m interface {
	GetTerm() *pb.Term
	GetAnswers() []*pb.EventAnswer
}, from cell.Caller) ([]error, error) {
	if wire.ToTerm(m.GetTerm()).Less(from.Term) {
		return nil, cell.ErrTerm
	}
	answers := m.GetAnswers()
	out := make([]error, len(answers))
	for i, a := range answers {
		out[i] = wire.ToEventError(a)
	}
	return out, nil
}
