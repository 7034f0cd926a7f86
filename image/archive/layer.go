package archive

import (
	"archive/tar"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// The names that mean "removed" in a layer. (OCI image specification, Whiteouts.)
const (
	whiteoutPrefix = ".wh."
	whiteoutOpaque = ".wh..wh..opq"
	whiteoutMeta   = ".wh..wh." // other bookkeeping of old tools: ignored
)

// paxXattr is how tar files carry extended attributes.
const paxXattr = "SCHILY.xattr."

// whiteout converts the whiteouts of a layer to those of overlayfs: a device 0:0 in place of a
// removed file, an attribute on a directory whose lower content is hidden.
func (u *unpacker) whiteout(name string) (done bool, err error) {
	dir, base := path.Split(name)
	if !strings.HasPrefix(base, whiteoutPrefix) {
		return false, nil
	}
	dir = path.Clean(dir)
	if base == whiteoutOpaque {
		if err := u.parents(dir); err != nil {
			return true, err
		}
		return true, u.onFile(dir, func(f *os.File) error {
			return unix.Fsetxattr(int(f.Fd()), "trusted.overlay.opaque", []byte("y"), 0)
		})
	}
	if strings.HasPrefix(base, whiteoutMeta) {
		return true, nil
	}
	gone := path.Join(dir, strings.TrimPrefix(base, whiteoutPrefix))
	if err := u.clear(gone); err != nil {
		return true, err
	}
	return true, u.mknod(gone, unix.S_IFCHR, 0)
}

// onFile opens name, which is no link, and hands it to f.
func (u *unpacker) onFile(name string, f func(*os.File) error) error {
	file, err := u.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f(file), file.Close())
}

func (u *unpacker) mknod(name string, mode uint32, dev uint64) error {
	return u.onFile(path.Dir(name), func(dir *os.File) error {
		if err := unix.Mknodat(int(dir.Fd()), path.Base(name), mode, int(dev)); err != nil {
			return &fs.PathError{Op: "mknod", Path: name, Err: err}
		}
		return nil
	})
}

func (u *unpacker) device(name string, h *tar.Header) error {
	if err := u.clear(name); err != nil {
		return err
	}
	kind := map[byte]uint32{tar.TypeChar: unix.S_IFCHR, tar.TypeBlock: unix.S_IFBLK,
		tar.TypeFifo: unix.S_IFIFO}[h.Typeflag]
	if err := u.mknod(name, kind|0o600, unix.Mkdev(uint32(h.Devmajor), uint32(h.Devminor))); err != nil {
		return err
	}
	return u.root.Chmod(name, u.mode(h.FileInfo().Mode()))
}

// attributes sets the extended attributes of files and directories, such as
// capabilities. Those of overlayfs itself are left out: a layer must not forge
// them. A file system without attributes is no error.
func (u *unpacker) attributes(name string, mode fs.FileMode, h *tar.Header) error {
	if !mode.IsRegular() && !mode.IsDir() {
		return nil
	}
	for key, value := range h.PAXRecords {
		attr, ok := strings.CutPrefix(key, paxXattr)
		if !ok || strings.HasPrefix(attr, "trusted.") || strings.HasPrefix(attr, "user.overlay.") {
			continue
		}
		err := u.onFile(name, func(f *os.File) error { return unix.Fsetxattr(int(f.Fd()), attr, []byte(value), 0) })
		if err != nil && !errors.Is(err, unix.ENOTSUP) {
			return err
		}
	}
	return nil
}
