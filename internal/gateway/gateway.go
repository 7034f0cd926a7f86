package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"cantina/fanout"
	"cantina/internal/guard"
	"cantina/internal/tlserr"
	"cantina/ui"
)

// Paths of the gateway.
const (
	// PagePath is the address of the page. It differs from a server's, so that the page finds out where it is.
	PagePath = guard.PagePath + "many/"
	manyPath = "/many/v1/"
)

const (
	// maxAnswer bounds the answer of one server to one read, in bytes.
	maxAnswer = 16 << 20
	// maxServers bounds the servers of one read.
	maxServers = 2000
)

// Servers are those that a gateway calls, and how.
type Servers struct {
	// List has the addresses, "host:port" or "unix:PATH".
	List []string
	// Allow permits more servers, which a page names.
	Allow Allow
	// TLS and Token are the credentials for all servers, as of api.ClientConfig.
	TLS   *tls.Config
	Token guard.Token
	// Deadline is the time for one answer of one server; 0 = fanout.Deadline.
	Deadline time.Duration
	// Build is the version of this program.
	Build string
}

// Gateway is the handler. Make it with New.
type Gateway struct {
	cfg      Servers
	failures fanout.Failures

	mu      sync.Mutex
	servers map[string]*server
}

// server is one that is called. Connections are kept between calls.
type server struct {
	base   url.URL
	client *http.Client
}

// New returns a gateway; it connects at the first read.
func New(cfg Servers) *Gateway {
	cfg.Deadline = cmp.Or(cfg.Deadline, fanout.Deadline)
	return &Gateway{cfg: cfg, servers: make(map[string]*server)}
}

// Close gives up idle connections.
func (g *Gateway) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.servers {
		s.client.CloseIdleConnections()
	}
	clear(g.servers)
}

// Handler serves the page, the fan-out and the proxy.
func (g *Gateway) Handler() *guard.Mux {
	m := guard.NewMux()
	page := http.RedirectHandler(PagePath, http.StatusTemporaryRedirect)
	m.Handle("GET /{$}", page)
	m.Handle("GET "+guard.PagePath+"{$}", page)
	m.Handle("GET "+PagePath, ui.Handler(PagePath))
	m.HandleFunc("GET /many/servers", g.list)
	m.HandleFunc("GET "+manyPath, g.many)
	m.HandleFunc("/at/{server}/v1/", g.at)
	return m
}

func (g *Gateway) list(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{ // a page that went away needs no answer
		"servers": g.cfg.List, "allow": g.cfg.Allow.String(), "build": g.cfg.Build,
		"deadline_ms": g.cfg.Deadline.Milliseconds(),
	})
}

// Reply is one line of a fan-out: the answer of one server, or its error.
type Reply struct {
	Server string          `json:"server"`
	TookMS int64           `json:"took_ms"`
	Body   json.RawMessage `json:"body,omitempty"`
	Error  *Problem        `json:"error,omitempty"`
}

// Problem is an error as /v1 answers it.
type Problem struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
	Leader string `json:"leader,omitempty"`
	Status int    `json:"status,omitempty"`
}

// Error is the detail.
func (p *Problem) Error() string { return p.Detail }

// many sends one read to all servers, or to those that the parameter servers names, and writes their
// answers as lines of JSON in order of arrival.
func (g *Gateway) many(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	targets := g.cfg.List
	if named := q["servers"]; len(named) > 0 {
		targets = ParseServers(strings.Join(named, ","))
		q.Del("servers")
	}
	if len(targets) > maxServers {
		refuse(w, http.StatusBadRequest, Problem{Code: "invalid",
			Detail: fmt.Sprintf("%d servers: at most %d can be read at once", len(targets), maxServers)})
		return
	}
	w.Header().Set("Content-Type", "application/jsonl")
	out, flush := json.NewEncoder(w), http.NewResponseController(w)
	path := "/v1/" + strings.TrimPrefix(r.URL.EscapedPath(), manyPath)
	for got := range fanout.Ask(r.Context(), g.failures.Last(targets), fanout.Limits{Deadline: g.cfg.Deadline},
		func(ctx context.Context, target string) (json.RawMessage, error) { return g.read(ctx, target, path, q) }) {
		g.failures.Note(got.Target, got.Err != nil)
		a := Reply{Server: got.Target, TookMS: got.Took.Milliseconds(), Body: got.Value}
		if got.Err != nil {
			a.Error = g.problem(got.Target, got.Err)
		}
		if out.Encode(a) != nil || flush.Flush() != nil {
			return // the page went away
		}
	}
}

// read makes one read of one server.
func (g *Gateway) read(ctx context.Context, target, path string, q url.Values) (json.RawMessage, error) {
	s, err := g.reach(ctx, target)
	if err != nil {
		return nil, err
	}
	at, err := s.base.Parse(path)
	if err != nil {
		return nil, err
	}
	at.RawQuery = q.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	res, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return nil, err
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch {
	case len(body) > maxAnswer:
		return nil, &Problem{Code: "too_large", Detail: fmt.Sprintf("answer is larger than %d MiB", maxAnswer>>20)}
	case res.StatusCode == http.StatusOK && kind == "application/json" && json.Valid(body):
		return body, nil
	case kind == "application/problem+json":
		p := &Problem{Status: res.StatusCode}
		if json.Unmarshal(body, p) == nil && p.Code != "" {
			return nil, p
		}
	}
	return nil, &Problem{Code: "other_version", Status: res.StatusCode,
		Detail: fmt.Sprintf("HTTP %d without an answer of this API: another version, or no cantina server", res.StatusCode),
		Hint:   "compare its version: cantina version --addr " + target}
}

// problem is how the error of a server is shown.
func (g *Gateway) problem(target string, err error) *Problem {
	var p *Problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, ErrNotAllowed):
		return &Problem{Code: "not_allowed", Detail: err.Error()}
	case errors.Is(err, context.DeadlineExceeded):
		return &Problem{Code: "timeout", Detail: fmt.Sprintf("no answer within %v", g.cfg.Deadline)}
	case errors.Is(err, context.Canceled):
		return &Problem{Code: "cancelled", Detail: "cancelled"}
	}
	cause := err
	var of *url.Error
	if errors.As(err, &of) {
		cause = of.Err
	}
	var op *os.SyscallError
	if errors.As(err, &op) {
		cause = op.Err // without the addresses
	}
	return &Problem{Code: "no_connection", Detail: "no connection to " + target + ": " + cause.Error(),
		Hint: tlserr.Remedy(err, g.cfg.TLS != nil)}
}

// maxKept bounds the servers whose connections are kept.
const maxKept = 2 * maxServers

// reach returns the client of a server, if it may be called.
func (g *Gateway) reach(ctx context.Context, target string) (*server, error) {
	added := !slices.Contains(g.cfg.List, target)
	if added {
		if err := g.cfg.Allow.check(ctx, target); err != nil {
			return nil, err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.servers[target]; s != nil {
		return s, nil
	}
	if len(g.servers) >= maxKept {
		for name, s := range g.servers {
			s.client.CloseIdleConnections()
			delete(g.servers, name)
			break
		}
	}
	way := g.cfg.Token.Way(target, g.cfg.TLS != nil)
	t := &http.Transport{TLSClientConfig: g.cfg.TLS, MaxIdleConnsPerHost: 4, IdleConnTimeout: guard.IdleTime}
	trip := way.Transport(t)
	if added {
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := way.Dial(ctx)
			if err == nil {
				if err = g.cfg.Allow.reached(target, c.RemoteAddr()); err != nil {
					_ = c.Close() // nothing was sent
					return nil, err
				}
			}
			return c, err
		}
	}
	s := &server{base: url.URL{Scheme: "http", Host: way.Host()}, client: &http.Client{Transport: trip,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	if g.cfg.TLS != nil && !way.Unix() {
		s.base.Scheme = "https"
	}
	g.servers[target] = s
	return s, nil
}

// passed are the headers of a request that a server gets. Credentials of the browser are not among them.
var passed = []string{"Accept", "Accept-Encoding", "Content-Type", "Idempotency-Key", "If-Match", "User-Agent"}

// returned are the headers of an answer that the page gets.
var returned = []string{"Content-Encoding", "Content-Length", "Retry-After"}

// at forwards one call to one server.
func (g *Gateway) at(w http.ResponseWriter, r *http.Request) {
	target := r.PathValue("server")
	s, err := g.reach(r.Context(), target)
	if err != nil {
		refuse(w, http.StatusForbidden, *g.problem(target, err))
		return
	}
	_, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/at/"), "/")
	proxy := &httputil.ReverseProxy{
		Transport: s.client.Transport, FlushInterval: -1,
		Rewrite: func(p *httputil.ProxyRequest) {
			to, err := s.base.Parse("/" + rest)
			if err != nil {
				to = &url.URL{Scheme: s.base.Scheme, Host: s.base.Host, Path: "/"} // no such call
			}
			to.RawQuery = p.In.URL.RawQuery
			p.Out.URL, p.Out.Host = to, s.base.Host
			p.Out.Header = only(p.In.Header, passed)
		},
		ModifyResponse: func(res *http.Response) error {
			kind := res.Header.Get("Content-Type")
			res.Header = only(res.Header, returned)
			res.Header.Set("Content-Type", "application/octet-stream") // a browser runs none of it
			if media, _, err := mime.ParseMediaType(kind); err == nil && strings.HasPrefix(media, "application/") {
				res.Header.Set("Content-Type", kind)
			}
			res.Header.Set("Content-Security-Policy", "default-src 'none'; sandbox")
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			refuse(w, http.StatusBadGateway, *g.problem(target, err))
		},
	}
	proxy.ServeHTTP(w, r)
}

func only(h http.Header, names []string) http.Header {
	out := http.Header{}
	for _, n := range names {
		if v := h.Values(n); len(v) > 0 {
			out[n] = v
		}
	}
	return out
}

func refuse(w http.ResponseWriter, status int, p Problem) {
	p.Status = status
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(p) // a page that went away needs no answer
}

// ParseServers reads a list of servers: separated by commas, spaces or lines; # begins a comment.
func ParseServers(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		for _, s := range strings.FieldsFunc(line, func(r rune) bool { return r == ',' || r <= ' ' }) {
			if !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	return out
}

// CheckServer refuses a server of the list that cannot be an address.
func CheckServer(server string) error {
	if path, ok := strings.CutPrefix(server, "unix:"); ok {
		if path == "" {
			return errors.New(`server "unix:": no path`)
		}
		return nil
	}
	host, port, err := net.SplitHostPort(server)
	if err != nil || host == "" || strings.ContainsAny(server, "/@ ") {
		return fmt.Errorf("server %q: want host:port or unix:PATH", server)
	}
	if n, err := net.LookupPort("tcp", port); err != nil || n == 0 {
		return fmt.Errorf("server %q: %q is no port", server, port)
	}
	return nil
}
