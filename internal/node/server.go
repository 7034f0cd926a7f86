package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"cantina/api"
	"cantina/cell"
	"cantina/executor"
	"cantina/fence"
	"cantina/internal/guard"
	"cantina/internal/health"
	"cantina/internal/link"
	"cantina/internal/metric"
	"cantina/internal/run"
	"cantina/internal/trace"
	"cantina/leader"
	"cantina/store"
	"cantina/store/datadir"
	"cantina/store/etcd"
	"cantina/ui"
	"cantina/zone"
)

// ServerConfig has the parts of a server. Dir, Name, Clock and Log are needed.
type ServerConfig struct {
	leader.Settings
	Dir string
	// Endpoints are those of an operator's etcd; empty = an embedded member in Dir.
	Endpoints []string
	EtcdTLS   *tls.Config
	// Membership makes the embedded member one of several; nil = a single one.
	Membership *etcd.Membership
	// Listen has the addresses of API and cells, host:port or unix:PATH. Advertise is
	// how others reach them; empty = the addresses listened on.
	Listen    []string
	Advertise []string
	TLS       guard.TLSFiles
	Insecure  bool
	// Token is the token for callers of a loopback port, and for cells on loopback.
	Token guard.Token
	// Group may use the Unix sockets beside their owner; empty = none.
	Group string
	// Bistro is a configuration file of Bistro to follow.
	Bistro BistroFile
	// Hosts are further names under which browsers and clients may address the API.
	Hosts []string

	// Metrics gets the server's measurements; nil = none.
	Metrics *metric.Set
	// Trace gets the spans of work; nil = none.
	Trace *trace.Tracer
	// Health gets the server's checks, and is served on its addresses; nil = a set of its own.
	Health *health.Set

	// Zones finds the time zones of schedules; their rules are read again regularly. Settings.Zone is
	// made from it.
	Zones *zone.Loader
}

// Server is one server process. Open it, then Run it.
type Server struct {
	cfg       ServerConfig
	log       *slog.Logger
	dir       *datadir.Dir
	doors     []*guard.Door
	keys      *guard.Keys
	addresses []string
	api       *api.Server
	cells     *link.Directory
	client    *tls.Config // for calls of other servers

	mu     sync.Mutex
	term   *leader.Term
	known  store.Leader // the leader, by the store
	cause  string       // why this server cannot lead
	member *etcd.Member // the embedded one, while it is open
	store  *store.Store // while it is open
}

// OpenServer takes the data directory and the addresses: it fails at once when either
// is in use.
func OpenServer(ctx context.Context, cfg ServerConfig) (*Server, error) {
	if err := cfg.Timeouts.Validate(); err != nil {
		return nil, err
	}
	executor.RaiseFileLimit() // each cell has a connection, and is called over another
	if cfg.Zones == nil {
		z, err := zone.New(zone.Options{})
		if err != nil {
			return nil, err
		}
		cfg.Zones = z
	}
	cfg.Zone = func(name string) (*time.Location, error) {
		z, err := cfg.Zones.Load(name)
		return z.Location, err
	}
	warnings, err := peerWarnings(ctx, cfg)
	if err != nil {
		return nil, err
	}
	f, err := datadir.Open(cfg.Dir)
	if err != nil {
		return nil, err
	}
	client, err := cfg.TLS.Client()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	s := &Server{cfg: cfg, log: cfg.Log, dir: f, keys: guard.NewKeys(cfg.Clock.Boot), client: client,
		cells: link.NewDirectory(link.Security{TLS: client, Token: cfg.Token})}
	conf := api.Config{Log: cfg.Log, Build: cfg.Build, NewID: leader.NewID, Now: cfg.Clock.Wall, Zone: cfg.Zone,
		Browser: s.browser}
	if len(cfg.Endpoints) == 0 {
		conf.Members = storeMembers{s}
	}
	if cfg.Trace != nil {
		conf.Traced = s.traced
	}
	s.api = api.New(conf)
	if s.cfg.Health == nil {
		s.cfg.Health = &health.Set{}
	}
	s.cfg.Health.Add(s.health())
	if cfg.Metrics != nil || cfg.Trace != nil {
		s.cfg.Measures = leader.Measures{Placed: s.placed, Round: cfg.Metrics.Round}
	}
	if cfg.Metrics != nil {
		s.cells.OnWait(cfg.Metrics.CallWaited)
		cfg.Metrics.Watch(s.samples)
	}
	names := append(slices.Clone(cfg.Hosts), namesOf(cfg.Advertise)...)
	for _, address := range cfg.Listen {
		d, err := guard.Listener{Address: address, TLS: cfg.TLS, Insecure: cfg.Insecure, Token: cfg.Token, Keys: s.keys,
			Group: cfg.Group, Hosts: names, Log: cfg.Log}.Open(ctx)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.doors = append(s.doors, d)
		s.addresses = append(s.addresses, d.Address())
		if d.Warning != "" {
			warnings = append(warnings, d.Warning)
		}
	}
	for _, w := range warnings {
		s.log.Warn(w)
		s.api.Warn(w)
	}
	return s, nil
}

// namesOf are the host names in addresses.
func namesOf(addresses []string) (names []string) {
	for _, a := range addresses {
		if host, _, err := net.SplitHostPort(a); err == nil {
			names = append(names, host)
		}
	}
	return names
}

// Close gives directory and addresses back, for a server that was not run.
func (s *Server) Close() error {
	var errs []error
	for _, d := range s.doors {
		errs = append(errs, d.Close())
	}
	return errors.Join(append(errs, s.dir.Close())...)
}

// Addresses returns where the server listens.
func (s *Server) Addresses() []string { return s.addresses }

// Directory finds the cells that this server calls.
func (s *Server) Directory() *link.Directory { return s.cells }

// Leader returns the leader of this moment, when it is this server, or *link.NotLeader.
func (s *Server) Leader() (cell.Leader, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term == nil {
		return nil, &link.NotLeader{Addresses: s.known.Addresses, Term: s.known.Term, Cluster: s.known.Cluster,
			Cause: s.cause}
	}
	return s.term, nil
}

// Run serves and campaigns until ctx is done or the server cannot continue.
func (s *Server) Run(ctx context.Context) (err error) {
	var g run.Group
	g.Add("zones", s.watchZones)
	h := s.handler()
	for _, d := range s.doors {
		g.Add("listener "+d.Address(), func(ctx context.Context) error { return d.Serve(ctx, h) })
	}
	g.Add("store", s.runStore)
	if s.cfg.Bistro.Name != "" {
		g.Add("Bistro configuration", s.followBistro)
	}
	err = g.Run(ctx)
	s.cells.Close()
	return errors.Join(err, s.dir.Close())
}

// runStore opens the store, when there is room for it, and campaigns on it.
func (s *Server) runStore(ctx context.Context) error {
	if err := s.AwaitRoom(ctx); err != nil {
		return err
	}
	if p := s.cfg.Membership; p != nil {
		s.unable(fmt.Errorf("%w; member %s is starting", etcd.ErrNoMajority, p.Name))
	}
	backend, upkeep, closeStore, err := s.openStore(ctx)
	if err != nil {
		return err
	}
	s.unable(nil)
	var committed func(took, waited time.Duration, transitions, bytes int)
	if s.cfg.Metrics != nil {
		committed = s.cfg.Metrics.Committed
	}
	sole, lease := len(s.cfg.Endpoints) == 0 && s.cfg.Membership == nil, s.cfg.Timeouts.Lease
	if sole {
		lease = s.cfg.Timeouts.OwnLease()
	}
	st, err := store.New(backend, store.Config{Committed: committed, Sole: sole, LeaseTTL: lease,
		CommitTimeout: s.cfg.Timeouts.Lease, StallTimeout: s.cfg.Timeouts.Lease,
		KeepAlive: s.cfg.Timeouts.KeepAlive, Drift: s.cfg.Timeouts.LeaseDrift,
		NewCluster: s.cfg.NewCluster, Memory: s.dir, Clock: s.cfg.Clock, Log: s.log})
	if err != nil {
		return errors.Join(err, closeStore())
	}
	s.setStore(st)
	defer s.setStore(nil)
	var g run.Group
	g.Add("upkeep", upkeep)
	g.Add("watch", func(ctx context.Context) error { return s.watch(ctx, st) })
	g.Add("backups", func(ctx context.Context) error { return s.serveBackups(ctx, st) })
	g.Add("campaign", func(ctx context.Context) error { return s.campaign(ctx, st) })
	if s.cfg.Membership != nil {
		g.Add("members", s.watchMajority)
	}
	return errors.Join(g.Run(ctx), closeStore())
}

// AwaitRoom waits until the data directory has the space that the start of the store needs.
// Callers of the server get the cause meanwhile.
func (s *Server) AwaitRoom(ctx context.Context) error {
	if len(s.cfg.Endpoints) > 0 {
		return nil
	}
	for {
		err := etcd.RoomToStart(s.cfg.Dir)
		if !errors.Is(err, store.ErrFull) {
			s.unable(nil)
			return err
		}
		if s.unable(err) {
			s.log.Error("too little room to start the store: waiting for more", "error", err)
		}
		if err := run.Pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

// HasRoom reports that AwaitRoom would not wait.
func (s *Server) HasRoom() bool {
	return len(s.cfg.Endpoints) > 0 || !errors.Is(etcd.RoomToStart(s.cfg.Dir), store.ErrFull)
}

// unable has clients and cells learn why this server cannot lead; nil = it can. It reports
// whether it could before.
func (s *Server) unable(err error) bool {
	s.api.Unable(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	could := s.cause == ""
	if s.cause = ""; err != nil {
		s.cause = err.Error()
	}
	return could
}

// openStore starts the embedded member, or prepares the connections to an
// operator's etcd.
func (s *Server) openStore(ctx context.Context) (store.Backend, func(context.Context) error, func() error, error) {
	if len(s.cfg.Endpoints) > 0 {
		c, err := etcd.Dial(etcd.ClusterConfig{Endpoints: s.cfg.Endpoints, TLS: s.cfg.EtcdTLS, Log: s.log})
		if err != nil {
			return nil, nil, nil, err
		}
		return c.Backend(), c.Run, c.Close, nil
	}
	m, err := etcd.Start(ctx, s.dir, etcd.MemberConfig{Log: s.log, Membership: s.membership()})
	if err != nil {
		return nil, nil, nil, err
	}
	s.setMember(m)
	return m.Backend(), m.Run, func() error { s.setMember(nil); return m.Close() }, nil
}

// zoneEvery is how often the rules of time zones are read again.
const zoneEvery = 5 * time.Minute

// watchZones reads the rules of time zones again, and passes changes to the leader's timetable.
func (s *Server) watchZones(ctx context.Context) error {
	return s.cfg.Zones.Run(ctx, zoneEvery, func(changed []string, err error) {
		if err != nil {
			s.log.Warn("time zones", "error", err)
		}
		s.mu.Lock()
		t := s.term
		s.mu.Unlock()
		if len(changed) > 0 {
			s.log.Info("time zones have changed", "zones", changed)
			if t != nil {
				t.ZonesChanged(changed)
			}
		}
	})
}

// watch keeps the present leader for callers of a standby.
func (s *Server) watch(ctx context.Context, st *store.Store) error {
	return st.WatchLeader(ctx, func(l store.Leader) {
		s.mu.Lock()
		s.known = l
		leads := s.term != nil
		s.mu.Unlock()
		if !leads {
			s.api.Follow(first(l.Addresses), l.Term)
		}
	})
}

// addressesForOthers are those by which others reach this server.
func (s *Server) addressesForOthers() []string {
	if len(s.cfg.Advertise) > 0 {
		return s.cfg.Advertise
	}
	return s.addresses
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// campaign wins terms and leads, one after the other.
func (s *Server) campaign(ctx context.Context, st *store.Store) error {
	if err := s.awaitVote(ctx); err != nil {
		return err
	}
	advertise := s.addressesForOthers()
	said := "" // the error that was logged last
	for ctx.Err() == nil {
		leadership, err := st.Campaign(ctx, store.Candidate{ID: s.cfg.Name, Addresses: advertise})
		if err != nil {
			if errors.Is(err, store.ErrBroken) {
				return err
			}
			s.unable(nil)
			if errors.Is(err, store.ErrFull) {
				s.unable(err)
			}
			if text := err.Error(); text != said {
				said = text
				s.log.Warn("campaign", "error", err)
			}
			if err := run.Pause(ctx, 500*time.Millisecond); err != nil {
				return err
			}
			continue
		}
		said = ""
		s.unable(nil)
		if err := s.lead(ctx, leadership); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// lead runs one term.
func (s *Server) lead(ctx context.Context, leadership *store.Leadership) error {
	t, err := leader.Begin(s.cfg.Settings, leadership, leadership.Rows(), s.cells)
	if err != nil {
		return errors.Join(err, leadership.Resign(context.WithoutCancel(ctx)))
	}
	s.log.Info("leading", "term", leadership.Term().String())
	s.mu.Lock()
	s.term = t
	s.mu.Unlock()
	s.api.Lead(t.Backend())
	s.leads(true)
	err = t.Run(ctx)
	s.leads(false)
	s.mu.Lock()
	s.term = nil
	s.mu.Unlock()
	s.api.Follow("", fence.Term{})
	if err != nil && ctx.Err() == nil {
		s.log.Warn("term ended", "term", leadership.Term().String(), "error", err)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := leadership.Resign(last); err != nil {
		s.log.Debug("resign", "error", err)
	}
	return nil
}

// handler answers API and cells, on each listener.
func (s *Server) handler() *guard.Mux {
	mux := guard.NewMux()
	for path, h := range link.Handlers(s.Leader, s.cells) {
		mux.Handle(path, h)
	}
	mux.Handle("GET "+guard.PagePath, ui.Handler(guard.PagePath))
	s.cfg.Health.Register(mux)
	mux.Handle("/", s.cfg.Metrics.Requests(s.api.Handler()))
	return mux
}

// browser lists the addresses that a browser can reach. A key is made only if one of them needs it.
func (s *Server) browser() api.Browser {
	b := api.Browser{TLS: s.cfg.TLS != guard.TLSFiles{}}
	needed := false
	for _, d := range s.doors {
		if !strings.HasPrefix(d.Address(), "unix:") {
			b.Addresses = append(b.Addresses, d.Address())
			needed = needed || d.NeedsToken()
		}
	}
	if needed {
		b.Key = s.keys.New()
	}
	return b
}
