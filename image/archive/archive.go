// Package archive unpacks tar, gzipped tar and zip files into a directory and never changes
// anything outside it: names are taken relative to the directory, links that lead out of it are
// not followed, sizes are limited.
//
// The step interpreter uses it for downloads, the image store for the layers of OCI images
// (Options.Layer), and the executor for copying into a container.
package archive

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"strings"
	"time"

	"cantina/internal/run"
)

// Errors of this package; those of the file system and of damaged archives are wrapped.
var (
	// ErrFormat: the file is neither tar, gzipped tar nor zip.
	ErrFormat = errors.New("not a tar, tgz or zip archive")
	// ErrTooLarge: the archive holds more bytes or entries than allowed.
	ErrTooLarge = errors.New("archive too large when unpacked")
	// ErrEntry: an entry of a kind that is not allowed, or with an impossible name.
	ErrEntry = errors.New("bad archive entry")

	errDirectory   = errors.New("exists and is a directory")
	errNoDirectory = errors.New("exists and is not a directory")
)

// Options are the options of Unpack.
type Options struct {
	// Owned gives every entry to Uid and Gid; without it the entries belong to the calling user, or
	// with Layer to the owner in the archive.
	Owned    bool
	Uid, Gid int
	// MaxBytes bounds the unpacked size; 0 = 16 GiB. Each entry, and each directory that is
	// made for one, counts as a block at least.
	MaxBytes int64
	// MaxEntries bounds the number of entries; 0 = 1,000,000.
	MaxEntries int
	// Layer unpacks a layer of an OCI image: owners, set-user-ID bits, devices and
	// extended attributes are kept, and whiteouts become those of overlayfs. Needs root.
	Layer bool
	// Merge keeps existing directories: their modes, and their place. An entry that would replace one
	// by a file, or a file by one, is an error.
	Merge bool
	// Rename returns the name for an entry, which is relative and clean, or false: then it is an error.
	// nil = its own. The entries are one file or directory, so no link is followed on the way.
	Rename func(string) (string, bool)
}

// block is the least that a file or a directory takes on the disk, in bytes.
const block = 4096

// unpacker is one archive on its way into a directory.
type unpacker struct {
	ctx     context.Context // of the one call that unpacks
	root    *os.Root
	o       Options
	bytes   int64
	entries int
	dirs    []dir  // times and modes of directories are set last
	real    string // a directory that no link leads to
}

type dir struct {
	name string
	mode fs.FileMode
	time time.Time
}

// Unpack unpacks the archive f, whose format it recognises by its first bytes, into the directory
// dir. Files unpacked before an error or the end of ctx stay.
func Unpack(ctx context.Context, f *os.File, dir *os.Root, o Options) error {
	head := make([]byte, 512)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return fmt.Errorf("unpack: %w", err)
	}
	head = head[:n]
	switch {
	case bytes.HasPrefix(head, []byte("PK\x03\x04")), bytes.HasPrefix(head, []byte("PK\x05\x06")):
		return unpackZip(ctx, f, dir, o)
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}), n == 512 && string(head[257:262]) == "ustar":
		return UnpackTar(ctx, io.NewSectionReader(f, 0, 1<<62), dir, o)
	case n == 512 && bytes.Equal(head, make([]byte, 512)):
		return nil // an empty tar
	}
	return fmt.Errorf("unpack: %w", ErrFormat)
}

// UnpackTar unpacks a tar stream, gzipped or not, into the directory dir.
func UnpackTar(ctx context.Context, r io.Reader, dir *os.Root, o Options) error {
	b := bufio.NewReaderSize(r, 64<<10)
	if head, err := b.Peek(2); err == nil && head[0] == 0x1f && head[1] == 0x8b {
		z, err := gzip.NewReader(b)
		if err != nil {
			return fmt.Errorf("unpack gzip: %w", err)
		}
		b = bufio.NewReaderSize(z, 64<<10)
	}
	u := newUnpacker(ctx, dir, o)
	t := tar.NewReader(b)
	for {
		h, err := t.Next()
		if err == io.EOF {
			return u.finish()
		}
		if err != nil {
			return fmt.Errorf("unpack tar: %w", err)
		}
		if err := u.tarEntry(h, t); err != nil {
			return fmt.Errorf("unpack %s: %w", h.Name, err)
		}
	}
}

func unpackZip(ctx context.Context, f *os.File, dir *os.Root, o Options) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("unpack zip: %w", err)
	}
	z, err := zip.NewReader(f, info.Size())
	if err != nil {
		return fmt.Errorf("unpack zip: %w", err)
	}
	u := newUnpacker(ctx, dir, o)
	for _, e := range z.File {
		if err := u.zipEntry(e); err != nil {
			return fmt.Errorf("unpack %s: %w", e.Name, err)
		}
	}
	return u.finish()
}

func newUnpacker(ctx context.Context, dir *os.Root, o Options) *unpacker {
	if o.MaxBytes <= 0 {
		o.MaxBytes = 16 << 30
	}
	if o.MaxEntries <= 0 {
		o.MaxEntries = 1_000_000
	}
	return &unpacker{ctx: ctx, root: dir, o: o}
}

// clean makes an entry's name relative to the directory; "" is the directory itself.
func (u *unpacker) clean(name string) (string, error) {
	if u.entries++; u.entries > u.o.MaxEntries {
		return "", ErrTooLarge
	}
	if err := u.ctx.Err(); err != nil {
		return "", err
	}
	if strings.ContainsRune(name, 0) {
		return "", ErrEntry
	}
	if name = strings.TrimPrefix(path.Clean("/"+name), "/"); name == "" {
		return "", nil
	}
	name, err := u.rename(name)
	return name, errors.Join(err, u.charge())
}

func (u *unpacker) rename(name string) (string, error) {
	if u.o.Rename == nil {
		return name, nil
	}
	as, ok := u.o.Rename(name)
	if !ok {
		return "", fmt.Errorf("%w: outside the copied file or directory", ErrEntry)
	}
	return as, nil
}

// charge counts a block.
func (u *unpacker) charge() error {
	if u.bytes += block; u.bytes > u.o.MaxBytes {
		return ErrTooLarge
	}
	return nil
}

func (u *unpacker) tarEntry(h *tar.Header, content io.Reader) error {
	name, err := u.clean(h.Name)
	if err != nil || name == "" && h.Typeflag != tar.TypeDir {
		return err
	}
	if u.o.Layer {
		if done, err := u.whiteout(name); done || err != nil {
			return err
		}
	}
	mode := h.FileInfo().Mode()
	switch h.Typeflag {
	case tar.TypeDir:
		err = u.dir(name, mode, h.ModTime)
	case tar.TypeReg:
		err = u.file(name, mode, h.ModTime, content)
	case tar.TypeSymlink:
		err = u.symlink(name, h.Linkname)
	case tar.TypeLink:
		return u.hardlink(name, h.Linkname)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		if !u.o.Layer {
			return fmt.Errorf("%w: device", ErrEntry)
		}
		err = u.device(name, h)
	case tar.TypeXGlobalHeader:
		return nil
	default:
		return fmt.Errorf("%w: type %q", ErrEntry, h.Typeflag)
	}
	if err != nil {
		return err
	}
	return u.own(name, mode, h)
}

func (u *unpacker) zipEntry(e *zip.File) error {
	name, err := u.clean(e.Name)
	if err != nil || name == "" {
		return err
	}
	mode := e.Mode()
	if mode.IsDir() {
		if err := u.dir(name, mode, e.Modified); err != nil {
			return err
		}
		return u.own(name, mode, nil)
	}
	r, err := e.Open()
	if err != nil {
		return err
	}
	switch {
	case mode&fs.ModeSymlink != 0:
		var target []byte
		if target, err = io.ReadAll(io.LimitReader(r, 4096)); err == nil {
			err = u.symlink(name, string(target))
		}
	case mode.IsRegular():
		err = u.file(name, mode, e.Modified, r)
	default:
		err = fmt.Errorf("%w: %v", ErrEntry, mode)
	}
	if err = errors.Join(err, r.Close()); err != nil {
		return err
	}
	return u.own(name, mode, nil)
}

// make room for an entry: its directory exists, and nothing but a directory is in its place.
func (u *unpacker) clear(name string) error {
	if dir := path.Dir(name); dir != "." {
		if err := u.parents(dir); err != nil {
			return err
		}
	}
	if info, err := u.root.Lstat(name); err == nil {
		if info.IsDir() {
			if u.o.Merge {
				return errDirectory
			}
			return u.root.RemoveAll(name)
		}
		return u.root.Remove(name)
	}
	return nil
}

// parents makes missing directories, with the owner of the rest.
func (u *unpacker) parents(dir string) error {
	stat := u.root.Stat
	if u.o.Rename != nil {
		if dir == u.real {
			return nil
		}
		stat = u.root.Lstat
	}
	info, err := stat(dir)
	there := err == nil && info.IsDir()
	if there && u.o.Rename == nil {
		return nil
	}
	if up := path.Dir(dir); up != "." {
		if err := u.parents(up); err != nil {
			return err
		}
	}
	if there {
		u.real = dir
		return nil
	}
	if err := u.charge(); err != nil {
		return err
	}
	if err := u.root.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return u.own(dir, fs.ModeDir|0o755, nil)
}

func (u *unpacker) dir(name string, mode fs.FileMode, at time.Time) error {
	if name != "" {
		info, err := u.root.Lstat(name)
		switch {
		case err == nil && u.o.Merge && info.IsDir():
			return nil
		case err == nil && u.o.Merge:
			return errNoDirectory
		case err != nil || !info.IsDir():
			if err := u.clear(name); err != nil {
				return err
			}
			if err := u.root.Mkdir(name, 0o700); err != nil {
				return err
			}
		}
		u.dirs = append(u.dirs, dir{name, u.mode(mode), at})
	} else if u.o.Layer {
		u.dirs = append(u.dirs, dir{".", u.mode(mode), at})
	}
	return nil
}

func (u *unpacker) mode(m fs.FileMode) fs.FileMode {
	if u.o.Layer {
		return m & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
	}
	return m & fs.ModePerm
}

func (u *unpacker) file(name string, mode fs.FileMode, at time.Time, content io.Reader) error {
	if err := u.clear(name); err != nil {
		return err
	}
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, run.Reader(u.ctx, io.LimitReader(content, u.o.MaxBytes-u.bytes+block+1)))
	if u.bytes += max(n-block, 0); err == nil && u.bytes > u.o.MaxBytes { // clean has counted the first block
		err = ErrTooLarge
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := u.root.Chmod(name, u.mode(mode)); err != nil {
		return err
	}
	return u.root.Chtimes(name, at, at)
}

func (u *unpacker) symlink(name, target string) error {
	if err := u.clear(name); err != nil {
		return err
	}
	return u.root.Symlink(target, name)
}

func (u *unpacker) hardlink(name, target string) error {
	target, err := u.rename(strings.TrimPrefix(path.Clean("/"+target), "/"))
	if target == name || err != nil {
		return err
	}
	if err := u.clear(name); err != nil {
		return err
	}
	return u.root.Link(target, name)
}

// isID reports whether a user or a group can have this number: to the kernel the last one
// means "as it is", which here is root.
func isID(n int) bool { return n >= 0 && n < math.MaxUint32 }

// own gives an entry its owner; changing it clears set-user-ID bits, so those are set again.
func (u *unpacker) own(name string, mode fs.FileMode, h *tar.Header) error {
	uid, gid := u.o.Uid, u.o.Gid
	switch {
	case u.o.Owned:
	case u.o.Layer && h != nil:
		if uid, gid = h.Uid, h.Gid; !isID(uid) || !isID(gid) {
			return fmt.Errorf("%w: %s belongs to %d:%d, and there is no such user or group", ErrEntry, name, uid, gid)
		}
	default:
		return nil
	}
	if name == "" {
		if !u.o.Layer {
			return nil
		}
		name = "."
	}
	if err := u.root.Lchown(name, uid, gid); err != nil {
		return err
	}
	if !u.o.Layer || h == nil {
		return nil
	}
	if mode.IsRegular() && mode&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
		if err := u.root.Chmod(name, u.mode(mode)); err != nil {
			return err
		}
	}
	return u.attributes(name, mode, h)
}

// finish sets attributes that must be set after the directories were filled, deepest first.
func (u *unpacker) finish() error {
	for i := len(u.dirs) - 1; i >= 0; i-- {
		f := u.dirs[i]
		info, err := u.root.Lstat(f.name)
		if err != nil || !info.IsDir() {
			continue // replaced by a later entry
		}
		if err := u.root.Chmod(f.name, f.mode); err != nil {
			return err
		}
		if err := u.root.Chtimes(f.name, f.time, f.time); err != nil {
			return err
		}
	}
	return nil
}
