package cache

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cantina/internal/run"
)

// errAbandoned: all waiting callers of the fetch have left.
var errAbandoned = errors.New("no longer needed")

// fetch is one download in progress. It runs on its own goroutine, so that the first caller may
// leave without harm to the others.
type fetch struct {
	id     string
	r      Request
	u      *url.URL
	old    *entry // the cached file under the key; holds a reference
	cancel context.CancelFunc
	done   chan struct{}

	waiters int // guarded by Cache.mu

	// valid after done
	entry *entry
	fresh bool // it came over the network
	err   error
}

// begin starts a fetch; c.mu is held.
func (c *Cache) begin(id string, r Request, u *url.URL, old *entry) *fetch {
	ctx, cancel := context.WithCancel(c.ctx)
	f := &fetch{id: id, r: r, u: u, old: old, cancel: cancel, done: make(chan struct{})}
	if old != nil {
		old.refs++
	}
	if id != "" {
		c.fetching[id] = f
	}
	c.group.Go(func() { c.carry(ctx, f) })
	return f
}

// leave takes one waiter away; the last one ends the fetch.
func (c *Cache) leave(f *fetch) {
	c.mu.Lock()
	f.waiters--
	last := f.waiters == 0 && (f.id == "" && f.entry == nil || c.fetching[f.id] == f)
	if last && f.id != "" {
		delete(c.fetching, f.id)
	}
	if last {
		f.cancel()
	}
	delivered := f.entry
	c.mu.Unlock()
	if !last && delivered != nil { // it had just been delivered: the reference is not wanted
		c.release(delivered, 1)
	}
}

// carry fetches and passes the result to the waiting callers.
func (c *Cache) carry(ctx context.Context, f *fetch) {
	defer f.cancel()
	e, fresh, err := c.get(ctx, f)
	if f.old != nil && e != f.old {
		defer c.release(f.old, 1)
	}
	c.mu.Lock()
	var gone []*entry
	if err == nil {
		gone = c.deliver(f, e, fresh)
	}
	if errors.Is(err, context.Canceled) {
		if err = errAbandoned; c.closed {
			err = ErrClosed
		}
	}
	f.err = err
	if c.fetching[f.id] == f {
		delete(c.fetching, f.id)
	}
	text, fail := []byte(nil), error(nil)
	if e != nil && !e.stale {
		text, fail = json.Marshal(e)
	}
	c.mu.Unlock()
	c.remove(gone)
	if text != nil && fail == nil {
		c.describe(e.file, text)
	}
	close(f.done)
}

// deliver puts the result into the cache, with one reference per waiter; c.mu is held. The caller
// removes the evicted files.
func (c *Cache) deliver(f *fetch, e *entry, fresh bool) (gone []*entry) {
	f.entry, f.fresh = e, fresh
	e.Used = c.cfg.Clock.Wall()
	e.refs += f.waiters
	if !fresh {
		e.refs-- // that of begin
		return nil
	}
	if !e.stale {
		if was := c.entries[e.Key]; was != nil {
			c.drop(was)
			if was.refs == 0 {
				gone = append(gone, was)
			}
		}
		gone = append(gone, c.evict(e.Size)...)
		c.entries[e.Key] = e
		c.size += e.Size
	}
	if e.refs == 0 && e.stale {
		gone = append(gone, e)
	}
	return gone
}

// get brings the file, with several attempts. fresh is false when the old one is still right.
func (c *Cache) get(ctx context.Context, f *fetch) (e *entry, fresh bool, err error) {
	for try := 0; ; try++ {
		if f.u.Scheme == "file" {
			e, err = c.copyFile(ctx, f)
			return e, true, err
		}
		e, fresh, err = c.attempt(ctx, f)
		var again retryable
		if err == nil || !errors.As(err, &again) || try+1 >= c.cfg.Attempts {
			return e, fresh, err
		}
		pause := min(500*time.Millisecond<<try, 5*time.Second)
		pause += time.Duration(rand.Int64N(int64(pause) / 2)) // only spreads load: nothing is decided by it
		if err := run.Pause(ctx, pause); err != nil {
			return nil, false, err
		}
	}
}

// retryable marks an error after which another attempt may help.
type retryable struct{ error }

func (r retryable) Unwrap() error { return r.error }

// attempt sends one request to the server.
func (c *Cache) attempt(ctx context.Context, f *fetch) (*entry, bool, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.r.URL, nil)
	if err != nil {
		return nil, false, fmt.Errorf("%w: %s", ErrRequest, Name(f.r.URL))
	}
	if old := f.old; old != nil && f.r.Checksum == "" {
		c.mu.Lock()
		same, etag, modified := old.Source == fileName(f.r.URL), old.ETag, old.LastModified
		c.mu.Unlock()
		if same {
			setHeader(req, "If-None-Match", etag)
			setHeader(req, "If-Modified-Since", modified)
		}
	}
	idle := time.AfterFunc(c.cfg.Idle, func() { stop(fmt.Errorf("no data for %v", c.cfg.Idle)) })
	defer idle.Stop()
	res, err := c.cfg.Client.Do(req)
	if err != nil {
		return nil, false, netError(ctx, err)
	}
	defer func() { _ = res.Body.Close() }() // read to its end or given up
	switch {
	case res.StatusCode == http.StatusNotModified && f.old != nil && f.r.Checksum == "":
		return f.old, false, nil
	case res.StatusCode == http.StatusOK:
	case res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests ||
		res.StatusCode == http.StatusRequestTimeout:
		return nil, false, retryable{fmt.Errorf("%w: status %s", ErrStatus, res.Status)}
	default:
		return nil, false, fmt.Errorf("%w: status %s", ErrStatus, res.Status)
	}
	if res.ContentLength > c.cfg.MaxBytes {
		return nil, false, ErrTooLarge
	}
	body := &watched{r: res.Body, idle: idle, wait: c.cfg.Idle}
	e, err := c.store(f, body, res.ContentLength)
	if err != nil {
		if body.err != nil {
			return nil, false, netError(ctx, body.err)
		}
		return nil, false, err
	}
	e.ETag, e.LastModified = res.Header.Get("ETag"), res.Header.Get("Last-Modified")
	if f.r.Checksum == "" && e.ETag == "" && e.LastModified == "" {
		e.stale = true // it could never be revalidated: not cached
	}
	return e, true, nil
}

func setHeader(r *http.Request, key, value string) {
	if value != "" {
		r.Header.Set(key, value)
	}
}

// netError hides the URL, which may contain credentials, and adds why ctx ended.
func netError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		if errors.Is(cause, context.Canceled) {
			return cause
		}
		return retryable{cause}
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	return retryable{err}
}

// watched detects a stalled transfer.
type watched struct {
	r    io.Reader
	idle *time.Timer
	wait time.Duration
	err  error // of the network, not the end
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if n > 0 {
		w.idle.Reset(w.wait)
	}
	if err != nil && err != io.EOF {
		w.err = err
	}
	return n, err
}

// store writes the content beside the cache's files and verifies it.
func (c *Cache) store(f *fetch, r io.Reader, length int64) (*entry, error) {
	c.mu.Lock()
	c.serial++
	base := fmt.Sprintf("%s-%x-%x", fileName(f.r.Key), c.cfg.Clock.Wall().UnixNano(), c.serial)
	gone := c.evict(max(length, 0))
	c.mu.Unlock()
	c.remove(gone)
	path := filepath.Join(c.dir, base+dataExt)
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	var sum hash.Hash = sha256.New()
	algorithm := "sha256"
	if f.r.Algorithm == "sha512" {
		sum, algorithm = sha512.New(), "sha512"
	}
	n, err := io.Copy(io.MultiWriter(out, sum), io.LimitReader(r, c.cfg.MaxBytes+1))
	if err == nil && n > c.cfg.MaxBytes {
		err = ErrTooLarge
	}
	if err == nil && length >= 0 && n != length {
		err = retryable{io.ErrUnexpectedEOF}
	}
	got := hex.EncodeToString(sum.Sum(nil))
	if err == nil && f.r.Checksum != "" && got != f.r.Checksum {
		err = fmt.Errorf("%w: %s is %s, not %s", ErrChecksum, algorithm, got, f.r.Checksum)
	}
	if err := errors.Join(err, out.Close()); err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	return &entry{Key: f.r.Key, URL: Name(f.r.URL), Source: fileName(f.r.URL), Size: n,
		Checksums: map[string]string{algorithm: got}, file: base}, nil
}

// copyFile copies a file of the cell. A pinned one is cached like any other; one without a
// checksum may change at any time and is copied for this use only.
func (c *Cache) copyFile(ctx context.Context, f *fetch) (*entry, error) {
	path := f.u.Path
	if f.r.Local != nil {
		copied, remove, err := f.r.Local(ctx, path)
		if err != nil {
			return nil, err
		}
		defer func() {
			if err := remove(); err != nil {
				c.cfg.Log.Warn("copy is not removed", "path", copied, "error", err)
			}
		}()
		path = copied
	}
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }() // read only
	info, err := in.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: not a regular file", ErrRequest)
	}
	if info.Size() > c.cfg.MaxBytes {
		return nil, ErrTooLarge
	}
	e, err := c.store(f, run.Reader(ctx, in), -1)
	if err == nil {
		e.stale = f.r.Checksum == ""
	}
	return e, err
}

// Base is the last element of a URL's path, to recognise archives by their names.
func Base(rawURL string) string {
	name := Name(rawURL)
	return name[strings.LastIndexByte(name, '/')+1:]
}
