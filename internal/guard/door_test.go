package guard_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cantina/internal/guard"
)

// open opens a door that answers "in", and serves it.
func open(t *testing.T, l guard.Listener, h http.Handler) *guard.Door {
	t.Helper()
	d, err := l.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if h == nil {
		h = guard.Body(1<<20, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
				return
			}
			fmt.Fprint(w, "in")
		}))
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Serve(ctx, h) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Serve: %v", err)
		}
	})
	return d
}

// ask sends a request and returns status and answer.
func ask(t *testing.T, d *guard.Door, change func(*http.Request)) (int, string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+d.Address()+"/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	token.Sign(q.Header)
	change(q)
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: 10 * time.Second}}
	a, err := c.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(text)
}

func TestPermittedCallers(t *testing.T) {
	d := open(t, guard.Listener{Address: "127.0.0.1:0", Token: token, Hosts: []string{"Cantina.example"}}, nil)
	_, port, _ := net.SplitHostPort(d.Address())
	for name, c := range map[string]struct {
		status int
		change func(*http.Request)
	}{
		"the owner":                {200, func(*http.Request) {}},
		"by localhost":             {200, func(q *http.Request) { q.Host = "localhost:" + port }},
		"by another address":       {200, func(q *http.Request) { q.Host = "[::1]:" + port }},
		"by a name of its own":     {200, func(q *http.Request) { q.Host = "cantina.EXAMPLE:1" }},
		"a page of its own":        {200, func(q *http.Request) { q.Header.Set("Origin", "http://"+d.Address()) }},
		"same-origin":              {200, func(q *http.Request) { q.Header.Set("Sec-Fetch-Site", "same-origin") }},
		"somebody's address bar":   {200, func(q *http.Request) { q.Header.Set("Sec-Fetch-Site", "none") }},
		"a rebound name":           {403, func(q *http.Request) { q.Host = "evil.example" }},
		"a name that ends alike":   {403, func(q *http.Request) { q.Host = "localhost.evil.example" }},
		"a foreign page":           {403, func(q *http.Request) { q.Header.Set("Origin", "http://evil.example") }},
		"a page of another port":   {403, func(q *http.Request) { q.Header.Set("Origin", "http://127.0.0.1:1") }},
		"a page without an origin": {403, func(q *http.Request) { q.Header.Set("Origin", "null") }},
		"cross-site":               {403, func(q *http.Request) { q.Header.Set("Sec-Fetch-Site", "cross-site") }},
		"same-site":                {403, func(q *http.Request) { q.Header.Set("Sec-Fetch-Site", "same-site") }},
		"one of two sites": {403, func(q *http.Request) {
			q.Header["Sec-Fetch-Site"] = []string{"none",
				"cross-site"}
		}},
		"health without a token":  {200, func(q *http.Request) { q.Header.Del("Authorization"); q.URL.Path = "/health" }},
		"healthz without a token": {200, func(q *http.Request) { q.Header.Del("Authorization"); q.URL.Path = "/healthz" }},
		"readyz without a token":  {200, func(q *http.Request) { q.Header.Del("Authorization"); q.URL.Path = "/readyz" }},
		"POST of health": {401, func(q *http.Request) {
			q.Header.Del("Authorization")
			q.URL.Path,
				q.Method = "/health", "POST"
		}},
		"below health": {401, func(q *http.Request) { q.Header.Del("Authorization"); q.URL.Path = "/health/x" }},
		"health of another origin": {403, func(q *http.Request) {
			q.Header.Set("Origin",
				"http://evil")
			q.URL.Path = "/health"
		}},
		"no token":       {401, func(q *http.Request) { q.Header.Del("Authorization") }},
		"an empty one":   {401, func(q *http.Request) { q.Header.Set("Authorization", "Bearer ") }},
		"another one":    {401, func(q *http.Request) { q.Header.Set("Authorization", "Bearer 0123456789abcdeF") }},
		"a longer one":   {401, func(q *http.Request) { q.Header.Set("Authorization", "Bearer 0123456789abcdef0") }},
		"another scheme": {401, func(q *http.Request) { q.Header.Set("Authorization", "Basic 0123456789abcdef") }},
	} {
		if status, text := ask(t, d, c.change); status != c.status || (status == 200) != (text == "in") {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
}

// TestTheTokenIsOnlyItsOwners: a file that others can read is refused, one made at once by
// many is one.
func TestTheTokenIsOnlyItsOwners(t *testing.T) {
	path := filepath.Join(t.TempDir(), "below", "token")
	if _, err := guard.ReadToken(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	var all [8]guard.Token
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			var err error
			if all[i], err = guard.OpenToken(path); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, x := range all {
		if x.Reveal() != all[0].Reveal() || len(x.Reveal()) < 16 || strings.Contains(fmt.Sprintf("%+v", x), x.Reveal()) {
			t.Errorf("%d characters", len(x.Reveal()))
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o660} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := guard.OpenToken(path); !errors.Is(err, guard.ErrTokenFile) {
			t.Errorf("%o: %v", mode, err)
		}
	}
	for name, text := range map[string]string{"short": "abc", "two words": "0123456789 abcdefghij", "empty": "",
		"control": "0123456789abcde\x01f"} {
		bad := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(bad, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := guard.OpenToken(bad); !errors.Is(err, guard.ErrTokenFile) || text != "" &&
			strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := guard.OpenToken(t.TempDir()); !errors.Is(err, guard.ErrTokenFile) {
		t.Errorf("a directory: %v", err)
	}
}

func TestOnlyOnLoopbackIsTheTokenShown(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1:1": true, "[::1]:1": true, "localhost:1": true,
		"10.1.2.3:1": false, "unix:/x": false} {
		h := http.Header{}
		token.Way(address, false).Sign(t.Context(), h)
		if got := h.Get("Authorization") != ""; got != want {
			t.Errorf("%s: %v", address, got)
		}
		h = http.Header{}
		if token.Way(address, true).Sign(t.Context(), h); len(h) > 0 && address != "unix:/x" {
			t.Errorf("%s over TLS: %v", address, h)
		}
	}
}

func TestBodiesAreBounded(t *testing.T) {
	d := open(t, guard.Listener{Address: "127.0.0.1:0", Token: token}, nil)
	for name, c := range map[string]struct {
		body   io.Reader
		length int64
		status int
	}{
		"the largest":            {bytes.NewReader(make([]byte, 1<<20)), 1 << 20, 200},
		"one more":               {bytes.NewReader(make([]byte, 1<<20+1)), 1<<20 + 1, 413},
		"without a length":       {io.LimitReader(endless{}, 1<<20+1), -1, 413},
		"a length that is a lie": {&refusing{t}, 1 << 40, 413},
	} {
		status, text := ask(t, d, func(q *http.Request) {
			q.Method, q.Body, q.ContentLength = http.MethodPost, io.NopCloser(c.body), c.length
			q.Header.Set("Expect", "100-continue")
		})
		if status != c.status {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// refusing is a body that must not be read.
type refusing struct{ t *testing.T }

func (r *refusing) Read([]byte) (int, error) {
	r.t.Error("the body was read")
	return 0, io.EOF
}

// TestSlowCallersAreClosed: a header or a body that does not come, and a connection without a
// request, end by themselves.
func TestSlowCallersAreClosed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	d := open(t, guard.Listener{Address: "127.0.0.1:0", Token: token}, nil)
	for name, c := range map[string]struct {
		text  string
		limit time.Duration
	}{
		"nothing":       {"", 12 * time.Second},
		"half a header": {"GET / HTTP/1.1\r\nHost: localhost\r\n", 12 * time.Second},
		"half a body": {"POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer 0123456789abcdef\r\n" +
			"Content-Length: 100\r\n\r\nabc", 12 * time.Second},
		"refused, and a body": {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nabc", 12 * time.Second},
		"one request": {"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer 0123456789abcdef\r\n\r\n",
			32 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", d.Address())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, c.text); err != nil {
				t.Fatal(err)
			}
			_ = conn.SetReadDeadline(time.Now().Add(c.limit))
			if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("still open after %v", c.limit)
			}
		})
	}
}

func TestOversizeArchivesEndEarly(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := io.Copy(w, io.LimitReader(endless{}, 64<<20)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := guard.Unpacker(1 << 20)
	if err := r.Reset(&packed); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, r); err == nil || n > 2<<20 {
		t.Errorf("%d bytes, %v", n, err)
	}
}
