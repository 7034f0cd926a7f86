package place

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"cantina/image/archive"
)

// Tree is a file or a directory of a container that is copied, as a tar stream.
type Tree struct {
	// Root is the directory that this process takes for its root, permanently; empty = it keeps its
	// own. Path is absolute, within it. Owned: this process becomes the owner.
	Place
	// Name is that of the copied file or directory in the stream; see Unpack.
	Name string
}

// Enter has this process see what the container sees, with the rights of its user, permanently. So
// the kernel resolves every path, and none leads out of the container or to more than the user may
// access. It is for processes that do nothing else.
func (t *Tree) Enter() error {
	if t.Root != "" {
		if err := errors.Join(syscall.Chroot(t.Root), syscall.Chdir("/")); err != nil {
			return fmt.Errorf("enter the root of the container: %w", err)
		}
	}
	return t.become(t.Owned)
}

// Pack writes a file or a directory as a tar stream; the names begin with BaseOf(name). A link is
// followed if it is name itself. Links in a directory are copied as links; pipes, sockets
// and devices are not copied.
func Pack(ctx context.Context, name string, w io.Writer) error {
	top, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	t, base := tar.NewWriter(w), cmp.Or(BaseOf(name), ".")
	err = filepath.WalkDir(top, func(at string, d fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		return packOne(t, at, base+strings.TrimSuffix("/"+strings.TrimPrefix(at[len(top):], "/"), "/"), d.Type())
	})
	if err != nil {
		return err
	}
	return t.Close()
}

// BaseOf is the first component of the names in the stream of Pack. It is empty for the content of a
// directory: the root, or one whose name ends with "/.".
func BaseOf(name string) string {
	if name == "." || strings.HasSuffix(name, "/.") || filepath.Clean(name) == "/" {
		return ""
	}
	return filepath.Base(name)
}

func packOne(t *tar.Writer, at, name string, kind fs.FileMode) error {
	switch {
	case kind.IsDir(), kind&fs.ModeSymlink != 0:
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		link := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			if link, err = os.Readlink(at); err != nil {
				return err
			}
		}
		return writeHeader(t, info, name, link)
	case !kind.IsRegular():
		return nil
	}
	// It may have become something else meanwhile.
	f, size, err := openRegular(at)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	info, err := f.Stat()
	if err == nil {
		err = writeHeader(t, info, name, "")
	}
	if err != nil {
		return err
	}
	// A file that grows meanwhile is cut.
	if n, err := io.Copy(t, io.LimitReader(f, size)); err != nil || n < size {
		return fmt.Errorf("%s: %w", at, cmp.Or(err, errShrunk))
	}
	return nil
}

// errShrunk reports a file that became shorter while it was copied.
var errShrunk = errors.New("file became shorter during the copy")

func openRegular(name string) (*os.File, int64, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	return regular(f, err, name)
}

func writeHeader(t *tar.Writer, info fs.FileInfo, name, link string) error {
	h, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	h.Name, h.Uname, h.Gname, h.Uid, h.Gid = name, "", "", 0, 0
	if info.IsDir() {
		h.Name += "/"
	}
	return t.WriteHeader(h)
}

// mostEntries bounds how many files one copy may create: a directory costs memory until the end.
const mostEntries = 10_000_000

// Unpack unpacks a tar stream of a file or directory that is called name in it. If to is a
// directory, it is put there. Otherwise it becomes to, in a directory that must exist. With an empty
// name, to is a directory for the whole stream, and is made if it does not exist. Nothing outside is
// changed, and no directory replaced by a file; most limits the size in bytes, 0 = none.
func Unpack(ctx context.Context, r io.Reader, to, name string, most int64) error {
	o := archive.Options{MaxBytes: cmp.Or(most, 1<<60), MaxEntries: mostEntries, Merge: true}
	clean := filepath.Clean(to)
	if top, err := filepath.EvalSymlinks(clean); err == nil {
		clean = top
	}
	info, err := os.Stat(clean)
	as := name
	switch {
	case err == nil && info.IsDir():
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case err == nil && (name == "" || strings.HasSuffix(to, "/")):
		return &fs.PathError{Op: "copy to", Path: to, Err: syscall.ENOTDIR}
	case name == "":
		if err := os.Mkdir(clean, 0o755); err != nil {
			return err
		}
	case strings.HasSuffix(to, "/"):
		return err
	default:
		as, clean = filepath.Base(clean), filepath.Dir(clean)
	}
	if name != "" {
		o.Rename = func(n string) (string, bool) {
			first, rest, _ := strings.Cut(n, "/")
			return strings.TrimSuffix(as+"/"+rest, "/"), first == name
		}
	}
	dir, err := os.OpenRoot(clean)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // a directory
	return archive.UnpackTar(ctx, r, dir, o)
}
