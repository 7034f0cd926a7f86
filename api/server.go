package api

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"

	"cantina/fence"
	"cantina/internal/guard"
	"cantina/internal/secret"
	"cantina/plan"
	"cantina/spec"
	pb "cantina/wire/cantinav1"
	"cantina/wire/cantinav1/cantinav1connect"
)

// Limits of requests.
const (
	// MaxPage is the longest page of a list.
	MaxPage = 1000
	// DefaultPage is the page when a request names none.
	DefaultPage = 100
	// maxBody bounds a request in bytes: a spec file and something around it.
	maxBody = 20 << 20
	// compressFrom is the size from which answers are compressed.
	compressFrom = 16 << 10
	maxKey       = 128
)

// Config has the parts of a Server.
type Config struct {
	Log *slog.Logger
	// Build names the version of the program.
	Build string
	// NewID makes a random id for a request.
	NewID func() string
	// Warnings are shown in every status: insecure listeners.
	Warnings []string
	// Now and Zone are for the calendars of schedules: the wall clock, and how a time
	// zone is found. Without Zone no calendar that depends on one is accepted.
	Now  func() time.Time
	Zone func(name string) (*time.Location, error)
	// Browser returns the addresses for browsers, with a new key; nil = there are none.
	Browser func() Browser
	// Traced, if set, gets the steps of a call that made a task: from begin until now.
	Traced func(t *plan.Task, step string, begin time.Time)
	// Members has the calls about the members of the embedded store; nil = there is none.
	Members Members
}

// Browser is the way of a browser into a server.
type Browser struct {
	Addresses []string // host:port
	Key       secret.Text
	TLS       bool
}

func (c *Config) times(bistroDomain string) spec.Times {
	t := spec.Times{Zone: c.Zone, BistroDomain: bistroDomain}
	if c.Now != nil {
		t.Now = c.Now()
	}
	return t
}

// Server answers the public calls. It is always there; whether it can answer more
// than NotLeader depends on Lead and Follow.
type Server struct {
	cfg Config

	large   chan struct{} // one token: a large spec file is read
	streams streams
	mu      sync.Mutex
	backend *Backend
	leader  NotLeader
	unable  error // why it could not lead even without another leader
	notices map[string]string
}

// New returns a server that does not lead. It starts nothing.
func New(cfg Config) *Server {
	return &Server{cfg: cfg, large: make(chan struct{}, 1)}
}

// Lead makes the server answer from b. When the term is over, Follow must be called.
func (s *Server) Lead(b *Backend) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.backend = b
}

// Follow makes the server answer NotLeader; leader is the address of the leader, empty if unknown.
func (s *Server) Follow(leader string, term fence.Term) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.backend, s.leader = nil, NotLeader{Leader: leader, Term: term}
}

// Unable has the server answer with why it cannot lead, while it does not; nil takes that back.
func (s *Server) Unable(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unable = err
}

// Warn adds a warning that every status shows.
func (s *Server) Warn(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Warnings = append(s.cfg.Warnings, text)
}

// Notice sets the warning of one kind that every status shows; empty takes it back.
func (s *Server) Notice(kind, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.notices == nil {
		s.notices = make(map[string]string)
	}
	if s.notices[kind] = text; text == "" {
		delete(s.notices, kind)
	}
}

func (s *Server) warnings() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := append([]string(nil), s.cfg.Warnings...)
	for _, kind := range slices.Sorted(maps.Keys(s.notices)) {
		out = append(out, s.notices[kind])
	}
	return out
}

// ApplyFiles applies spec files for the server itself, as a client would.
func (s *Server) ApplyFiles(ctx context.Context, files []*pb.SpecFile, prune bool) (*pb.ApplyResponse, error) {
	got, err := applyCalls{s}.Apply(ctx, connect.NewRequest(&pb.ApplyRequest{Files: files, Prune: prune}))
	if err != nil {
		return nil, err
	}
	return got.Msg, nil
}

// now is the backend of this moment, or *NotLeader.
func (s *Server) now() (*Backend, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.backend == nil && s.unable != nil && s.leader.Leader == "" {
		return nil, s.unable
	}
	if s.backend == nil {
		leader := s.leader
		return nil, &leader
	}
	return s.backend, nil
}

// Handler returns the handler of the public listener: the calls of CantinaService, /v1, and
// /health. Other handlers may be mounted beside it. A guard.Door serves it and checks access.
func (s *Server) Handler() http.Handler {
	mux := s.Mux()
	return s.entry(unhurried(mux, guard.Body(maxBody, mux)))
}

// Mux is the mux of Handler, with its patterns.
func (s *Server) Mux() *guard.Mux {
	mux := guard.NewMux()
	calls := &calls{applyCalls{s}, serviceCalls{s}, taskCalls{s}, jobCalls{s}, scheduleCalls{s}, cellCalls{s},
		operationCalls{s}, streamCalls{s}}
	path, h := cantinav1connect.NewCantinaServiceHandler(calls,
		connect.WithInterceptors(&edge{s}), connect.WithCodec(jsonCodec("json")),
		connect.WithCodec(jsonCodec("json; charset=utf-8")),
		connect.WithReadMaxBytes(maxBody), guard.Compression(maxBody), connect.WithCompressMinBytes(compressFrom),
		connect.WithRecover(func(_ context.Context, _ connect.Spec, _ http.Header, r any) error { return s.recovered(r) }),
	)
	mux.Handle(path, h)
	mux.Handle("/v1/", s.v1(calls))
	mux.HandleFunc("GET /health", s.health)
	return mux
}

// health answers 200 from a leader and a standby alike: both are as they should be.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	role := "leader"
	if _, err := s.now(); err != nil {
		role = "standby"
	}
	writeJSON(w, http.StatusOK, map[string]string{"role": role, "build": s.cfg.Build})
}

// calls has one method for each call of CantinaService, grouped by subject.
type (
	calls struct {
		applyCalls
		serviceCalls
		taskCalls
		jobCalls
		scheduleCalls
		cellCalls
		operationCalls // the cluster, and queries about any resource
		streamCalls    // events and output
	}
	applyCalls     struct{ *Server }
	serviceCalls   struct{ *Server }
	taskCalls      struct{ *Server }
	jobCalls       struct{ *Server }
	scheduleCalls  struct{ *Server }
	cellCalls      struct{ *Server }
	operationCalls struct{ *Server }
	streamCalls    struct{ *Server }
)
