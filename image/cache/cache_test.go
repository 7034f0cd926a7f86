package cache

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server serves files by path and counts requests.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	files    map[string]string
	etag     bool
	requests atomic.Int64
	sent     atomic.Int64 // answers with content
	before   func(w http.ResponseWriter, r *http.Request) bool
}

func serve(t *testing.T) *server {
	t.Helper()
	s := &server{files: map[string]string{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	if s.before != nil && !s.before(w, r) {
		return
	}
	s.mu.Lock()
	body, ok := s.files[r.URL.Path]
	s.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	if s.etag {
		tag := `"` + sum256(body)[:8] + `"`
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	s.sent.Add(1)
	fmt.Fprint(w, body)
}

func sum256(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

func openAt(t *testing.T, dir string, cfg Config) *Cache {
	t.Helper()
	c, err := Open(dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func content(t *testing.T, a *Artifact) string {
	t.Helper()
	b, err := os.ReadFile(a.Path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func fetchOK(t *testing.T, c *Cache, r Request) *Artifact {
	t.Helper()
	a, err := c.Fetch(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func pinned(s *server, path, body string) Request {
	return Request{URL: s.URL + path, Algorithm: "sha256", Checksum: sum256(body)}
}

func TestPinnedFileIsFetchedOnceAlsoOverRestarts(t *testing.T) {
	s, dir := serve(t), t.TempDir()
	s.files["/a"] = "hello"
	for life := range 3 {
		c := openAt(t, dir, Config{})
		a := fetchOK(t, c, pinned(s, "/a", "hello"))
		if content(t, a) != "hello" || a.Cached != (life > 0) || a.Size != 5 {
			t.Errorf("life %d: %+v", life, a)
		}
		a.Close()
		a.Close()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.requests.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestRefusals(t *testing.T) {
	s := serve(t)
	s.files["/a"] = "hello"
	c := openAt(t, t.TempDir(), Config{MaxBytes: 100})
	s.files["/big"] = strings.Repeat("x", 101)
	sum := sha512.Sum512([]byte("hello"))
	if a, err := c.Fetch(t.Context(), Request{URL: s.URL + "/a", Algorithm: "sha512",
		Checksum: strings.ToUpper(hex.EncodeToString(sum[:]))}); err != nil {
		t.Error("sha512: ", err)
	} else {
		a.Close()
	}
	for _, tc := range []struct {
		name string
		r    Request
		want error
	}{
		{"no checksum", Request{URL: s.URL + "/a"}, ErrUnpinned},
		{"wrong content", pinned(s, "/a", "other"), ErrChecksum},
		{"weak algorithm", Request{URL: s.URL + "/a", Algorithm: "md5", Checksum: "00"}, ErrRequest},
		{"short checksum", Request{URL: s.URL + "/a", Algorithm: "sha256", Checksum: "00"}, ErrRequest},
		{"scheme", Request{URL: "ftp://x/a", Unpinned: true}, ErrRequest},
		{"file of another host", Request{URL: "file://x/etc/passwd", Unpinned: true}, ErrRequest},
		{"not there", Request{URL: s.URL + "/none", Unpinned: true}, ErrStatus},
		{"too large", Request{URL: s.URL + "/big", Unpinned: true}, ErrTooLarge},
		{"directory", Request{URL: "file://" + t.TempDir(), Unpinned: true}, ErrRequest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := c.Fetch(t.Context(), tc.r); !errors.Is(err, tc.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	if n := s.requests.Load(); n != 4 {
		t.Errorf("%d requests: a refusal was tried again, or was sent although it could not be right", n)
	}
}

func TestErrorsDoNotShowCredentials(t *testing.T) {
	c := openAt(t, t.TempDir(), Config{Attempts: 1})
	_, err := c.Fetch(t.Context(), Request{URL: "http://user:secret@127.0.0.1:1/a?token=secret", Unpinned: true})
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "127.0.0.1:1/a") {
		t.Errorf("%v", err)
	}
}

func TestUnpinnedFileIsAskedForAgain(t *testing.T) {
	s := serve(t)
	s.files["/a"], s.etag = "one", true
	c := openAt(t, t.TempDir(), Config{})
	r := Request{URL: s.URL + "/a", Unpinned: true}
	for _, want := range []string{"one", "one", "two"} {
		s.mu.Lock()
		s.files["/a"] = want
		s.mu.Unlock()
		a := fetchOK(t, c, r)
		if got := content(t, a); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		a.Close()
	}
	if s.requests.Load() != 3 || s.sent.Load() != 2 {
		t.Errorf("%d requests, %d with content", s.requests.Load(), s.sent.Load())
	}
	s.etag = false
	a := fetchOK(t, c, Request{URL: s.URL + "/a?other", Unpinned: true})
	path := a.Path
	a.Close()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file without validators was kept: %v", err)
	}
	if c.Size() != 3 {
		t.Errorf("size %d", c.Size())
	}
}

func TestConcurrentRequestsCauseOneFetch(t *testing.T) {
	s := serve(t)
	s.files["/a"] = "hello"
	arrived, goOn := make(chan bool, 1), make(chan bool)
	s.before = func(http.ResponseWriter, *http.Request) bool { arrived <- true; <-goOn; return true }
	c := openAt(t, t.TempDir(), Config{})
	r := pinned(s, "/a", "hello")
	impatient, leave := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { _, err := c.Fetch(impatient, r); first <- err }()
	<-arrived
	var group sync.WaitGroup
	got := make([]*Artifact, 20)
	for i := range got {
		group.Go(func() {
			var err error
			if got[i], err = c.Fetch(context.Background(), r); err != nil {
				t.Error(err)
			}
		})
	}
	for waiting := 0; waiting < 21; {
		c.mu.Lock()
		for _, f := range c.fetching {
			waiting = f.waiters
		}
		c.mu.Unlock()
	}
	leave() // the caller that began it leaves; the others still get it
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the one who left got %v", err)
	}
	close(goOn)
	group.Wait()
	for _, a := range got {
		if content(t, a) != "hello" {
			t.Error("wrong content")
		}
		a.Close()
	}
	if n := s.requests.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
	for _, e := range c.entries {
		if e.refs != 0 {
			t.Errorf("%d references are left", e.refs)
		}
	}
}

func TestUnneededFetchIsCancelled(t *testing.T) {
	s := serve(t)
	gone, arrived := make(chan bool), make(chan bool)
	s.before = func(_ http.ResponseWriter, r *http.Request) bool {
		arrived <- true
		<-r.Context().Done()
		close(gone)
		return false
	}
	c := openAt(t, t.TempDir(), Config{})
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { _, err := c.Fetch(ctx, pinned(s, "/a", "x")); done <- err }()
	<-arrived
	leave()
	<-gone
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestServerErrorsAreTriedAgain(t *testing.T) {
	s := serve(t)
	s.files["/a"] = "hello"
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		switch s.requests.Load() {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
			return false
		case 2: // breaks off in the middle
			w.Header().Set("Content-Length", "5")
			fmt.Fprint(w, "he")
			return false
		}
		return true
	}
	c := openAt(t, t.TempDir(), Config{})
	a := fetchOK(t, c, pinned(s, "/a", "hello"))
	defer a.Close()
	if content(t, a) != "hello" || s.requests.Load() != 3 {
		t.Errorf("%d requests", s.requests.Load())
	}
}

func TestTransferThatStandsStillFails(t *testing.T) {
	s := serve(t)
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Length", "5")
		fmt.Fprint(w, "he")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return false
	}
	c := openAt(t, t.TempDir(), Config{Idle: time.Second, Attempts: 1})
	if _, err := c.Fetch(t.Context(), pinned(s, "/a", "hello")); err == nil ||
		!strings.Contains(err.Error(), "no data for 1s") {
		t.Errorf("%v", err)
	}
}

func TestLeastRecentlyUsedGoesAndImagesInUseStay(t *testing.T) {
	s, dir := serve(t), t.TempDir()
	body := func(i int) string { return strings.Repeat(fmt.Sprint(i), 100) }
	for i := range 9 {
		s.files[fmt.Sprint("/", i)] = body(i)
	}
	c := openAt(t, dir, Config{MaxBytes: 350})
	get := func(i int) *Artifact { return fetchOK(t, c, pinned(s, fmt.Sprint("/", i), body(i))) }
	used := get(0)
	for i := 1; i < 6; i++ {
		get(i).Close()
		if i == 3 {
			get(2).Close() // makes 3 older than 2… and then 4 comes
		}
	}
	if c.Size() > 350 || content(t, used) != body(0) {
		t.Errorf("size %d", c.Size())
	}
	before := s.requests.Load()
	get(0).Close()
	get(5).Close()
	if s.requests.Load() != before {
		t.Error("an image in use, or used last, was not kept")
	}
	var held []*Artifact
	for i := range 9 { // more than fits, all in use
		held = append(held, get(i))
	}
	for i, a := range held {
		if content(t, a) != body(i) {
			t.Errorf("file %d changed while in use", i)
		}
		a.Close()
	}
	used.Close()
	if c.Size() > 350 {
		t.Errorf("size %d after all were given back", c.Size())
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"+dataExt))
	if err != nil || len(files) != int(c.Size()/100) {
		t.Errorf("%d files for %d bytes", len(files), c.Size())
	}
}

func TestDamageOnDiskIsSortedOutAtOpen(t *testing.T) {
	s, dir := serve(t), t.TempDir()
	c := openAt(t, dir, Config{})
	for i := range 4 {
		s.files[fmt.Sprint("/", i)] = fmt.Sprint("body", i)
		fetchOK(t, c, pinned(s, fmt.Sprint("/", i), fmt.Sprint("body", i))).Close()
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	base := func(i int) string {
		m, err := filepath.Glob(filepath.Join(dir, fileName(fmt.Sprint(s.URL, "/", i))+"*"+dataExt))
		if err != nil || len(m) != 1 {
			t.Fatal(m, err)
		}
		return strings.TrimSuffix(m[0], dataExt)
	}
	for path, text := range map[string]string{base(0) + dataExt: "cut", base(1) + infoExt: "{rubbish",
		filepath.Join(dir, "tmp-1"): "x"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(base(2) + infoExt); err != nil {
		t.Fatal(err)
	}
	c = openAt(t, dir, Config{})
	if c.Size() != 5 || len(c.entries) != 1 {
		t.Errorf("%d bytes in %d entries", c.Size(), len(c.entries))
	}
	for i := range 4 {
		a := fetchOK(t, c, pinned(s, fmt.Sprint("/", i), fmt.Sprint("body", i)))
		if a.Cached != (i == 3) {
			t.Errorf("file %d: cached %v", i, a.Cached)
		}
		a.Close()
	}
}

func TestFilesOfTheCell(t *testing.T) {
	c := openAt(t, t.TempDir(), Config{})
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := fetchOK(t, c, Request{URL: "file://" + path, Algorithm: "sha256", Checksum: sum256("hello")})
	b := fetchOK(t, c, Request{URL: "file://" + path, Unpinned: true, Key: "other"})
	if err := os.WriteFile(path, []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if content(t, a) != "hello" || content(t, b) != "hello" {
		t.Error("a fetched file changed with its source")
	}
	a.Close()
	b.Close()
	if c.Size() != 5 {
		t.Errorf("size %d: only the pinned one is kept", c.Size())
	}
	if _, err := c.Fetch(t.Context(), Request{URL: "file:///nowhere", Unpinned: true}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

func TestClosedCacheRefuses(t *testing.T) {
	s := serve(t)
	arrived := make(chan bool)
	s.before = func(_ http.ResponseWriter, r *http.Request) bool { arrived <- true; <-r.Context().Done(); return false }
	c := openAt(t, t.TempDir(), Config{})
	done := make(chan error)
	go func() { _, err := c.Fetch(context.Background(), pinned(s, "/a", "x")); done <- err }()
	<-arrived
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("under way: %v", err)
	}
	if _, err := c.Fetch(t.Context(), pinned(s, "/a", "x")); !errors.Is(err, ErrClosed) {
		t.Errorf("afterwards: %v", err)
	}
}
