package link

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"cantina/action"
	"cantina/cell"
	"cantina/fence"
	"cantina/internal/mux"
	"cantina/lrp"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
	"cantina/wire/cantinav1/cantinav1connect"
	"cantina/worker"
)

// Directory finds the cells that a leader calls: by the address of their newest
// heartbeat, or in this process. Where a cell keeps a connection, it is called over that.
type Directory struct {
	sec   Security
	conns sync.WaitGroup
	calls mux.Service // of cells, without their handler

	mu      sync.Mutex
	cluster fence.Cluster
	closed  bool
	conn    map[string]*mux.Conn // by address
	local   map[worker.CellName]Cell
	remote  map[worker.CellName]*remote
	address map[worker.CellName]string
}

// NewDirectory returns an empty directory.
func NewDirectory(sec Security) *Directory {
	calls := mux.Service{Urgent: urgent, Others: make(chan struct{}, othersAtOnce), Waiting: &atomic.Int64{}}
	return &Directory{sec: sec, calls: calls, conn: map[string]*mux.Conn{}, local: map[worker.CellName]Cell{},
		remote: map[worker.CellName]*remote{}, address: map[worker.CellName]string{}}
}

// OnWait has f called with the time that a call of a cell waited for room. It is for the start.
func (d *Directory) OnWait(f func(time.Duration)) { d.calls.Waited = f }

// Calls returns how many calls of cells that are not urgent are served now, and how many wait.
func (d *Directory) Calls() (served, waiting int) {
	return len(d.calls.Others), int(d.calls.Waiting.Load())
}

// Begin begins a term over a store with this identity, which every call names; Cluster returns it.
// Addresses of earlier terms are dropped: their cells may be gone, and a living one sends its address with
// its next heartbeat.
func (d *Directory) Begin(c fence.Cluster) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cluster = c
	clear(d.address)
	for _, r := range d.remote {
		r.close()
	}
	clear(d.remote)
}

// Cluster returns the identity that every call names.
func (d *Directory) Cluster() fence.Cluster {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cluster
}

// SetLocal names a cell of this process; it is called directly. Nil = it has ended.
func (d *Directory) SetLocal(name worker.CellName, c Cell) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c == nil {
		delete(d.local, name)
		return
	}
	d.local[name] = c
}

// SetAddress records the last address of a cell; empty = it is gone.
func (d *Directory) SetAddress(name worker.CellName, address string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.address[name] == address {
		return
	}
	if d.address[name] = address; address == "" {
		delete(d.address, name)
	}
	if r := d.remote[name]; r != nil {
		r.close()
		delete(d.remote, name)
	}
}

// Cell returns the cell of that name, or nil if it is unknown.
func (d *Directory) Cell(name worker.CellName) Cell {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.local[name]; c != nil {
		return c
	}
	address := d.address[name]
	if address == "" {
		return nil
	}
	r := d.remote[name]
	if r == nil {
		way := d.sec.way(address)
		single, both := &http.Client{Transport: transport(way, d.sec)}, duplex(way, d.sec)
		base := baseURL(way, d.sec)
		opts := append(clientOptions(), connect.WithInterceptors(stamp{d, name}))
		r = &remote{rpc: cantinav1connect.NewCellServiceClient(&muxOrDial{d, address, single}, base, opts...),
			streams: sync.OnceValue(func() cantinav1connect.CellServiceClient {
				return cantinav1connect.NewCellServiceClient(single, base, opts...)
			}),
			duplex: sync.OnceValue(func() cantinav1connect.CellServiceClient {
				return cantinav1connect.NewCellServiceClient(both, base, opts...)
			}),
			clients: []*http.Client{single, both}}
		d.remote[name] = r
	}
	return r
}

// Close ends the connections and drops kept connections.
func (d *Directory) Close() {
	d.mu.Lock()
	d.closed = true
	for _, l := range d.conn {
		l.End()
	}
	for _, r := range d.remote {
		r.close()
	}
	d.mu.Unlock()
	d.conns.Wait()
}

// muxHandler takes the connections of cells; h serves their calls.
func (d *Directory) muxHandler(h http.Handler) http.Handler {
	service := d.calls
	service.Handler = h
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if !d.begin() {
			http.Error(w, "this server is about to end", http.StatusServiceUnavailable)
			return
		}
		defer d.conns.Done()
		var address string
		var mine *mux.Conn
		mux.Accept(q.Context(), w, q, service, func(a string, l *mux.Conn) {
			address, mine = a, l
			d.mu.Lock()
			defer d.mu.Unlock()
			if old := d.conn[a]; old != nil {
				old.End()
			}
			if d.closed {
				l.End()
			} else if a != "" {
				d.conn[a] = l
			}
		})
		d.mu.Lock()
		defer d.mu.Unlock()
		if mine != nil && d.conn[address] == mine {
			delete(d.conn, address)
		}
	})
}

// begin counts a connection that is about to be taken, unless the directory is closed.
func (d *Directory) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.conns.Add(1)
	}
	return !d.closed
}

// connOf returns the connection of the cell at an address, or nil.
func (d *Directory) connOf(address string) *mux.Conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.conn[address]
}

// Behind reports whether something has arrived from a cell that is not handled.
func (d *Directory) Behind(name worker.CellName) bool {
	d.mu.Lock()
	l := d.conn[d.address[name]]
	d.mu.Unlock()
	return l != nil && l.Behind()
}

// muxOrDial is connect's HTTPClient for unary calls: the cell's connection when there is
// one that lives, its address otherwise.
type muxOrDial struct {
	cells   *Directory
	address string
	dial    *http.Client
}

// Do implements connect's HTTPClient.
func (x *muxOrDial) Do(q *http.Request) (*http.Response, error) {
	l := x.cells.connOf(x.address)
	if l == nil {
		return x.dial.Do(q)
	}
	a, err := l.Do(q)
	if errors.Is(err, mux.ErrNotSent) && q.Context().Err() == nil {
		return x.dial.Do(q)
	}
	return a, err
}

// remote is a cell behind a network.
type remote struct {
	rpc     cantinav1connect.CellServiceClient
	streams func() cantinav1connect.CellServiceClient // and large answers; made when it is needed, as most never are
	duplex  func() cantinav1connect.CellServiceClient // for streams in both directions
	clients []*http.Client
}

// close drops connections that are not in use.
func (r *remote) close() {
	for _, c := range r.clients {
		c.CloseIdleConnections()
	}
}

// callTimeout bounds one call to a cell; afterwards its outcome is unknown. Placements and reports
// have longer: the same call again does not help a late cell, and a cut connection ends its calls
// sooner.
const (
	callTimeout = 5 * time.Second
	longTimeout = 20 * time.Second
)

func invoke[Q, A any](ctx context.Context,
	do func(context.Context, *connect.Request[Q]) (*connect.Response[A], error), q *Q) (*A, error) {
	return invokeWithin(ctx, callTimeout, do, q)
}

func invokeWithin[Q, A any](ctx context.Context, most time.Duration,
	do func(context.Context, *connect.Request[Q]) (*connect.Response[A], error), q *Q) (*A, error) {
	limit, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	answer, err := do(limit, connect.NewRequest(q))
	if err != nil {
		return nil, fromConnect(err)
	}
	return answer.Msg, nil
}

// GetRunningTasks implements Cell.
func (r *remote) GetRunningTasks(ctx context.Context, q worker.ReportRequest) (worker.Report, error) {
	m, err := invokeWithin(ctx, longTimeout, r.rpc.GetRunningTasks, wire.FromReportRequest(q))
	if err != nil {
		return worker.Report{}, err
	}
	return wire.ToReport(m)
}

// RunTasks implements Cell. Equal workloads of one call are sent once.
func (r *remote) RunTasks(ctx context.Context, items []cell.RunItem) ([]worker.RunAnswer, error) {
	if len(items) == 0 {
		return nil, nil
	}
	first := items[0].Call
	q := &pb.RunTasksRequest{To: wire.FromCallee(first.Term, first.Proc), Seq: first.Seq}
	loads := &pool{}
	asked := make([]worker.RunTask, len(items))
	for i, it := range items {
		m := wire.FromRunTask(it.Call)
		if w := it.Work; w != nil {
			m.Workload = loads.number(w.Workload)
			if w.Program != nil {
				m.Program = wire.FromAction(action.Action{Run: w.Program}).GetRun()
			}
			m.Env, m.Resources, m.Domain = wire.FromEnv(w.Env), wire.FromAmounts(w.Resources), w.Domain
			m.Labels = map[string]string{"job_uid": w.JobUID, "attempt": w.Attempt}
		}
		q.Tasks = append(q.Tasks, m)
		asked[i] = it.Call
	}
	q.Workloads = loads.messages
	m, err := invoke(ctx, r.rpc.RunTasks, q)
	if err != nil {
		return nil, err
	}
	all, err := wire.ToRunAnswers(m, asked)
	if err != nil {
		return nil, err
	}
	answers := all[:0]
	for i, a := range all {
		if asked[i].Probe == 0 {
			answers = append(answers, a)
		}
	}
	return answers, nil
}

// NotifyIfTasksNotRunning implements Cell.
func (r *remote) NotifyIfTasksNotRunning(ctx context.Context, q worker.Notify) (worker.NotifyAnswer, error) {
	m, err := invoke(ctx, r.rpc.NotifyIfTasksNotRunning, wire.FromNotify(q))
	if err != nil {
		return worker.NotifyAnswer{}, err
	}
	return wire.ToNotifyAnswer(m), nil
}

// KillTask implements Cell.
func (r *remote) KillTask(ctx context.Context, calls []worker.KillTask) ([]bool, error) {
	if len(calls) == 0 {
		return nil, nil
	}
	q := &pb.KillTaskRequest{To: wire.FromCallee(calls[0].Term, calls[0].Proc)}
	for _, k := range calls {
		q.Runs = append(q.Runs, wire.FromRun(k.Run))
	}
	m, err := invoke(ctx, r.rpc.KillTask, q)
	if err != nil {
		return nil, err
	}
	return m.GetHeld(), nil
}

// RequestSuicide implements Cell.
func (r *remote) RequestSuicide(ctx context.Context, s worker.Suicide) error {
	_, err := invoke(ctx, r.rpc.RequestSuicide, wire.FromSuicide(s))
	return err
}

// Perform implements Cell.
func (r *remote) Perform(ctx context.Context, w cell.Work) ([]cell.Refusal, error) {
	loads := &pool{}
	q := &pb.PerformRequest{To: wire.FromCallee(w.Term, w.Proc)}
	for _, l := range w.LRPs {
		q.Lrps = append(q.Lrps, &pb.LRPWork{Key: wire.FromLRPKey(l.Key), Service: wire.FromServiceKey(l.Service),
			Instance: l.Instance, Workload: loads.number(l.Workload), DeadlineBound: l.DeadlineBound, Exclusive: l.Exclusive})
	}
	for _, t := range w.Tasks {
		q.Tasks = append(q.Tasks, &pb.TaskWork{Guid: t.GUID, Uid: t.UID, Domain: t.Domain, Workload: loads.number(t.Workload),
			DeadlineBound: t.DeadlineBound})
	}
	q.Workloads = loads.messages
	m, err := invokeWithin(ctx, longTimeout, r.rpc.Perform, q)
	if err != nil {
		return nil, err
	}
	var refused []cell.Refusal
	for _, x := range m.GetRefusedLrps() {
		if i := int(x.GetIndex()); i >= 0 && i < len(w.LRPs) {
			refused = append(refused, cell.Refusal{ID: w.LRPs[i].Instance, Reason: x.GetReason(), Cell: x.GetCell()})
		}
	}
	for _, x := range m.GetRefusedTasks() {
		if i := int(x.GetIndex()); i >= 0 && i < len(w.Tasks) {
			refused = append(refused, cell.Refusal{ID: w.Tasks[i].UID, Reason: x.GetReason(), Cell: x.GetCell()})
		}
	}
	return refused, nil
}

// StopWork implements Cell.
func (r *remote) StopWork(ctx context.Context, t fence.Term, proc worker.Proc, w cell.Stops) error {
	q := &pb.StopWorkRequest{To: wire.FromCallee(t, proc), Tasks: w.Tasks}
	for _, x := range w.Instances {
		q.Instances = append(q.Instances, &pb.StopInstance{Key: wire.FromLRPKey(x.Key), Instance: x.Instance})
	}
	_, err := invoke(ctx, r.rpc.StopWork, q)
	return err
}

// SignalInstance implements Cell.
func (r *remote) SignalInstance(ctx context.Context, t fence.Term, proc worker.Proc, key lrp.Key, instance string,
	signal int) error {
	_, err := invoke(ctx, r.rpc.SignalInstance, &pb.SignalInstanceRequest{To: wire.FromCallee(t, proc),
		Key: wire.FromLRPKey(key), Instance: instance, Signal: int32(signal)})
	return err
}

// ShortenGrace implements Cell.
func (r *remote) ShortenGrace(ctx context.Context, t fence.Term, proc worker.Proc, s cell.Shorten) (int, error) {
	m, err := invoke(ctx, r.rpc.ShortenGrace, &pb.ShortenGraceRequest{To: wire.FromCallee(t, proc), Instances: s.Instances,
		Tasks: s.Tasks, Job: s.Job, Node: s.Node, Grace: durationpb.New(s.Grace)})
	return int(m.GetShortened()), err
}

// Drain implements Cell.
func (r *remote) Drain(ctx context.Context, t fence.Term, proc worker.Proc, e cell.Drain) error {
	_, err := invoke(ctx, r.rpc.Drain, &pb.DrainRequest{To: wire.FromCallee(t, proc), Id: e.ID, Reason: e.Reason,
		Deadline: wire.FromDuration(e.Deadline), StopBatch: e.StopBatch, Undo: e.Undo})
	return err
}

// ReadLogs implements Cell.
func (r *remote) ReadLogs(ctx context.Context, m *pb.ReadLogsRequest) (*pb.ReadLogsResponse, error) {
	return invoke(ctx, r.streams().ReadLogs, m)
}

// ReadUsage implements Cell.
func (r *remote) ReadUsage(ctx context.Context, m *pb.ReadUsageRequest) (*pb.ReadUsageResponse, error) {
	return invoke(ctx, r.rpc.ReadUsage, m)
}

// FollowLogs implements Cell.
func (r *remote) FollowLogs(ctx context.Context, m *pb.FollowLogsRequest,
	each func(*pb.FollowLogsResponse) error) error {
	stream, err := r.streams().FollowLogs(ctx, connect.NewRequest(m))
	if err != nil {
		return fromConnect(err)
	}
	defer stream.Close()
	for stream.Receive() {
		if err := each(stream.Msg()); err != nil {
			return err
		}
	}
	if err := stream.Err(); err != nil {
		return fromConnect(err)
	}
	return nil
}

// pool numbers workloads: each goes once into a request.
type pool struct {
	messages []*pb.Workload
	numbers  map[*action.Workload]int32
}

func (p *pool) number(w *action.Workload) int32 {
	if n, ok := p.numbers[w]; ok {
		return n
	}
	if p.numbers == nil {
		p.numbers = map[*action.Workload]int32{}
	}
	p.messages = append(p.messages, wire.FromWorkload(*w))
	p.numbers[w] = int32(len(p.messages))
	return p.numbers[w]
}
