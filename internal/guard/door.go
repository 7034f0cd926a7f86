package guard

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"cantina/internal/text"
	pb "cantina/wire/cantinav1"
)

var (
	// ErrForeign reports a request that a page of another origin made a browser send, or one
	// that is addressed to a name that is not this server's.
	ErrForeign = errors.New("not allowed")
	// ErrToken reports a request that does not show the token.
	ErrToken = errors.New("no token, or not the right one")
)

// Door is a listener with access control. Use it with Serve.
type Door struct {
	net.Listener
	// Warning reports that the listener is unprotected; empty = protected.
	Warning string

	address     string
	hosts       []string
	certificate *x509.Certificate // nil = without TLS
	token       Token             // zero = the kernel, TLS or no one checks the callers
	keys        *Keys             // of browsers; nil = none
	log         *slog.Logger      // nil = standard error
}

// Address is how it is dialled.
func (d *Door) Address() string { return d.address }

// NeedsToken reports whether callers must send the token, or the key of a browser.
func (d *Door) NeedsToken() bool { return !d.token.IsZero() }

// Times of a connection.
const (
	headerTime = 10 * time.Second // for a request's header
	idleTime   = 30 * time.Second // without a request; callers give theirs up before (IdleTime)
	// IdleTime is how long a caller keeps a connection without a request.
	IdleTime = 20 * time.Second
	// endTime is how long requests may continue when the server ends.
	endTime = 200 * time.Millisecond
	// maxHeader bounds a request's header in bytes.
	maxHeader = 64 << 10
)

// Serve answers with h, after access control, until ctx is done; then running requests may end for
// a short time.
func (d *Door) Serve(ctx context.Context, h http.Handler) error {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	server := &http.Server{Handler: d.Handler(h), ReadHeaderTimeout: headerTime, IdleTimeout: idleTime,
		MaxHeaderBytes: maxHeader, Protocols: protocols,
		HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: clientTime}, ErrorLog: libraryLog(d.log),
		BaseContext: func(net.Listener) context.Context { return base }, ConnContext: keepConn}
	done := make(chan error, 1)
	go func() { done <- server.Serve(d.Listener) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	limit, stop := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer stop()
	if err := server.Shutdown(limit); err != nil {
		cancel() // streams end now
		server.Close()
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return ctx.Err()
}

// Handler is the guard in front of h.
func (d *Door) Handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		conn := http.NewResponseController(w)
		if r.Body != nil && r.Body != http.NoBody { // also of a request that is refused: its body is drained
			_ = conn.SetReadDeadline(time.Now().Add(bodyGrace)) // Body and Endless set other limits
		}
		if x := d.check(r); x != nil {
			x.write(w, r)
			return
		}
		out := &hurrying{ResponseWriter: w, conn: conn}
		defer out.deadline(true) // of buffered data
		h.ServeHTTP(out, r)
	})
}

// refusal is why a request is not served.
type refusal struct {
	err         error
	field, hint string
}

// check returns why a request is refused, or nil.
func (d *Door) check(r *http.Request) *refusal {
	if !d.ours(r.Host) {
		return &refusal{fmt.Errorf("this server is not %q: %w", text.Shorten(r.Host, 60), ErrForeign), "Host",
			"use its address, localhost, or a name given with --host"}
	}
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "same-origin" && site != "none" && !opensPage(r) {
			return &refusal{fmt.Errorf("cross-origin request refused: %w", ErrForeign), "Sec-Fetch-Site", ""}
		}
	}
	for _, origin := range r.Header.Values("Origin") {
		if _, host, ok := strings.Cut(origin, "://"); !ok || !strings.EqualFold(host, r.Host) {
			return &refusal{fmt.Errorf("cross-origin request refused: %w", ErrForeign), "Origin", ""}
		}
	}
	if d.NeedsToken() && !d.token.shown(r.Header) && !d.keys.shown(r.Header) && !health(r) && !page(r) {
		hint := "send the header Authorization: Bearer TOKEN"
		if d.token.path != "" {
			hint += ", with the content of " + d.token.path
		}
		return &refusal{fmt.Errorf("a loopback port needs its token: %w", ErrToken), "Authorization", hint +
			", or use the Unix socket"}
	}
	return nil
}

// healthPaths are the paths that need no credentials: their answers have no secret.
var healthPaths = []string{"/health", "/healthz", "/readyz"}

// health reports whether a request only checks that the server lives: a monitor has no token.
func health(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && slices.Contains(healthPaths, r.URL.Path)
}

// PagePath is where the files of the web UI are. They are the same for everyone and hold no data, so
// they are served without the token: a browser cannot send it before it has the page.
const PagePath = "/ui/"

// page reports whether a request reads a file of the web UI. A path with .. or // is none.
func page(r *http.Request) bool {
	p := r.URL.Path
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.HasPrefix(p, PagePath) &&
		path.Clean(p) == strings.TrimSuffix(p, "/")
}

// opensPage reports whether a link, perhaps on a page of another origin, opens the web UI in a tab of
// its own. That page can neither read it nor frame it.
func opensPage(r *http.Request) bool {
	return page(r) && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// ours reports whether a Host header names this server: an address (a page cannot rebind
// it), localhost, a Unix socket, or a name that it has.
func (d *Door) ours(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	return name == "" || name == "localhost" || name == UnixHost || net.ParseIP(name) != nil ||
		slices.Contains(d.hosts, name) ||
		d.certificate != nil && d.certificate.VerifyHostname(name) == nil
}

// connectPath is where the paths of Connect's calls begin.
const connectPath = "/cantina.v1."

// write answers with the refusal in the format of the API's errors.
func (x *refusal) write(w http.ResponseWriter, r *http.Request) {
	code, status, as := "not_allowed", http.StatusForbidden, connect.CodePermissionDenied
	switch {
	case errors.Is(x.err, ErrToken):
		code, status, as = "unauthenticated", http.StatusUnauthorized, connect.CodeUnauthenticated
		w.Header().Set("WWW-Authenticate", "Bearer")
	case errors.Is(x.err, errLarge):
		code, status, as = "too_large", http.StatusRequestEntityTooLarge, connect.CodeResourceExhausted
	}
	w.Header().Set("Connection", "close")
	if answers := connect.NewErrorWriter(); strings.HasPrefix(r.URL.Path, connectPath) && answers.IsSupported(r) {
		err := connect.NewError(as, x.err)
		if detail, derr := connect.NewErrorDetail(&pb.ErrorDetail{Code: code, Field: x.field, Hint: x.hint}); derr == nil {
			err.AddDetail(detail)
		}
		_ = answers.Write(w, r, err) // a caller that went away needs no answer
		return
	}
	text, err := json.Marshal(map[string]any{"code": code, "title": code, "status": status, "detail": x.err.Error(),
		"field": x.field, "hint": x.hint})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n'))
}

type connKey struct{}

// keepConn lets Narrow find the connection of a request.
func keepConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}
