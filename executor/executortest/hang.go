// Package executortest makes a machine misbehave, for tests of the executor and of
// whole cells. Only tests use it.
package executortest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Numbers of the FUSE protocol (Linux, include/uapi/linux/fuse.h).
const (
	fuseLookup  = 1
	fuseGetattr = 3
	fuseInit    = 26
	fuseInHead  = 40 // bytes of a request before its own part
	fuseOutHead = 16
)

// HungMount is a file system whose server takes the first look-up of a name and
// never answers: whoever looked hangs in the kernel and heeds not even KILL.
type HungMount struct {
	// Dir is where it is mounted.
	Dir string
	// Hung is closed when a process hangs in it.
	Hung <-chan struct{}

	served   chan struct{}
	conn     *os.File
	released bool
}

// Hang mounts one at dir. It returns the error of a machine without FUSE, or of a
// user who may not mount. Release it.
func Hang(dir string) (*HungMount, error) {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open FUSE: %w", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd)
	if err := unix.Mount("cantina-test", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return nil, errors.Join(fmt.Errorf("mount FUSE at %s: %w", dir, err), unix.Close(fd))
	}
	hung := make(chan struct{})
	h := &HungMount{Dir: dir, Hung: hung, served: make(chan struct{}), conn: os.NewFile(uintptr(fd), "/dev/fuse")}
	go func() {
		defer close(h.served)
		if serve(fd) {
			close(hung)
		}
	}()
	return h, nil
}

// Release lets go who hangs, with an error, and removes the mount. A second call
// does nothing.
func (h *HungMount) Release() error {
	if h.released {
		return nil
	}
	h.released = true
	err := unix.Unmount(h.Dir, unix.MNT_DETACH)
	<-h.served // by a look-up; without one the unmount ended it
	return errors.Join(err, h.conn.Close())
}

// serve answers what comes before a look-up, and reports whether one came.
func serve(fd int) bool {
	buf := make([]byte, 1<<17)
	for {
		n, err := unix.Read(fd, buf)
		switch {
		case err == unix.EINTR:
		case err != nil || n < fuseInHead:
			return false
		case binary.NativeEndian.Uint32(buf[4:]) == fuseLookup:
			return true
		default:
			if answer(fd, buf) != nil {
				return false
			}
		}
	}
}

// answer answers a request to begin or about the top folder; others are not known.
func answer(fd int, request []byte) error {
	var body []byte
	switch binary.NativeEndian.Uint32(request[4:]) {
	case fuseInit:
		body = make([]byte, 64)
		binary.NativeEndian.PutUint32(body[0:], 7)
		binary.NativeEndian.PutUint32(body[4:], 31)
		binary.NativeEndian.PutUint32(body[20:], 4096) // the largest write
	case fuseGetattr:
		body = make([]byte, 16+88)
		binary.NativeEndian.PutUint64(body[0:], 1<<32-1)     // seconds that this holds
		binary.NativeEndian.PutUint64(body[16:], 1)          // the number of the top folder
		binary.NativeEndian.PutUint32(body[16+60:], 0o40755) // its mode
		binary.NativeEndian.PutUint32(body[16+64:], 2)       // links
	}
	head := make([]byte, fuseOutHead, fuseOutHead+len(body))
	binary.NativeEndian.PutUint32(head[0:], uint32(fuseOutHead+len(body)))
	if body == nil {
		unknown := -int32(unix.ENOSYS)
		binary.NativeEndian.PutUint32(head[4:], uint32(unknown))
	}
	copy(head[8:], request[8:16]) // the request's number
	_, err := unix.Write(fd, append(head, body...))
	return err
}
