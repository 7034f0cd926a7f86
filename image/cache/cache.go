// Package cache keeps downloads on the cell's disk and shares them between containers. (Diego
// executor, Cached downloader.)
//
//	absent ──fetch──▶ fetching ──whole and verified──▶ kept ──least recently used, not in use──▶ removed
//
// Concurrent requests for one file cause one fetch. A file pinned by a checksum is used from the
// cache without a request to the server. Any other file is requested again with the server's own
// validators, and not cached if it has none. The cache has a size limit; files in use are never
// removed. Each file has a small description beside it, so that a killed process loses at most its
// unfinished fetch.
//
// The executor opens one Cache; step programs fetch from it.
package cache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"cantina/internal/removal"
	"cantina/internal/run"
)

// Errors of this package. Errors of the network and the disk are wrapped.
var (
	// ErrUnpinned: no checksum, and the request does not allow that.
	ErrUnpinned = errors.New("no checksum given")
	// ErrChecksum: the content does not match the checksum.
	ErrChecksum = errors.New("checksum does not match")
	// ErrRequest: a URL or a checksum that cannot be.
	ErrRequest = errors.New("bad download request")
	// ErrTooLarge: more than Config.MaxBytes.
	ErrTooLarge = errors.New("download too large")
	// ErrStatus: the server answered with a status that is not a success.
	ErrStatus = errors.New("server refused the download")
	// ErrClosed: the cache is closed.
	ErrClosed = errors.New("download cache closed")
)

// Request describes the wanted file.
type Request struct {
	URL string // http, https or file
	Key string // key of the file in the cache; empty = URL
	// Algorithm is sha256 or sha512, Checksum lower-case hexadecimal.
	Algorithm, Checksum string
	// Unpinned allows a request without a checksum.
	Unpinned bool
	// Local copies a file of the machine to a place that the cache may read; the caller removes the
	// copy. So a hanging file system hangs only the caller. nil = the cache reads it.
	Local func(ctx context.Context, path string) (copied string, remove func() error, err error)
}

// Config bounds a cache. Zero fields get the defaults named there.
type Config struct {
	MaxBytes int64         // on disk; 10 GiB
	Attempts int           // per fetch; 4
	Idle     time.Duration // a transfer without a byte for so long has failed; 10 s
	Client   *http.Client  // default: http.Client with its own transport
	Clock    run.Clock     // Wall orders use; the kernel's
	Log      *slog.Logger
}

// Cache is a bounded store of downloads. Make one with Open.
type Cache struct {
	dir string
	cfg Config

	ctx    context.Context // of fetches: Close cancels it
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu       sync.Mutex
	entries  map[string]*entry
	fetching map[string]*fetch
	size     int64
	closed   bool
	serial   uint64
}

// entry is one file in the cache. Its JSON form lies beside it.
type entry struct {
	Key          string
	URL          string // without credentials and query
	Source       string // hash of the whole URL: validators belong to one URL
	Size         int64
	Checksums    map[string]string // by algorithm: verified ones
	ETag         string            `json:",omitempty"`
	LastModified string            `json:",omitempty"`
	Used         time.Time

	file  string // base name
	refs  int
	stale bool // not in the cache any more: removed with the last reference
}

// Artifact is a file that stays where it is until Close.
type Artifact struct {
	Path   string // on the cell; read only, shared with other containers
	Size   int64
	Cached bool // it was here already

	release func()
	once    sync.Once
}

// Close releases the file. A second Close does nothing.
func (a *Artifact) Close() { a.once.Do(a.release) }

// Open opens the cache in dir, which it creates if needed. Inconsistent files after a crash are
// removed. It fails only if the directory is unusable.
func Open(dir string, cfg Config) (*Cache, error) {
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = 10 << 30
	}
	if cfg.Attempts <= 0 {
		cfg.Attempts = 4
	}
	if cfg.Idle <= 0 {
		cfg.Idle = 10 * time.Second
	}
	if cfg.Client == nil {
		cfg.Client = &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 2,
			IdleConnTimeout: 30 * time.Second, TLSHandshakeTimeout: 10 * time.Second, DisableCompression: true}}
	}
	if cfg.Clock.Wall == nil {
		cfg.Clock = run.Kernel()
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("open download cache: %w", err)
	}
	c := &Cache{dir: dir, cfg: cfg, entries: map[string]*entry{}, fetching: map[string]*fetch{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, c.load()
}

const (
	dataExt = ".data"
	infoExt = ".json"
)

func (c *Cache) load() error {
	names, err := os.ReadDir(c.dir)
	if err != nil {
		return fmt.Errorf("open download cache: %w", err)
	}
	good := map[string]bool{}
	for _, n := range names {
		base, ok := strings.CutSuffix(n.Name(), infoExt)
		if !ok {
			continue
		}
		if e := c.loadEntry(base); e != nil {
			c.entries[e.Key] = e
			c.size += e.Size
			good[base+infoExt], good[base+dataExt] = true, true
		}
	}
	for _, n := range names {
		if !good[n.Name()] {
			if err := removal.Tree(filepath.Join(c.dir, n.Name())); err != nil { // the next start tries again
				c.cfg.Log.Warn("cannot remove file from the download cache", "error", err)
			}
		}
	}
	c.mu.Lock()
	old := c.evict(0)
	c.mu.Unlock()
	c.remove(old)
	return nil
}

// loadEntry reads one description; nil when it and its file do not fit together.
func (c *Cache) loadEntry(base string) *entry {
	b, err := os.ReadFile(filepath.Join(c.dir, base+infoExt))
	if err != nil {
		return nil
	}
	e := &entry{file: base}
	info, err := os.Lstat(filepath.Join(c.dir, base+dataExt))
	if err != nil || json.Unmarshal(b, e) != nil || !info.Mode().IsRegular() || info.Size() != e.Size || e.Key == "" ||
		!strings.HasPrefix(base, fileName(e.Key)) {
		return nil
	}
	if old := c.entries[e.Key]; old != nil && old.Used.After(e.Used) {
		return nil
	}
	return e
}

func fileName(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16])
}

// Close ends fetches in progress and waits for them. Artifacts stay readable.
func (c *Cache) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.group.Wait()
	c.cfg.Client.CloseIdleConnections()
	return nil
}

// Size is the disk space of the cached files, in bytes.
func (c *Cache) Size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.size
}

// check brings a request into its normal form.
func (r Request) check() (Request, *url.URL, error) {
	u, err := url.Parse(r.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "file" || u.Scheme != "file" &&
		u.Host == "" ||
		u.Scheme == "file" && (u.Host != "" && u.Host != "localhost" || !filepath.IsAbs(u.Path)) {
		return r, nil, fmt.Errorf("%w: URL must be http, https or file:///…", ErrRequest)
	}
	if r.Key == "" {
		r.Key = r.URL
	}
	if r.Checksum == "" && r.Algorithm == "" {
		if !r.Unpinned {
			return r, nil, ErrUnpinned
		}
		return r, u, nil
	}
	size, known := map[string]int{"sha256": 64, "sha512": 128}[r.Algorithm]
	if !known {
		return r, nil, fmt.Errorf("%w: algorithm must be sha256 or sha512, not %q", ErrRequest, r.Algorithm)
	}
	r.Checksum = strings.ToLower(r.Checksum)
	if _, err := hex.DecodeString(r.Checksum); err != nil || len(r.Checksum) != size {
		return r, nil, fmt.Errorf("%w: a %s checksum has %d hexadecimal digits", ErrRequest, r.Algorithm, size)
	}
	return r, u, nil
}

// Name is a URL as it may be shown: without credentials, query and fragment.
func Name(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "(bad URL)"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// Fetch returns the file, from the cache if it is valid. The caller closes the Artifact after use.
// It fails with the errors of this package, ctx's error, or the last error of the network; other
// callers that wait for the same file are not affected when ctx ends.
func (c *Cache) Fetch(ctx context.Context, r Request) (*Artifact, error) {
	r, u, err := r.check()
	if err != nil {
		return nil, fmt.Errorf("download %s: %w", Name(r.URL), err)
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("download %s: %w", Name(r.URL), context.Cause(ctx))
		}
		a, f, err := c.lookup(r, u)
		if a != nil || err != nil {
			return a, err
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			c.leave(f)
			return nil, fmt.Errorf("download %s: %w", Name(r.URL), context.Cause(ctx))
		}
		if f.err != nil {
			if errors.Is(f.err, errAbandoned) {
				continue // the others left just as this one came
			}
			return nil, fmt.Errorf("download %s: %w", Name(r.URL), f.err)
		}
		return c.take(f.entry, f.fresh), nil
	}
}

// lookup answers from the cache or joins the fetch, which it starts if needed. Each caller holds a
// reference to its result.
func (c *Cache) lookup(r Request, u *url.URL) (*Artifact, *fetch, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, fmt.Errorf("download %s: %w", Name(r.URL), ErrClosed)
	}
	e := c.entries[r.Key]
	if e != nil && r.Checksum != "" && e.Checksums[r.Algorithm] == r.Checksum {
		e.refs++
		e.Used = c.cfg.Clock.Wall()
		return c.artifact(e, true), nil, nil
	}
	// A file that another process reads for the caller belongs to that caller only.
	if r.Local != nil && u.Scheme == "file" {
		f := c.begin("", r, u, e)
		f.waiters++
		return nil, f, nil
	}
	id := r.Key + "\x00" + r.URL + "\x00" + r.Algorithm + "\x00" + r.Checksum
	f := c.fetching[id]
	if f == nil {
		f = c.begin(id, r, u, e)
	}
	f.waiters++
	return nil, f, nil
}

// take makes the artifact of a waiter, for which deliver took a reference.
func (c *Cache) take(e *entry, fresh bool) *Artifact {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.artifact(e, !fresh)
}

func (c *Cache) artifact(e *entry, cached bool) *Artifact {
	return &Artifact{Path: filepath.Join(c.dir, e.file+dataExt), Size: e.Size, Cached: cached,
		release: func() { c.release(e, 1) }}
}

// release gives back references; the last one of an entry that is not kept removes its file.
func (c *Cache) release(e *entry, n int) {
	c.mu.Lock()
	e.refs -= n
	var gone []*entry
	if e.refs == 0 && e.stale {
		gone = append(gone, e)
	}
	gone = append(gone, c.evict(0)...)
	keep := !e.stale && e.refs == 0
	text, err := json.Marshal(e)
	c.mu.Unlock()
	c.remove(gone)
	if keep && err == nil && !slices.Contains(gone, e) {
		c.describe(e.file, text)
	}
}

// evict selects files to remove so that need more bytes fit; c.mu is held. The caller removes the
// files.
func (c *Cache) evict(need int64) []*entry {
	var gone []*entry
	for c.size+need > c.cfg.MaxBytes {
		var oldest *entry
		for _, e := range c.entries {
			if e.refs == 0 && (oldest == nil || e.Used.Before(oldest.Used)) {
				oldest = e
			}
		}
		if oldest == nil {
			break
		}
		c.drop(oldest)
		gone = append(gone, oldest)
	}
	return gone
}

// drop removes an entry from the cache; its file is removed with its last reference.
func (c *Cache) drop(e *entry) {
	delete(c.entries, e.Key)
	c.size -= e.Size
	e.stale = true
}

func (c *Cache) remove(gone []*entry) {
	for _, e := range gone {
		for _, ext := range []string{infoExt, dataExt} {
			if err := os.Remove(filepath.Join(c.dir, e.file+ext)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				c.cfg.Log.Warn("download cache: file stays", "file", e.file+ext, "error", err)
			}
		}
	}
}

// describe writes the description of a kept file.
func (c *Cache) describe(base string, text []byte) {
	tmp, err := os.CreateTemp(c.dir, "tmp-*")
	if err == nil {
		_, err = tmp.Write(text)
		err = errors.Join(err, tmp.Close())
	}
	if err == nil {
		err = os.Rename(tmp.Name(), filepath.Join(c.dir, base+infoExt))
	}
	if err != nil {
		c.cfg.Log.Warn("download cache: description not written", "file", base, "error", err)
	}
}
