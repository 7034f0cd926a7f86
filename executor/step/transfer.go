package step

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"cantina/action"
	"cantina/executor/archive"
	"cantina/executor/cache"
	"cantina/internal/run"
)

// download fetches through the cache and puts the file in its place.
func (p *program) download(ctx context.Context, d *action.Download) error {
	if err := p.e.downloads.take(ctx); err != nil {
		return err
	}
	defer p.e.downloads.give()
	name := cache.Name(d.From)
	p.o.Note("downloading " + name)
	size, err := p.fetch(ctx, d)
	if ctx.Err() != nil {
		return canceled(ctx)
	}
	if err != nil {
		p.o.Note("downloading " + name + " failed")
		return fmt.Errorf("%w: %w", ErrDownload, err)
	}
	p.o.Note(fmt.Sprintf("downloaded %s (%s)", name, formatSize(size)))
	return nil
}

func (p *program) fetch(ctx context.Context, d *action.Download) (int64, error) {
	place, err := p.h.Place(d.To)
	if err != nil {
		return 0, err
	}
	a, err := p.e.cache.Fetch(ctx, cache.Request{URL: d.From, Key: d.CacheKey, Algorithm: d.ChecksumAlgorithm,
		Checksum: d.ChecksumValue, Unpinned: d.AllowUnpinned})
	if err != nil {
		return 0, err
	}
	defer a.Close()
	root, err := os.OpenRoot(place.Root)
	if err != nil {
		return 0, err
	}
	defer func() { _ = root.Close() }() // a folder that was read
	if d.Unpack {
		return a.Size, unpack(ctx, a, root, place)
	}
	return a.Size, install(ctx, a, root, place, d)
}

func unpack(ctx context.Context, a *cache.Artifact, root *os.Root, place Place) error {
	if err := makeFolders(root, place, place.Path); err != nil {
		return err
	}
	dir, err := root.OpenRoot(relative(place.Path))
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // a folder that was read
	f, err := os.Open(a.Path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	return archive.Unpack(ctx, f, dir, archive.Options{Owned: place.Owned, Uid: place.Uid, Gid: place.Gid})
}

// install copies a single file to its place, whole or not at all. It may be run:
// a downloaded program would be useless otherwise.
func install(ctx context.Context, a *cache.Artifact, root *os.Root, place Place, d *action.Download) error {
	to := relative(place.Path)
	if info, err := root.Stat(to); err == nil && info.IsDir() || strings.HasSuffix(d.To, "/") {
		to = path.Join(to, cache.Base(d.From))
	}
	if err := makeFolders(root, place, path.Dir(to)); err != nil {
		return err
	}
	in, err := os.Open(a.Path)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // read only
	tmp := path.Join(path.Dir(to), "."+path.Base(to)+".part")
	if err := root.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	out, err := root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, run.Reader(ctx, in))
	if err == nil && place.Owned {
		err = out.Chown(place.Uid, place.Gid)
	}
	if err = errors.Join(err, out.Close()); err == nil {
		err = root.Rename(tmp, to)
	}
	if err != nil {
		return errors.Join(err, root.Remove(tmp))
	}
	return nil
}

// relative is a path below a root; "." is the root.
func relative(p string) string {
	if p = strings.TrimPrefix(path.Clean("/"+p), "/"); p == "" {
		return "."
	}
	return p
}

// makeFolders makes what is missing of dir, with the place's owner.
func makeFolders(root *os.Root, place Place, dir string) error {
	dir = relative(dir)
	if info, err := root.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if up := path.Dir(dir); up != "." {
		if err := makeFolders(root, place, up); err != nil {
			return err
		}
	}
	if err := root.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if place.Owned {
		return root.Lchown(dir, place.Uid, place.Gid)
	}
	return nil
}

// uploadAttempts is how often an upload is tried. (Diego executor, Upload step.)
const uploadAttempts = 3

// upload sends a file of the container by PUT.
func (p *program) upload(ctx context.Context, u *action.Upload) error {
	if err := p.e.uploads.take(ctx); err != nil {
		return err
	}
	defer p.e.uploads.give()
	name := cache.Name(u.To)
	p.o.Note("uploading " + u.From + " to " + name)
	size, err := p.send(ctx, u)
	if ctx.Err() != nil {
		return canceled(ctx)
	}
	if err != nil {
		p.o.Note("uploading " + u.From + " failed")
		return fmt.Errorf("%w: %w", ErrUpload, err)
	}
	p.o.Note(fmt.Sprintf("uploaded %s (%s)", u.From, formatSize(size)))
	return nil
}

func (p *program) send(ctx context.Context, u *action.Upload) (int64, error) {
	f, size, err := p.openUpload(u.From)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // read only
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

// openUpload opens a regular file and nothing that would block or lead elsewhere.
func (p *program) openUpload(from string) (*os.File, int64, error) {
	place, err := p.h.Place(from)
	if err != nil {
		return nil, 0, err
	}
	root, err := os.OpenRoot(place.Root)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = root.Close() }() // a folder that was read
	f, err := root.OpenFile(relative(place.Path), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", from)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// put sends once; again says whether another attempt may help.
func (p *program) put(ctx context.Context, to string, body io.Reader, size int64, digest string) (again bool, err error) {
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
		return res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests, fmt.Errorf("server answered %s", res.Status)
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
