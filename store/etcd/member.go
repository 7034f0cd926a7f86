package etcd

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"golang.org/x/sys/unix"

	"cantina/store"
	"cantina/store/datadir"
)

// MemberConfig has the parts of an embedded member. Zero fields take the default in brackets.
type MemberConfig struct {
	// Limits of one transaction [1,024 writes, 4 MiB].
	Limits store.Limits
	// Quota is the largest size of the database file in bytes [8 GiB].
	Quota int64
	// MinFree is the space in bytes that must stay free on the file system; below
	// it writes are refused with store.ErrFull before etcd meets the end of the disk
	// [64 MiB].
	MinFree int64
	// Upkeep sets when to compact and defragment.
	Upkeep Upkeep
	// Membership makes it one of several members [nil: a single one, without listener].
	Membership *Membership
	// Log takes etcd's warnings [discarded].
	Log *slog.Logger
}

// Of a single member: entries between two snapshots of the log, and entries kept after one. Both are
// held in memory, and one may be as large as a transaction.
const (
	snapshotCount = 200
	catchUp       = 50
	// A single member waits for no other: it leads after one tick to the length of an election. Short
	// ticks make its start short; each one costs time while the member is idle.
	tickMS     = 100
	electionMS = 500
	// flushEvery is how often etcd writes applied entries to its database file; its log has them before. Each look
	// costs time while the member is idle.
	flushEvery = 500 * time.Millisecond
)

func (c MemberConfig) withDefaults() MemberConfig {
	c.Limits.Ops = cmp.Or(c.Limits.Ops, 1024)
	c.Limits.Bytes = cmp.Or(c.Limits.Bytes, 4<<20)
	c.Quota = cmp.Or(c.Quota, 8<<30)
	c.MinFree = cmp.Or(c.MinFree, MinFree)
	c.Upkeep = c.Upkeep.withDefaults()
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Member is an embedded member of etcd.
type Member struct {
	cfg     MemberConfig
	dir     string
	server  *embed.Etcd
	client  *clientv3.Client
	backend *Backend
	fuse    *fuse
	full    atomic.Bool // too little free space
	// reserved is the size to which blocks of the database file are set aside.
	reserved atomic.Int64

	leads     atomic.Bool   // this server leads, by the election key
	ledChange chan struct{} // leads has changed

	life context.Context // ends with Close: every call into the server is under it
	end  context.CancelCauseFunc

	mu     sync.Mutex // guards the following
	calls  int        // calls into the server that have not returned
	closed bool
	idle   *sync.Cond
}

// Start starts the member that lives in the directory, or a new one. It returns when
// the member serves, or has failed to within ctx. The caller runs Run beside it,
// and ends with Close before it closes the directory.
func Start(ctx context.Context, f *datadir.Dir, c MemberConfig) (*Member, error) {
	c = c.withDefaults()
	m := &Member{cfg: c, dir: f.Path("etcd"), fuse: newFuse(), ledChange: make(chan struct{}, 1)}
	m.life, m.end = context.WithCancelCause(context.Background())
	m.idle = sync.NewCond(&m.mu)
	if err := c.Membership.emptied(m.dir, f); err != nil {
		return nil, fmt.Errorf("start etcd in %s: %w", m.dir, err)
	}
	if err := conceive(m.dir, c.Membership != nil); err != nil {
		return nil, fmt.Errorf("start etcd in %s: %w", m.dir, err)
	}
	if err := errors.Join(checkLog(m.dir), c.Membership.check(m.dir)); err != nil {
		return nil, m.notStarted(ctx, err)
	}
	started := make(chan error, 1)
	go func() { started <- m.start(ctx) }() // ends with start, or hangs with a broken member until the process ends
	select {
	case err := <-started:
		if err != nil {
			return nil, m.notStarted(ctx, err)
		}
		return m, nil
	case <-m.fuse.blown:
		return nil, m.notStarted(ctx, m.cause())
	}
}

// notStarted adds the remedy to the error of a store that does not start.
func (m *Member) notStarted(ctx context.Context, err error) error {
	err = fmt.Errorf("start etcd in %s: %w", m.dir, err)
	switch {
	case ctx.Err() != nil, errors.Is(err, ErrMembership), errors.Is(err, ErrRemoved):
		return err
	case errors.Is(err, store.ErrFull):
		return fmt.Errorf("%w; make room on that file system and start again", err)
	}
	return fmt.Errorf("%w; when its files are damaged, move %s away and put the newest backup in its place: "+
		"cantina store restore FILE --data %s", err, m.dir, filepath.Dir(filepath.Dir(m.dir)))
}

func (m *Member) start(ctx context.Context) error {
	config, err := m.config()
	if err != nil {
		return err
	}
	if p := m.cfg.Membership; p != nil && p.Join && blank(m.dir) {
		if err := p.admitted(ctx); err != nil {
			return err
		}
	}
	server, err := embed.StartEtcd(config)
	if err != nil {
		return m.cfg.Membership.explain(err)
	}
	select {
	case <-server.Server.ReadyNotify():
	case <-server.Server.StopNotify():
		server.Close()
		return ErrRemoved
	case <-ctx.Done():
		server.Close()
		return ctx.Err()
	}
	m.server = server
	m.client = v3client.New(server.Server)
	limits := store.Limits{Ops: m.cfg.Limits.Ops, Bytes: m.cfg.Limits.Bytes}
	m.backend = &Backend{client: m.client, limits: limits, member: m}
	m.checkSpace()
	m.reserve()
	err = m.disarm(ctx)
	if err == nil {
		err = born(m.dir)
	}
	if err != nil {
		m.client.Close()
		m.server.Close()
	}
	return err
}

func (m *Member) config() (*embed.Config, error) {
	c := embed.NewConfig()
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(newLogger(m.cfg.Log, m.fuse))
	c.LogLevel = "warn"
	c.Dir = m.dir
	c.Name = soleName
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.InitialClusterToken = rand.Text() // so that no two stores have one cluster id
	c.ListenClientUrls, c.ListenPeerUrls, c.AdvertiseClientUrls = nil, nil, nil
	c.TickMs, c.ElectionMs = tickMS, electionMS
	c.BackendBatchInterval = flushEvery
	c.SnapshotCount, c.SnapshotCatchUpEntries = snapshotCount, catchUp
	c.MaxSnapFiles, c.MaxWalFiles = 2, 2
	c.MaxTxnOps = uint(m.cfg.Limits.Ops)
	c.MaxRequestBytes = uint(m.cfg.Limits.Bytes)
	c.QuotaBackendBytes = m.cfg.Quota
	c.BootstrapDefragThresholdMegabytes = uint(m.cfg.Upkeep.DefragSlack >> 20)
	c.EnableGRPCGateway = false
	c.WarningApplyDuration = time.Second
	c.WarningUnaryRequestDuration = 3 * time.Second
	if p := m.cfg.Membership; p != nil {
		return c, p.configure(c)
	}
	return c, nil
}

// Backend returns the store's backend.
func (m *Member) Backend() *Backend { return m.backend }

// Broken is closed when the member has failed permanently; the process must restart.
func (m *Member) Broken() <-chan struct{} { return m.fuse.blown }

// cause returns why the member broke; it is only called once it has.
func (m *Member) cause() error {
	<-m.fuse.blown
	if free, err := freeSpace(m.dir); err == nil && free < 1<<20 {
		return fmt.Errorf("%w: %w: %d bytes free in %s: %s", store.ErrBroken, store.ErrFull, free, m.dir, m.fuse.reason)
	}
	return fmt.Errorf("%w: %s", store.ErrBroken, m.fuse.reason)
}

// gate refuses writes while there is too little space.
func (m *Member) gate() error {
	select {
	case <-m.fuse.blown:
		return m.cause()
	default:
	}
	return m.room()
}

// checkSpace opens or shuts the gate.
func (m *Member) checkSpace() {
	free, err := freeSpace(m.dir)
	if err != nil {
		m.cfg.Log.Warn("free space unknown", "path", m.dir, "error", err)
		return
	}
	full := free < m.cfg.MinFree
	if m.full.Swap(full) != full {
		m.cfg.Log.Warn("free space of the store", "path", m.dir, "free_bytes", free, "min_bytes", m.cfg.MinFree, "full", full)
	}
}

func freeSpace(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("statfs %s: %w", dir, err)
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// Size returns the size of the database file, and the used part of it, in bytes.
func (m *Member) Size(ctx context.Context) (file, used int64, err error) {
	return ownMember{m}.size(ctx)
}

// Maintain compacts to the present revision and, if useful, defragments, now. If that freed space,
// a full member accepts writes again. The store is blocked during the defragmentation.
func (m *Member) Maintain(ctx context.Context) error {
	return m.cfg.Upkeep.once(ctx, m.backend, m.cfg.Log)
}

// Run watches the free space each second, and compacts and defragments, until ctx
// is done (it returns ctx's error) or the member breaks (store.ErrBroken).
func (m *Member) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	upkept := make(chan error, 1)
	go func() { upkept <- m.cfg.Upkeep.run(ctx, m.backend, m.cfg.Log) }()
	tended := make(chan struct{})
	go func() {
		defer close(tended)
		if m.cfg.Membership != nil {
			m.tend(ctx)
		}
	}()
	defer func() { cancel(); <-upkept; <-tended }()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.server.Server.StopNotify():
			m.fuse.blow(ErrRemoved.Error())
			return m.cause()
		case <-m.fuse.blown:
			return m.cause()
		case <-tick.C:
			m.checkSpace()
			m.reserve()
		}
	}
}

// enter begins a call into the server. The context it returns ends with the member;
// end must be called by the goroutine that calls, when the call has returned.
func (m *Member) enter(ctx context.Context) (_ context.Context, end func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, nil, errClosed
	}
	m.calls++
	ctx, cancel := context.WithCancelCause(ctx)
	forget := context.AfterFunc(m.life, func() { cancel(errClosed) })
	return ctx, func() {
		if p := recover(); p != nil {
			m.fuse.blow(fmt.Sprint("panic: ", p))
		}
		forget()
		cancel(nil)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.calls--
		m.idle.Broadcast()
	}, nil
}

var errClosed = fmt.Errorf("etcd member closed: %w", store.ErrBroken)

// Close ends the member, after the calls into it. Of a broken one it closes
// nothing: it returns store.ErrBroken, and the process must end.
func (m *Member) Close() error {
	m.mu.Lock()
	again := m.closed
	m.closed = true
	m.mu.Unlock()
	if again {
		return nil
	}
	m.end(errClosed)
	ended := make(chan struct{})
	go func() { // ends with etcd's Close, or hangs with a broken member until the process ends
		defer close(ended)
		m.mu.Lock()
		for m.calls > 0 {
			m.idle.Wait()
		}
		m.mu.Unlock()
		m.client.Close()
		if m.cfg.Membership != nil {
			m.depart()
		}
		m.server.Close()
	}()
	select {
	case <-ended:
		return nil
	case <-m.fuse.blown:
		return m.cause()
	}
}
