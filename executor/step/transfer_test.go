package step

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cantina/action"
	"cantina/image/cache"
	"cantina/internal/run"
)

func engine(t *testing.T) *Engine {
	t.Helper()
	c, err := cache.Open(t.TempDir(), cache.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return New(c, run.Kernel())
}

func tgz(t *testing.T, name, body string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(body))}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, body); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestDownload(t *testing.T) {
	content := tgz(t, "bin/tool", "#!tool")
	sum := sha256.Sum256(content)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "tool.tgz") {
			w.Write(content)
			return
		}
		http.NotFound(w, r)
	}))
	defer srv.Close()
	base := action.Download{From: srv.URL + "/d/tool.tgz?token=secret", To: "/app", Unpack: true,
		ChecksumAlgorithm: "sha256", ChecksumValue: hex.EncodeToString(sum[:])}
	e := engine(t)
	for _, tc := range []struct {
		name string
		d    func(d *action.Download)
		file string // that is there afterwards
		want string // its content; "" = the archive
		is   error
	}{
		{"unpacked", func(*action.Download) {}, "app/bin/tool", "#!tool", nil},
		{"as a file", func(d *action.Download) { d.Unpack, d.To = false, "/x/y/tool.bin" }, "x/y/tool.bin", "", nil},
		{"into a directory", func(d *action.Download) { d.Unpack, d.To = false, "/x/" }, "x/tool.tgz", "", nil},
		{"without checksum", func(d *action.Download) { d.ChecksumAlgorithm, d.ChecksumValue = "", "" }, "", "",
			cache.ErrUnpinned},
		{"without checksum, allowed", func(d *action.Download) {
			d.ChecksumAlgorithm, d.ChecksumValue, d.AllowUnpinned = "",
				"", true
		}, "app/bin/tool", "#!tool", nil},
		{"wrong checksum", func(d *action.Download) { d.CacheKey, d.ChecksumValue = "other", strings.Repeat("0", 64) }, "",
			"", cache.ErrChecksum},
		{"not there", func(d *action.Download) { d.From = srv.URL + "/none" }, "", "", cache.ErrStatus},
		{"forbidden place", func(d *action.Download) { d.To = "/forbidden/x" }, "", "", ErrDownload},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFake(t)
			d := base
			tc.d(&d)
			if tc.name == "not there" {
				d.CacheKey = "none"
			}
			r := e.Run(t.Context(), &action.Workload{Action: action.Action{Download: &d}}, Spent{}, f, f)
			if tc.is != nil {
				if !errors.Is(r.Err, tc.is) || !errors.Is(r.Err, ErrDownload) {
					t.Errorf("got %v", r.Err)
				}
			} else if r.Err != nil {
				t.Error(r.Err)
			} else if b, err := os.ReadFile(filepath.Join(f.root, tc.file)); err != nil || string(b) != tc.want &&
				(tc.want != "" || !bytes.Equal(b, content)) {
				t.Errorf("%d bytes, %v", len(b), err)
			}
			if text := strings.Join(f.log, "\n") + Reason(r.Err); strings.Contains(text, "secret") {
				t.Errorf("the log shows a secret: %s", text)
			}
			names, err := filepath.Glob(filepath.Join(f.root, "*", ".*.part"))
			if err != nil || len(names) > 0 {
				t.Errorf("left over: %v %v", names, err)
			}
		})
	}
}

func TestUpload(t *testing.T) {
	var got atomic.Value
	fails := atomic.Int32{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPut {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if fails.Add(-1) >= 0 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		if r.URL.Path == "/denied" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		got.Store(fmt.Sprint(string(b), " ", r.ContentLength, " ", r.Header.Get("Content-Digest")))
	}))
	defer srv.Close()
	e, f := engine(t), newFake(t)
	if err := os.WriteFile(filepath.Join(f.root, "result"), []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.root, "empty"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(f.root, "outside")); err != nil {
		t.Fatal(err)
	}
	up := func(from, to string) error {
		return e.Run(t.Context(),
			&action.Workload{Action: action.Action{Upload: &action.Upload{From: from, To: srv.URL + to}}}, Spent{}, f, f).Err
	}
	fails.Store(1)
	if err := up("/result", "/x"); err != nil {
		t.Fatal(err)
	}
	if want := "hello 5 sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=:"; got.Load() != want {
		t.Errorf("the server got %v", got.Load())
	}
	if err := up("/empty", "/x"); err != nil || !strings.HasPrefix(got.Load().(string), " 0 ") {
		t.Errorf("empty file: %v, %v", err, got.Load())
	}
	for from, to := range map[string]string{"/result": "/denied", "/missing": "/x", "/": "/x", "/outside": "/x"} {
		if err := up(from, to); !errors.Is(err, ErrUpload) {
			t.Errorf("%s to %s: %v", from, to, err)
		}
	}
	if !slices.Contains(f.log, "0s note: uploaded /result (5 B)") &&
		!strings.Contains(strings.Join(f.log, "\n"), "note: uploaded /result (5 B)") {
		t.Errorf("%q", f.log)
	}
}

func TestHTTPCheck(t *testing.T) {
	status := atomic.Int32{}
	status.Store(200)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "/", http.StatusFound)
		case "/hang":
			<-r.Context().Done()
		case "/endless":
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case "/why":
			w.WriteHeader(int(status.Load()))
			fmt.Fprint(w, "database is away\nat line 7")
		case "/slow":
			w.WriteHeader(int(status.Load()))
			fmt.Fprint(w, "first")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			w.WriteHeader(int(status.Load()))
		}
	}))
	defer srv.Close()
	f := newFake(t)
	f.addr = strings.TrimPrefix(srv.URL, "http://")
	p := &program{e: engine(t), w: &action.Workload{}, h: f, o: f}
	try := func(path string, timeout time.Duration) error {
		return p.checker(&action.Check{HTTP: &action.HTTPCheck{Port: "web", Path: path},
			Timeout: timeout}).attempt(t.Context())
	}
	for _, path := range []string{"", "/", "health?x=1", "/endless"} {
		if err := try(path, time.Minute); err != nil {
			t.Errorf("%q: %v", path, err)
		}
	}
	status.Store(503)
	for path, want := range map[string]string{"/": "HTTP check of port web, path /: status 503",
		"/redirect": "HTTP check of port web, path /redirect: status 302: <a href=\"/\">Found</a>.",
		"/hang":     "HTTP check of port web, path /hang: timed out after 50ms",
		"/why":      "HTTP check of port web, path /why: status 503: database is away",
		"/slow":     "HTTP check of port web, path /slow: status 503: first"} {
		timeout := time.Minute
		if path == "/hang" || path == "/slow" {
			timeout = 50 * time.Millisecond
		}
		if err := try(path, timeout); err == nil || err.Error() != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	srv.Close()
	if err := try("/", time.Minute); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("no listener: %v", err)
	}
}

func TestTransfersEndWithTheirContext(t *testing.T) {
	arrived := make(chan bool, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- true
		<-r.Context().Done()
	}))
	defer srv.Close()
	f := newFake(t)
	if err := os.WriteFile(filepath.Join(f.root, "big"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, a := range []action.Action{
		{Download: &action.Download{From: srv.URL, To: "/x", AllowUnpinned: true}},
		{Try: &action.Action{Download: &action.Download{From: srv.URL, To: "/x", AllowUnpinned: true}}},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- engine(t).Run(ctx, &action.Workload{Action: a}, Spent{}, f, f).Err }()
		<-arrived
		cancel()
		if err := <-done; !errors.Is(err, ErrCanceled) {
			t.Errorf("got %v", err)
		}
	}
}
