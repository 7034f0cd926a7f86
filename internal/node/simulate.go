package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"cantina/cell"
	"cantina/executor"
	"cantina/executor/simulate"
	"cantina/internal/guard"
	"cantina/internal/link"
	"cantina/internal/run"
	pb "cantina/wire/cantinav1"
	"cantina/worker"
)

// Simulation is many cells in one process. Each uses the real protocol over its own connection,
// from its own address; only their containers exist in memory (package simulate). It is for
// testing and measuring a cluster without the machines.
type Simulation struct {
	cfg   CellConfig
	lock  *os.File
	calls link.CellHandlers
	cells []*simulated
}

type simulated struct {
	simulatedCell
	exec   *simulate.Executor
	client *link.LeaderClient
	door   *guard.Door
	calls  http.Handler // of the leader
}

// simulatedCell is a cell whose containers write nothing.
type simulatedCell struct{ *cell.Cell }

// ReadLogs implements link.Cell: there is nothing.
func (simulatedCell) ReadLogs(context.Context, *pb.ReadLogsRequest) (*pb.ReadLogsResponse, error) {
	return &pb.ReadLogsResponse{End: true}, nil
}

// ReadUsage implements link.Cell: containers use nothing.
func (simulatedCell) ReadUsage(context.Context, *pb.ReadUsageRequest) (*pb.ReadUsageResponse, error) {
	return &pb.ReadUsageResponse{}, nil
}

// FollowLogs implements link.Cell: it ends at once.
func (simulatedCell) FollowLogs(context.Context, *pb.FollowLogsRequest, func(*pb.FollowLogsResponse) error) error {
	return nil
}

// Exec implements link.Cell: it does nothing.
func (simulatedCell) Exec(_ context.Context, _ *pb.CellExecStart, _ func() (*pb.ExecInput, error),
	out func(*pb.ExecResponse) error) error {
	return out(&pb.ExecResponse{Kind: &pb.ExecResponse_End{End: &pb.ExecEnd{ExitCode: -1,
		Reason: "the cell is simulated: its containers have no programs and no files"}}})
}

// openAtOnce is how many cells of a simulation are opened at the same time: each
// waits for its directory to be durable.
const openAtOnce = 64

// OpenSimulation opens n cells called Name-0 to Name-(n-1), each in a directory of that name below
// Dir. Listen needs port 0. It returns executor.ErrInUse if the directory is in use, and the
// errors of OpenCell.
func OpenSimulation(ctx context.Context, cfg CellConfig, n int) (*Simulation, error) {
	if err := cfg.Name.Check(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("directory of the simulation: %w", err)
	}
	s := &Simulation{cfg: cfg, calls: link.NewCellHandlers(), cells: make([]*simulated, n)}
	var err error
	if s.lock, err = os.OpenFile(filepath.Join(cfg.Dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("directory of the simulation: %w", err)
	}
	if err := run.Lock(s.lock); err != nil {
		s.lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = executor.ErrInUse
		}
		return nil, fmt.Errorf("directory %s: %w", cfg.Dir, err)
	}
	executor.RaiseFileLimit()
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	cfg.Metrics.Watch(s.samples)
	if cfg.Health != nil {
		cfg.Health.Add(s.health())
	}
	return s, nil
}

func (s *Simulation) open(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, len(s.cells))
	room := make(chan struct{}, openAtOnce)
	for i := range s.cells {
		room <- struct{}{}
		wg.Go(func() {
			s.cells[i], errs[i] = s.openOne(ctx, i)
			<-room
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (s *Simulation) openOne(ctx context.Context, i int) (*simulated, error) {
	cfg := s.cfg
	cfg.Name += worker.CellName("-" + strconv.Itoa(i))
	cfg.Dir = filepath.Join(cfg.Dir, string(cfg.Name))
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("cell directory: %w", err)
	}
	tls, err := cfg.TLS.Client()
	if err != nil {
		return nil, err
	}
	d, err := cfg.listener().Open(ctx)
	if err != nil {
		return nil, err
	}
	m := &simulated{door: d, exec: simulate.New(cfg.Capacity, cfg.Clock.Wall)}
	m.client = link.NewLeaderClient(cfg.Servers, link.Security{TLS: tls, Token: cfg.Token}, func() {
		if m.Cell != nil {
			m.LinkBroken()
		}
	})
	cfg.Offer.Host = string(cfg.Name)
	m.Cell, err = cell.New(cell.Config{Name: cfg.Name, Dir: cfg.Dir, Clock: cfg.Clock,
		Log: cfg.Log.With("cell", string(cfg.Name)), Offer: cfg.Offer,
		Address: d.Address(), Host: cfg.Host, Build: cfg.Build, Env: cfg.Env, API: cfg.API, Timeouts: cfg.Timeouts,
		DrainTimeout: cfg.DrainTimeout, Runtime: cell.Runtime{Identity: cell.UnsyncedIdentity(cfg.Dir)}},
		cell.Simulated{Executor: m.exec}, m.client)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	m.calls = s.calls.For(m)
	m.client.Serve(d.Address(), m.calls)
	m.client.Late(m.LateAnswer)
	return m, nil
}

// Address is where the leader calls the first cell.
func (s *Simulation) Address() string { return s.cells[0].door.Address() }

// Run drives all cells until ctx is done, or one of them ends with an error. They
// end side by side: each may wait a while for its leader's answer to its deregistration.
func (s *Simulation) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	errs := make([]error, len(s.cells), len(s.cells)+1)
	for i, m := range s.cells {
		wg.Go(func() {
			defer stop()
			errs[i] = m.run(ctx)
		})
	}
	wg.Wait()
	return errors.Join(append(errs, s.close())...)
}

// run drives one cell and its listener.
func (m *simulated) run(ctx context.Context) error {
	var g run.Group
	g.Add("listener "+m.door.Address(), func(ctx context.Context) error { return m.door.Serve(ctx, m.calls) })
	g.Add("cell", m.Cell.Run)
	return g.Run(ctx)
}

func (s *Simulation) close() error {
	for _, m := range s.cells {
		if m != nil {
			m.client.Close()
			m.exec.Close()
			m.door.Close()
		}
	}
	return s.lock.Close()
}
