// Package place puts downloaded files where a container needs them, and reads files for uploads.
// No link leads out of the directory of a place.
//
// The executor itself handles files within a container's own directory. Other files may be on a
// file system that does not respond: "cantina-reaper put" and "take" handle them, as processes of
// the container, so that only these can hang.
package place

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"cantina/image/archive"
	"cantina/internal/run"
)

// Place is a path of a container as seen from the machine.
type Place struct {
	Root string // a directory that must not be left
	Path string // within Root
	// Owned: files made there belong to Uid and Gid.
	Owned    bool
	Uid, Gid int
	Groups   []uint32 // that the owner is in too
	// Most limits the unpacked size there, in bytes; 0 = the limit of package archive.
	Most int64
}

// File is a file of the cell that is copied to a place, or from there.
type File struct {
	At     Place
	Path   string // of the cell's own
	Unpack bool   // it is an archive
	Into   string // name in the place, when that is a directory
	Dir    bool   // the place is a directory, whether it is there or not
	// Become: this process becomes the owner of the place, permanently, before it accesses the place.
	// It is for processes that do nothing else.
	Become bool
}

// become makes this process the owner of the place, if it is to be.
func (p *Place) become(it bool) error {
	if !it {
		return nil
	}
	groups := make([]int, len(p.Groups))
	for i, g := range p.Groups {
		groups[i] = int(g)
	}
	if err := errors.Join(syscall.Setgroups(groups), syscall.Setresgid(p.Gid, p.Gid, p.Gid),
		syscall.Setresuid(p.Uid, p.Uid, p.Uid)); err != nil {
		return fmt.Errorf("become uid %d: %w", p.Uid, err)
	}
	return nil
}

// Put unpacks the cell's file at the place, or copies it there, whole or not at all. A
// copy may be run: a downloaded program would be useless otherwise.
func Put(ctx context.Context, f File) error {
	in, err := os.Open(f.Path)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // read only
	if err := f.At.become(f.Become); err != nil {
		return err
	}
	if f.Become {
		f.At.narrow()
	}
	root, err := os.OpenRoot(f.At.Root)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // a directory that was read
	if f.Unpack {
		return unpack(ctx, in, root, f.At)
	}
	return install(ctx, in, root, f)
}

// narrow takes the deepest directory of the path that is there for the root: to get there the
// rights of this process are enough, while a guarded way needs that of reading each directory.
func (p *Place) narrow() {
	root, rest := path.Join(p.Root, p.Path), ""
	for root != p.Root && root != "/" {
		if info, err := os.Stat(root); err == nil && info.IsDir() {
			break
		}
		root, rest = path.Dir(root), path.Join(path.Base(root), rest)
	}
	p.Root, p.Path = root, rest
}

func unpack(ctx context.Context, in *os.File, root *os.Root, p Place) error {
	if err := makeDirs(root, p, p.Path); err != nil {
		return err
	}
	dir, err := root.OpenRoot(relative(p.Path))
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // a directory that was read
	return archive.Unpack(ctx, in, dir, archive.Options{Owned: p.Owned, Uid: p.Uid, Gid: p.Gid, MaxBytes: p.Most})
}

func install(ctx context.Context, in io.Reader, root *os.Root, f File) error {
	to := relative(f.At.Path)
	if info, err := root.Stat(to); err == nil && info.IsDir() || f.Dir {
		to = path.Join(to, f.Into)
	}
	if err := makeDirs(root, f.At, path.Dir(to)); err != nil {
		return err
	}
	tmp := path.Join(path.Dir(to), "."+path.Base(to)+".part")
	if err := root.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	out, err := root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, run.Reader(ctx, in))
	if err == nil && f.At.Owned {
		err = out.Chown(f.At.Uid, f.At.Gid)
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

// makeDirs creates the missing part of dir, with the place's owner.
func makeDirs(root *os.Root, p Place, dir string) error {
	dir = relative(dir)
	if info, err := root.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if up := path.Dir(dir); up != "." {
		if err := makeDirs(root, p, up); err != nil {
			return err
		}
	}
	if err := root.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if p.Owned {
		return root.Lchown(dir, p.Uid, p.Gid)
	}
	return nil
}

// Open opens the regular file at a place, and never one that would block or lead elsewhere. Name
// is the container's name for it.
func Open(p Place, name string) (*os.File, int64, error) {
	root, err := os.OpenRoot(p.Root)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = root.Close() }() // a directory that was read
	f, err := root.OpenFile(relative(p.Path), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	return regular(f, err, name)
}

// regular refuses all but regular files.
func regular(f *os.File, err error, name string) (*os.File, int64, error) {
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", name)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// Take copies the regular file at the place to the cell's file, which must not be there.
func Take(ctx context.Context, f File) error {
	out, err := os.OpenFile(f.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(take(ctx, f, out), out.Close()) // after an error the caller removes the file
}

func take(ctx context.Context, f File, out *os.File) error {
	if err := f.At.become(f.Become); err != nil {
		return err
	}
	open := func() (*os.File, int64, error) { return Open(f.At, f.Into) }
	if f.Become { // the kernel guards it: it has the rights of that user
		open = func() (*os.File, int64, error) {
			in, err := os.OpenFile(path.Join(f.At.Root, f.At.Path), os.O_RDONLY|syscall.O_NONBLOCK, 0)
			return regular(in, err, f.Into)
		}
	}
	in, _, err := open()
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // read only
	_, err = io.Copy(out, run.Reader(ctx, in))
	return err
}
