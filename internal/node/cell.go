package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cantina/action"
	"cantina/cell"
	"cantina/executor"
	"cantina/image"
	"cantina/image/cache"
	"cantina/internal/guard"
	"cantina/internal/health"
	"cantina/internal/link"
	"cantina/internal/metric"
	"cantina/internal/run"
	"cantina/internal/trace"
	"cantina/logstore"
	"cantina/placement"
	"cantina/resource"
	"cantina/worker"
)

// CellConfig has the parts of a cell process. Name, Dir, Clock and Log are needed.
type CellConfig struct {
	Name worker.CellName
	Dir  string
	// Servers are tried in random order; empty in dev, where Leader is set.
	Servers []string
	Leader  func() (cell.Leader, error)
	// Abandoned is cell.Config's.
	Abandoned <-chan struct{}
	// OnSession is cell.Config's.
	OnSession func(worker.State)
	// Listen is where the leader calls, host:port or unix:PATH; Advertise how it is
	// reached, empty = the address listened on. Empty Listen in dev.
	Listen, Advertise string
	TLS               guard.TLSFiles
	Insecure          bool
	// Token is the token for callers of a loopback port, here and at the servers.
	Token guard.Token

	Offer placement.State
	// Capacity replaces the machine's amounts, name by name, and adds to them.
	Capacity resource.Amounts
	// Host is the address at which instances are reached; empty = 127.0.0.1.
	Host string
	// Env is given to every container, API to work that requests it.
	Env, API []action.Variable
	Timeouts worker.Timeouts
	Output   logstore.Config
	Cache    cache.Config // of downloads
	Unpack   int64        // bytes that an archive may unpack to where the work names no disk
	Image    image.Config // of unpacked images, and of the credentials for registries
	// FirstPort to LastPort are given to containers; 0 = 20000 to 29999.
	FirstPort, LastPort int
	Reaper              string
	Cgroups             executor.CgroupMode
	// DrainTimeout is how long a drain may take; 0 = 10 min.
	DrainTimeout time.Duration
	// StuckAfter is how long after KILL a container is STUCK_KILLING; 0 = 5 s.
	// RebootCommand is run, once, when such a one must be dead; empty = the cell
	// stays and takes no work.
	StuckAfter    time.Duration
	RebootCommand []string
	// Metrics gets the cell's measurements; nil = none.
	Metrics *metric.Set
	// Trace gets the spans of containers; nil = none.
	Trace *trace.Tracer
	// Health gets the cell's checks, and is served on its address; nil = a set of its own.
	Health *health.Set
	// User runs the work that names none; empty = the cell itself.
	User string
	// Secrets has a directory for each domain with the files of its secrets; empty = none.
	Secrets string
	// Volumes are the directories at which and below which work may have volumes: PATH or PATH:ro.
	Volumes []string
	Build   string
	Clock   run.Clock
	Log     *slog.Logger
}

// Cell is one cell process. Open it, then Run it.
type Cell struct {
	cfg    CellConfig
	exec   *executor.Executor
	cell   *cell.Cell
	local  *link.Local
	client *link.LeaderClient
	door   *guard.Door
}

// secretsDir checks the directory of secrets, and returns its absolute path.
func secretsDir(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s: %w", dir, syscall.ENOTDIR)
	}
	if err != nil {
		return "", fmt.Errorf("--secrets: %w", err)
	}
	return filepath.Abs(dir)
}

// volumeDirs parses the directories of volumes; a relative path is one of this directory.
func volumeDirs(list []string) (out []action.VolumeDir, err error) {
	for _, text := range list {
		path, suffix := text, ""
		if p, ok := strings.CutSuffix(text, ":ro"); ok {
			path, suffix = p, ":ro"
		}
		if path != "" {
			if path, err = filepath.Abs(path); err != nil {
				return nil, fmt.Errorf("--volumes: %w", err)
			}
		}
		d, err := action.ParseVolumeDir(path + suffix)
		if err != nil {
			return nil, fmt.Errorf("--volumes: %w", err)
		}
		out = append(out, d)
	}
	return out, nil
}

// OpenCell takes the cell's directory, ends or adopts the work of a dead predecessor, and begins a
// session. It fails at once if the directory or the address is in use; worker.ErrName.
func OpenCell(ctx context.Context, cfg CellConfig) (_ *Cell, err error) {
	if err := cfg.Name.Check(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("cell directory: %w", err)
	}
	if err := cell.CheckName(cfg.Dir, cfg.Name); err != nil {
		return nil, err
	}
	if cfg.Secrets, err = secretsDir(cfg.Secrets); err != nil {
		return nil, err
	}
	volumes, err := volumeDirs(cfg.Volumes)
	if err != nil {
		return nil, err
	}
	capacity, err := capacityOf(cfg)
	if err != nil {
		return nil, err
	}
	cfg.Capacity = capacity
	n := &Cell{cfg: cfg}
	if cfg.Listen != "" {
		d, err := cfg.listener().Open(ctx)
		if err != nil {
			return nil, err
		}
		if d.Warning != "" {
			cfg.Log.Warn(d.Warning)
		}
		n.door = d
		if n.cfg.Advertise == "" {
			n.cfg.Advertise = d.Address()
		}
	}
	leader, err := n.leader()
	if err != nil {
		return nil, errors.Join(err, n.closeListener())
	}
	exec, err := executor.Open(executor.Config{Dir: filepath.Join(cfg.Dir, "executor"), Capacity: cfg.Capacity,
		Reaper:  cfg.Reaper,
		Cgroups: cfg.Cgroups, KillWait: cfg.Timeouts.KillWait, StuckAfter: cfg.StuckAfter, RebootCommand: cfg.RebootCommand,
		TestKinds: true, User: cfg.User, Secrets: cfg.Secrets, Volumes: volumes, Output: cfg.Output,
		Cache: cfg.Cache, UnpackMax: cfg.Unpack, Image: cfg.Image, FirstPort: cfg.FirstPort, LastPort: cfg.LastPort,
		Clock: cfg.Clock, Log: cfg.Log})
	if err != nil {
		return nil, errors.Join(err, n.closeListener())
	}
	n.exec = exec
	cfg.Offer.OpenFiles = executor.MostOpenFiles()
	for _, d := range volumes {
		cfg.Offer.Volumes = append(cfg.Offer.Volumes, d.String())
	}
	n.cell, err = cell.New(cell.Config{Name: cfg.Name, Dir: cfg.Dir, Clock: cfg.Clock, Log: cfg.Log, Offer: cfg.Offer,
		Address: n.cfg.Advertise,
		Host:    cfg.Host, Build: cfg.Build, Env: cfg.Env, API: cfg.API, Timeouts: cfg.Timeouts,
		DrainTimeout: cfg.DrainTimeout, Abandoned: cfg.Abandoned, OnSession: cfg.OnSession},
		cell.Real{Executor: exec}, leader)
	if err != nil {
		return nil, errors.Join(err, n.closeListener())
	}
	cfg.Metrics.Watch(n.samples)
	if n.cfg.Health == nil {
		n.cfg.Health = &health.Set{}
	}
	n.cfg.Health.Add(n.health())
	n.local = &link.Local{Cell: n.cell, Name: cfg.Name, Output: exec.Output(), Executor: exec}
	if n.client != nil {
		h := link.NewCellHandler(n.local)
		n.client.Serve(n.cfg.Advertise, h)
		n.client.Late(n.cell.LateAnswer)
	}
	return n, nil
}

// listener is where the leader calls.
func (c *CellConfig) listener() guard.Listener {
	return guard.Listener{Address: c.Listen, TLS: c.TLS, Insecure: c.Insecure, Token: c.Token,
		Hosts: namesOf([]string{c.Advertise}), Log: c.Log}
}

func (n *Cell) closeListener() error {
	if n.door == nil {
		return nil
	}
	return n.door.Close()
}

// leader is how the cell reaches its leader.
func (n *Cell) leader() (cell.Leader, error) {
	if n.cfg.Leader != nil {
		return nearLeader{n.cfg.Leader}, nil
	}
	if len(n.cfg.Servers) == 0 {
		return nil, errors.New("a cell needs the address of at least one server: --servers HOST:PORT")
	}
	tls, err := n.cfg.TLS.Client()
	if err != nil {
		return nil, err
	}
	n.client = link.NewLeaderClient(n.cfg.Servers, link.Security{TLS: tls, Token: n.cfg.Token}, func() {
		if n.cell != nil {
			n.cell.LinkBroken()
		}
	})
	return n.client, nil
}

// DirID is the id of the cell's data directory.
func (n *Cell) DirID() string { return n.cell.DirID() }

// Local returns the cell for calls within the process.
func (n *Cell) Local() *link.Local { return n.local }

// Containers counts the containers that have not ended: those that end with the process, and those
// that outlive it.
func (n *Cell) Containers() (ending, staying int) {
	for _, c := range n.exec.List() {
		switch {
		case c.Outlives():
			staying++
		case c.State != executor.Completed:
			ending++
		}
	}
	return ending, staying
}

// Abort kills everything now, for a second interrupt.
func (n *Cell) Abort() { n.exec.Abort() }

// Freeze and Thaw are the effects of Ctrl-Z and fg on a cell in a terminal.
func (n *Cell) Freeze() error { return n.exec.Freeze() }

// Thaw undoes Freeze.
func (n *Cell) Thaw() error { return n.exec.Thaw() }

// Run drives executor and cell until ctx is done: the cell leaves first, then the executor ends
// the rest.
func (n *Cell) Run(ctx context.Context) error {
	var g run.Group
	g.Add("executor", n.exec.Run)
	if n.door != nil {
		h := n.handler()
		g.Add("listener "+n.door.Address(), func(ctx context.Context) error { return n.door.Serve(ctx, h) })
	}
	g.Add("cell", n.cell.Run)
	if n.cfg.Trace != nil {
		g.Add("trace", n.traceStarts)
	}
	err := g.Run(ctx)
	if n.client != nil {
		n.client.Close()
	}
	return err
}

// nearLeader is a leader in the same process, when there is one.
type nearLeader struct{ now func() (cell.Leader, error) }

// Heartbeat implements cell.Leader.
func (n nearLeader) Heartbeat(ctx context.Context, b worker.Heartbeat, s cell.State) (worker.HeartbeatAnswer, error) {
	l, err := n.now()
	if err != nil {
		return worker.HeartbeatAnswer{}, err
	}
	return l.Heartbeat(ctx, b, s)
}

// UpdateStatus implements cell.Leader.
func (n nearLeader) UpdateStatus(ctx context.Context, u worker.UpdateStatus) ([]worker.StatusAnswer, error) {
	l, err := n.now()
	if err != nil {
		return nil, err
	}
	return l.UpdateStatus(ctx, u)
}

// Rows implements cell.Leader.
func (n nearLeader) Rows(ctx context.Context, from cell.Caller, q cell.RowsQuery) (cell.Rows, error) {
	l, err := n.now()
	if err != nil {
		return cell.Rows{}, err
	}
	return l.Rows(ctx, from, q)
}

// LRPEvents implements cell.Leader.
func (n nearLeader) LRPEvents(ctx context.Context, from cell.Caller, events []cell.LRPEvent) ([]error, error) {
	l, err := n.now()
	if err != nil {
		return nil, err
	}
	return l.LRPEvents(ctx, from, events)
}

// TaskEvents implements cell.Leader.
func (n nearLeader) TaskEvents(ctx context.Context, from cell.Caller, events []cell.TaskEvent) ([]error, error) {
	l, err := n.now()
	if err != nil {
		return nil, err
	}
	return l.TaskEvents(ctx, from, events)
}

// containersOf is how many containers a cell offers by default: one for each 8 MiB of
// memory and each 16 process ids, but 100 at least and 10,000 at most. One more is
// kept back for the probe.
func containersOf(memoryMB, pids int) int {
	return max(100, min(memoryMB/8, pids/16, 10_000))
}

// maxPIDs is how many processes and threads the machine can have.
func maxPIDs() (int, error) {
	most := math.MaxInt
	for _, name := range []string{"pid_max", "threads-max"} {
		text, err := os.ReadFile("/proc/sys/kernel/" + name)
		if err != nil {
			return 0, fmt.Errorf("processes of the machine: %w", err)
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return 0, fmt.Errorf("processes of the machine: %s: %w", name, err)
		}
		most = min(most, n)
	}
	return most, nil
}

// capacityOf is the capacity of a cell: that of its machine, unless configured.
func capacityOf(cfg CellConfig) (resource.Amounts, error) {
	c, err := MachineCapacity(cfg.Dir)
	if err != nil {
		return nil, err
	}
	maps.Copy(c, cfg.Capacity)
	return c, nil
}

// MachineCapacity is the capacity of this machine: memory, processors, and the space of the file
// system below dir.
func MachineCapacity(dir string) (resource.Amounts, error) {
	memory, err := totalMemory()
	if err != nil {
		return nil, err
	}
	pids, err := maxPIDs()
	if err != nil {
		return nil, err
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return nil, fmt.Errorf("disk space below %s: %w", dir, err)
	}
	return resource.Amounts{resource.MemoryMB: memory, resource.CPUMilli: 1000 * runtime.NumCPU(),
		resource.DiskMB: int(fs.Bavail * uint64(fs.Bsize) >> 20), resource.Containers: containersOf(memory, pids)}, nil
}

// totalMemory reads MemTotal in mebibytes.
func totalMemory() (int, error) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("memory of the machine: %w", err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "MemTotal:"); ok {
			kb, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			if err != nil {
				return 0, fmt.Errorf("memory of the machine: %w", err)
			}
			return kb >> 10, nil
		}
	}
	return 0, errors.New("memory of the machine: no MemTotal in /proc/meminfo")
}

// Address returns where the leader reaches the cell.
func (n *Cell) Address() string { return n.cfg.Advertise }
