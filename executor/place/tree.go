package place

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"cantina/image/archive"
)

// Pack writes a file or a directory as a tar stream; the names begin with the base name of the
// place's path. No link leads out of the root.
func Pack(ctx context.Context, p Place, w io.Writer) error {
	root, err := os.OpenRoot(p.Root)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // a directory that was read
	t, rel := tar.NewWriter(w), relative(p.Path)
	base := path.Base(rel)
	err = fs.WalkDir(root.FS(), rel, func(at string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		return packOne(t, root, at, path.Join(base, strings.TrimPrefix(strings.TrimPrefix(at, rel), "/")), d)
	})
	if err != nil {
		return err
	}
	return t.Close()
}

func packOne(t *tar.Writer, root *os.Root, at, name string, d fs.DirEntry) error {
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
	defer func() { _ = f.Close() }() // read only
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	// A file that grows meanwhile is cut, one that shrinks is an error.
	_, err = io.CopyN(t, f, h.Size)
	return err
}

// UnpackStream unpacks a tar stream into the place, a directory that is created if it is missing.
// The files belong to the place's owner.
func UnpackStream(ctx context.Context, p Place, r io.Reader) error {
	root, err := os.OpenRoot(p.Root)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // a directory that was read
	if err := makeDirs(root, p, p.Path); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	to, err := root.OpenRoot(relative(p.Path))
	if err != nil {
		return err
	}
	defer func() { _ = to.Close() }() // a directory
	return archive.UnpackTar(ctx, r, to, archive.Options{Owned: p.Owned, Uid: p.Uid, Gid: p.Gid})
}
