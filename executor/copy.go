package executor

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"cantina/action"
	"cantina/executor/archive"
)

// ErrOutside reports a path that leads out of the container.
var ErrOutside = errors.New("path leads out of the container")

// CopyOut writes a file or a folder of a running container as a tar stream; the
// names begin with the base name of path. No link leads out of the container: its
// folder, or its whole root where it has one.
func (e *Executor) CopyOut(ctx context.Context, id, name string, w io.Writer) error {
	root, rel, _, err := e.openRoot(id, name)
	if err != nil {
		return fmt.Errorf("copy from %s: %w", id, err)
	}
	defer root.Close()
	t := tar.NewWriter(w)
	base := path.Base(rel)
	if rel == "." {
		base = "."
	}
	err = fs.WalkDir(root.FS(), rel, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return copyOne(t, root, at, path.Join(base, strings.TrimPrefix(strings.TrimPrefix(at, rel), "/")), d)
	})
	if err == nil {
		err = t.Close()
	}
	if err != nil {
		return fmt.Errorf("copy %s from %s: %w", name, id, err)
	}
	return nil
}

func copyOne(t *tar.Writer, root *os.Root, at, name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	link := ""
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		if link, err = root.Readlink(at); err != nil {
			return err
		}
	case !mode.IsRegular() && !mode.IsDir():
		return nil // pipes, sockets and devices are not copied
	}
	h, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	h.Name, h.Uname, h.Gname = name, "", ""
	if info.IsDir() {
		h.Name += "/"
	}
	if !info.Mode().IsRegular() {
		return t.WriteHeader(h)
	}
	f, err := root.Open(at)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	// A file that grows meanwhile is cut, one that shrinks is an error.
	_, err = io.CopyN(t, f, h.Size)
	return err
}

// CopyIn unpacks a tar stream into a folder of a running container, which it
// makes when it is not there. What it makes belongs to the container's user.
func (e *Executor) CopyIn(ctx context.Context, id, name string, r io.Reader) error {
	root, rel, cred, err := e.openRoot(id, name)
	if err != nil {
		return fmt.Errorf("copy to %s: %w", id, err)
	}
	defer root.Close()
	if err := makeFolders(root, rel, cred); err != nil {
		return fmt.Errorf("copy %s to %s: %w", name, id, err)
	}
	to, err := root.OpenRoot(rel)
	if err != nil {
		return fmt.Errorf("copy %s to %s: %w", name, id, err)
	}
	defer to.Close()
	o := archive.Options{Owned: cred != nil}
	if cred != nil {
		o.Uid, o.Gid = int(cred.Uid), int(cred.Gid)
	}
	if err := archive.UnpackTar(ctx, r, to, o); err != nil {
		return fmt.Errorf("copy %s to %s: %w", name, id, err)
	}
	return nil
}

// makeFolders makes a folder and those above it; what it makes belongs to cred, nil
// = the cell itself.
func makeFolders(root *os.Root, rel string, cred *syscall.Credential) error {
	if rel == "." {
		return nil
	}
	if info, err := root.Stat(rel); err == nil && info.IsDir() {
		return nil
	}
	if err := makeFolders(root, path.Dir(rel), cred); err != nil {
		return err
	}
	err := root.Mkdir(rel, 0o755)
	if err == nil && cred != nil {
		err = root.Lchown(rel, int(cred.Uid), int(cred.Gid))
	}
	return err
}

// openRoot opens what of a container may be copied from and to, and makes the
// path relative to it.
func (e *Executor) openRoot(id, name string) (*os.Root, string, *syscall.Credential, error) {
	c, pid, err := e.target(id)
	if err != nil {
		return nil, "", nil, err
	}
	top, inside := c.folder, c.folder
	if c.view != nil {
		top, inside = "/proc/"+strconv.Itoa(pid)+"/root", "/"
	}
	if !path.IsAbs(name) {
		name = path.Join(c.insideFolder(), name)
	}
	rel, err := filepath.Rel(inside, path.Clean(name))
	if err != nil || !filepath.IsLocal(rel) {
		return nil, "", nil, fmt.Errorf("%s: %w", name, ErrOutside)
	}
	var cred *syscall.Credential
	if user := c.user(&action.Run{}); user != "" {
		if cred, err = c.credential(user); err != nil {
			return nil, "", nil, err
		}
	}
	root, err := os.OpenRoot(top)
	return root, rel, cred, err
}
