package api

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"cantina/internal/guard"
	"cantina/internal/run"
	"cantina/internal/tlserr"
	pb "cantina/wire/cantinav1"
	"cantina/wire/cantinav1/cantinav1connect"
)

// Error is the error of a Client call.
type Error struct {
	// Code is that of the error table, or no_connection.
	Code    string
	Message string
	Detail  *pb.ErrorDetail // never nil
	Exit    int
	cause   error
}

// Error prints the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the error of the transport.
func (e *Error) Unwrap() error { return e.cause }

// ClientConfig has the addresses and credentials of the servers.
type ClientConfig struct {
	// Addresses of servers, "host:port" or "unix:PATH"; any of them may lead.
	Addresses []string
	TLS       *tls.Config
	// Token is shown at loopback ports, where no certificate names the caller.
	Token guard.Token
	// NewKey makes idempotency keys.
	NewKey func() string
	// Unanswered is called if a server has not answered a call for some time, once for each try; nil
	// = not called.
	Unanswered func(address string)
	// Patience is the time for which a call is repeated while no server leads or none can be reached;
	// 0 = no repetition. Only calls that are safe to repeat are repeated.
	Patience time.Duration
}

// Client calls the servers of one cluster. It follows the leader. Its methods may
// be called at the same time.
type Client struct {
	cfg ClientConfig

	mu      sync.Mutex
	at      int
	servers []*server // one for each address, and one for the newest leader that was named beside them
	met     bool      // a server has answered
}

type server struct {
	address string
	health  string // URL of its health
	calls   cantinav1connect.CantinaServiceClient
	duplex  cantinav1connect.CantinaServiceClient // for streams in both directions
	clients []*http.Client
}

// close gives up idle connections.
func (s *server) close() {
	for _, c := range s.clients {
		c.CloseIdleConnections()
	}
}

// NewClient returns a client; it connects at the first call.
func NewClient(cfg ClientConfig) *Client {
	c := &Client{cfg: cfg}
	for _, a := range cfg.Addresses {
		c.servers = append(c.servers, c.reach(a))
	}
	return c
}

func (c *Client) reach(address string) *server {
	way := c.cfg.Token.Way(address, c.cfg.TLS != nil)
	scheme := "http://"
	if c.cfg.TLS != nil && !way.Unix() {
		scheme = "https://"
	}
	t := &http.Transport{TLSClientConfig: c.cfg.TLS, MaxIdleConnsPerHost: 16, IdleConnTimeout: guard.IdleTime}
	options := []connect.ClientOption{connect.WithReadMaxBytes(64 << 20)}
	if way.Unix() || onThisMachine(address) { // compression costs more than it saves
		t.DisableCompression = true
		options = append(options, connect.WithAcceptCompression("gzip", nil, nil))
	}
	h := &http.Client{Transport: way.Transport(t)}
	both := &http.Client{Transport: way.Duplex(c.cfg.TLS, way.Dial)}
	return &server{address: address, clients: []*http.Client{h, both}, health: scheme + way.Host() + healthPath,
		calls:  cantinav1connect.NewCantinaServiceClient(h, scheme+way.Host(), options...),
		duplex: cantinav1connect.NewCantinaServiceClient(both, scheme+way.Host(), options...)}
}

// onThisMachine reports whether an address is one of loopback.
func onThisMachine(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err == nil && host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// Close gives up idle connections.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.servers {
		s.close()
	}
}

// Address is the server that the next call goes to.
func (c *Client) Address() string {
	s, err := c.server()
	if err != nil {
		return ""
	}
	return s.address
}

func (c *Client) server() (*server, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.servers) == 0 {
		return nil, &Error{Code: "no_connection", Message: "no server address configured",
			Detail: &pb.ErrorDetail{Hint: "set --addr or CANTINA_ADDR"}, Exit: ExitConnection}
	}
	return c.servers[c.at%len(c.servers)], nil
}

// elsewhere makes the next call go to leader, or to the next address.
func (c *Client) elsewhere(from *server, leader string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.servers[c.at%len(c.servers)] != from {
		return // another call has already moved on
	}
	if leader == "" || leader == from.address {
		c.at = (c.at + 1) % len(c.servers)
		return
	}
	for i, s := range c.servers {
		if s.address == leader {
			c.at = i
			return
		}
	}
	known := len(c.cfg.Addresses)
	for _, s := range c.servers[known:] { // one that was named before
		s.close()
	}
	c.servers = append(c.servers[:known:known], c.reach(leader))
	c.at = known
}

// Method is a call of CantinaServiceClient as a method expression, such as
// cantinav1connect.CantinaServiceClient.ListTasks.
type Method[Q, A any] func(cantinav1connect.CantinaServiceClient, context.Context,
	*connect.Request[Q]) (*connect.Response[A], error)

// Call makes one unary call. A writing call gets an idempotency key when it has
// none, so that repeating it is safe. The error is *Error.
func Call[Q, A any](ctx context.Context, c *Client, method Method[Q, A], q *Q) (*A, error) {
	return CallFor(ctx, c, c.cfg.Patience, method, q)
}

// CallFor is Call with a separate patience.
func CallFor[Q, A any](ctx context.Context, c *Client, patience time.Duration, method Method[Q, A], q *Q) (*A, error) {
	c.sign(any(q).(proto.Message))
	var answer *A
	err := c.try(ctx, patience, func(s *server) error {
		if c.cfg.Unanswered != nil {
			defer time.AfterFunc(silence, func() { c.cfg.Unanswered(s.address) }).Stop()
		}
		callCtx, end := c.whileAlive(ctx, s, probeAfter)
		defer end()
		res, err := method(s.calls, callCtx, connect.NewRequest(q))
		if errors.Is(ctx.Err(), context.DeadlineExceeded) && err != nil {
			return unanswered(s.address, err)
		}
		if err != nil && errors.Is(context.Cause(callCtx), errSilent) {
			return silent(s.address, err)
		}
		if err == nil {
			answer = res.Msg
		}
		return err
	})
	return answer, err
}

// silence is how long a call is without an answer until that is reported.
const silence = 3 * time.Second

const (
	// probeAfter is how long a call is without an answer until its server is asked for its health, and how often.
	// probeStream is the same for a stream.
	probeAfter  = time.Second
	probeStream = 10 * time.Second
	// probeTime is how long that answer may take.
	probeTime = time.Second
)

var errSilent = errors.New("the server is silent")

// whileAlive returns the context of a call to one of several servers. It ends when the server does not answer that it
// is alive: its machine may be off or cut off, or its process stopped, and the connection would not show it. A server
// that answers may work on the call for as long as it takes.
func (c *Client) whileAlive(ctx context.Context, s *server, every time.Duration) (context.Context, func()) {
	c.mu.Lock()
	several := len(c.servers) > 1
	c.mu.Unlock()
	if !several {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	timer := time.NewTimer(every)
	go func() { // ends with the call
		defer close(done)
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			if !s.alive(ctx) {
				cancel(errSilent)
				return
			}
			timer.Reset(every)
		}
	}()
	return ctx, func() { cancel(nil); <-done }
}

// alive reports whether the server answers.
func (s *server) alive(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, s.health, nil)
	if err != nil {
		return true
	}
	a, err := s.clients[0].Do(q)
	if err != nil {
		return ctx.Err() == nil
	}
	return a.Body.Close() == nil
}

// hintStopped is the remedy for a server that does not answer.
const hintStopped = "its process may be stopped or overloaded; look at it and its log, or use another server (--addr)"

// silent is the error of a call to a server that did not answer that it is alive.
func silent(address string, err error) *Error {
	return &Error{Code: "no_connection", Message: "no answer from " + address, Exit: ExitConnection, cause: err,
		Detail: &pb.ErrorDetail{Code: "no_connection",
			Hint: hintStopped}}
}

// unanswered is the error of a call that a server did not answer in time.
func unanswered(address string, err error) *Error {
	return &Error{Code: "timeout", Message: "timed out: no answer from " + address, Exit: ExitTimeout, cause: err,
		Detail: &pb.ErrorDetail{Code: "timeout",
			Hint: hintStopped}}
}

// sign gives a writing request its idempotency key.
func (c *Client) sign(m proto.Message) {
	r := m.ProtoReflect()
	f := r.Descriptor().Fields().ByName("write")
	if f == nil || c.cfg.NewKey == nil {
		return
	}
	w := r.Mutable(f).Message()
	key := f.Message().Fields().ByName("idempotency_key")
	if w.Get(key).String() == "" {
		w.Set(key, protoValue(c.cfg.NewKey()))
	}
}

// retryPause is how long the client waits before it tries the servers again.
const retryPause = 200 * time.Millisecond

// try calls do with one server after the other while it is worth it. The patience counts from
// the first failure: a call that a stopped server held may be repeated.
func (c *Client) try(ctx context.Context, patience time.Duration, do func(*server) error) error {
	var deadline time.Time
	for failures := 0; ; failures++ {
		s, err := c.server()
		if err != nil {
			return err
		}
		err = do(s)
		if err == nil {
			c.meet()
			return nil
		}
		e := toError(err, s.address)
		if e.Code == "no_connection" {
			e.Detail.Hint = cmp.Or(tlserr.Remedy(err, c.cfg.TLS != nil), e.Detail.Hint)
		}
		if e.Code == "no_connection" && c.alone() {
			return e // no server answers, and no other is known
		}
		named := e.Code == "not_leader" && e.Detail.Leader != ""
		if !repeatable(e.Code) || ctx.Err() != nil {
			return e
		}
		c.elsewhere(s, e.Detail.Leader)
		if failures == 0 {
			deadline = time.Now().Add(patience)
		}
		if named && failures < 2 {
			continue // at once: the leader is known
		}
		if time.Now().After(deadline) {
			return e
		}
		if err := run.Pause(ctx, retryPause); err != nil {
			ended := toError(err, s.address)
			if ended.Code == "timeout" { // with the reason for which the call was repeated
				ended.Message += ": " + e.Message
				ended.Detail.Hint = e.Detail.Hint
			}
			return ended
		}
	}
}

func (c *Client) meet() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.met = true
}

// alone reports whether only one server is known and it never answered.
func (c *Client) alone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.met && len(c.servers) == 1
}

// repeatable reports whether the same request may be sent again: reads always may,
// and writes carry an idempotency key.
func repeatable(code string) bool {
	switch code {
	case "not_leader", "no_connection", "unknown_outcome", "term_over", "busy", "stream_ended":
		return true
	}
	return false
}

// toError reads an error of the transport or of the server.
func toError(err error, address string) *Error {
	var already *Error
	if errors.As(err, &already) {
		return already
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded), connect.CodeOf(err) == connect.CodeDeadlineExceeded:
		return &Error{Code: "timeout", Message: "timed out", Detail: &pb.ErrorDetail{Code: "timeout"}, Exit: ExitTimeout,
			cause: err}
	case errors.Is(err, context.Canceled):
		return &Error{Code: "cancelled", Message: "cancelled", Detail: &pb.ErrorDetail{Code: "cancelled"}, Exit: ExitFailed,
			cause: err}
	}
	var c *connect.Error
	if errors.As(err, &c) {
		for _, d := range c.Details() {
			v, verr := d.Value()
			if detail, ok := v.(*pb.ErrorDetail); verr == nil && ok {
				return &Error{Code: detail.Code, Message: c.Message(), Detail: detail, Exit: exitOf(detail.Code), cause: err}
			}
		}
		if connect.IsWireError(err) {
			return &Error{Code: c.Code().String(), Message: c.Message(), Detail: &pb.ErrorDetail{Code: c.Code().String()},
				Exit: ExitFailed, cause: err}
		}
	}
	return &Error{
		Code: "no_connection", Message: fmt.Sprintf("no connection to %s: %s", address, reason(err)), Exit: ExitConnection,
		cause: err,
		Detail: &pb.ErrorDetail{Code: "no_connection",
			Hint: "is a server running there? Start one with `cantina dev`, or use --addr or CANTINA_ADDR"},
	}
}

// reason keeps the kernel's error, without the layers in between.
func reason(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err.Error()
	}
	var c *connect.Error
	if errors.As(err, &c) {
		return c.Message()
	}
	return err.Error()
}

func exitOf(code string) int {
	for _, c := range Classes() {
		if c.Code == code {
			return c.Exit
		}
	}
	return ExitFailed
}
