package step

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"cantina/action"
	"cantina/executor/place"
	"cantina/image/cache"
	"cantina/internal/run"
)

// download fetches through the cache and puts the file in its place.
func (p *program) download(ctx context.Context, d *action.Download) error {
	name := cache.Name(d.From)
	size, err := p.fetch(ctx, d, name)
	if err != nil && ctx.Err() != nil {
		return canceled(ctx)
	}
	if err != nil {
		p.o.Note("downloading " + name + " failed")
		return fmt.Errorf("%w: %w", ErrDownload, err)
	}
	p.o.Note(fmt.Sprintf("downloaded %s (%s)", name, formatSize(size)))
	return nil
}

func (p *program) fetch(ctx context.Context, d *action.Download, name string) (int64, error) {
	at, err := p.h.Place(d.To)
	if err != nil {
		return 0, err
	}
	a, err := p.fetchCached(ctx, d, name)
	if err != nil {
		return 0, err
	}
	defer a.Close()
	f := place.File{At: at.Place, Path: a.Path, Unpack: d.Unpack, Into: cache.Base(d.From),
		Dir: strings.HasSuffix(d.To, "/")}
	if at.Carry != nil {
		return a.Size, at.Carry(ctx, "put", f)
	}
	return a.Size, place.Put(ctx, f)
}

// fetchCached holds a slot for as long as it fetches, and not while the file is put in
// its place, which may hang.
func (p *program) fetchCached(ctx context.Context, d *action.Download, name string) (*cache.Artifact, error) {
	if !strings.HasPrefix(d.From, "file:") { // which may hang, and takes no network
		if err := p.e.downloads.take(ctx); err != nil {
			return nil, err
		}
		defer p.e.downloads.give()
	}
	p.o.Note("downloading " + name)
	return p.e.cache.Fetch(ctx, cache.Request{URL: d.From, Key: d.CacheKey, Algorithm: d.ChecksumAlgorithm,
		Checksum: d.ChecksumValue, Unpinned: d.AllowUnpinned, Local: p.h.Local})
}

// uploadAttempts is how often an upload is tried. (Diego executor, Upload step.)
const uploadAttempts = 3

// upload sends a file of the container by PUT.
func (p *program) upload(ctx context.Context, u *action.Upload) error {
	name := cache.Name(u.To)
	size, err := p.send(ctx, u, name)
	if err != nil && ctx.Err() != nil {
		return canceled(ctx)
	}
	if err != nil {
		p.o.Note("uploading " + u.From + " failed")
		return fmt.Errorf("%w: %w", ErrUpload, err)
	}
	p.o.Note(fmt.Sprintf("uploaded %s (%s)", u.From, formatSize(size)))
	return nil
}

func (p *program) send(ctx context.Context, u *action.Upload, name string) (int64, error) {
	f, size, err := p.openUpload(ctx, u.From)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // read only
	if err := p.e.uploads.take(ctx); err != nil {
		return 0, err
	}
	defer p.e.uploads.give()
	p.o.Note("uploading " + u.From + " to " + name)
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, size)); err != nil {
		return 0, err
	}
	digest := "sha-256=:" + base64.StdEncoding.EncodeToString(sum.Sum(nil)) + ":"
	pause := 500 * time.Millisecond
	for try := 1; ; try++ {
		again, err := p.put(ctx, u.To, io.NewSectionReader(f, 0, size), size, digest)
		if err == nil || !again || try == uploadAttempts {
			return size, err
		}
		if err := sleep(ctx, pause); err != nil {
			return 0, err
		}
		pause *= 2
	}
}

// sleep is run.Pause with the error that a step ends with.
func sleep(ctx context.Context, d time.Duration) error {
	if run.Pause(ctx, d) != nil {
		return canceled(ctx)
	}
	return nil
}

// openUpload opens a regular file of the container, or a copy of it.
func (p *program) openUpload(ctx context.Context, from string) (*os.File, int64, error) {
	at, err := p.h.Place(from)
	if err != nil {
		return nil, 0, err
	}
	if at.Carry == nil {
		return place.Open(at.Place, from)
	}
	if err := at.Carry(ctx, "take", place.File{At: at.Place, Path: at.Copy, Into: from}); err != nil {
		return nil, 0, err
	}
	dir, name := path.Split(at.Copy)
	f, size, err := place.Open(place.Place{Root: dir, Path: name}, from)
	if rerr := os.Remove(at.Copy); err == nil && rerr != nil {
		return nil, 0, errors.Join(rerr, f.Close())
	}
	return f, size, err
}

// put sends once; again: another attempt may succeed.
func (p *program) put(ctx context.Context, to string, body io.Reader, size int64, digest string) (again bool,
	err error) {
	if size == 0 {
		body = http.NoBody
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, to, body)
	if err != nil {
		return false, errors.New("bad URL")
	}
	req.ContentLength = size
	req.Header.Set("Content-Digest", digest)
	res, err := p.e.client.Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err // the URL may hold credentials
		}
		return true, err
	}
	if err := res.Body.Close(); err != nil {
		return true, err
	}
	if res.StatusCode/100 != 2 {
		return res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests,
			fmt.Errorf("server answered %s", res.Status)
	}
	return false, nil
}

// formatSize is a size for people.
func formatSize(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}
