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
	fuseLookup    = 1
	fuseForget    = 2
	fuseGetattr   = 3
	fuseInit      = 26
	fuseInterrupt = 36
	fuseInHead    = 40 // bytes of a request before its own part
	fuseOutHead   = 16
)

// HungMount is a file system whose server receives look-ups of names and never answers: every
// access hangs in the kernel and ignores even KILL.
type HungMount struct {
	// Dir is where it is mounted.
	Dir string
	// Hung is closed when a process hangs in it.
	Hung <-chan struct{}

	served   chan struct{}
	conn     *os.File
	released bool
}

// Hang mounts one at dir. It returns the error of a machine without FUSE, or of a user who may not
// mount. Release it.
func Hang(dir string) (*HungMount, error) {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
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
		serve(h.conn, hung)
	}()
	return h, nil
}

// Release fails the hanging accesses, and removes the mount. A second call does nothing.
func (h *HungMount) Release() error {
	if h.released {
		return nil
	}
	h.released = true
	err := errors.Join(unix.Unmount(h.Dir, unix.MNT_DETACH), h.conn.Close())
	<-h.served
	return err
}

// serve answers all requests except look-ups, and closes hung at the first look-up, until the
// connection is closed.
func serve(conn *os.File, hung chan<- struct{}) {
	buf := make([]byte, 1<<17)
	for first := true; ; {
		n, err := conn.Read(buf)
		switch {
		case errors.Is(err, unix.ENOENT): // taken back before it was read
		case err != nil || n < fuseInHead:
			return
		case binary.NativeEndian.Uint32(buf[4:]) == fuseLookup:
			if first {
				first = false
				close(hung)
			}
		default:
			if answer(conn, buf) != nil {
				return
			}
		}
	}
}

// answer answers a request to begin or about the top directory; others are not known.
func answer(conn *os.File, request []byte) error {
	var body []byte
	switch binary.NativeEndian.Uint32(request[4:]) {
	case fuseForget, fuseInterrupt:
		return nil // no one waits for a response
	case fuseInit:
		body = make([]byte, 64)
		binary.NativeEndian.PutUint32(body[0:], 7)
		binary.NativeEndian.PutUint32(body[4:], 31)
		binary.NativeEndian.PutUint32(body[20:], 4096) // the largest write
	case fuseGetattr:
		body = make([]byte, 16+88)
		binary.NativeEndian.PutUint64(body[0:], 1<<32-1)     // seconds that this holds
		binary.NativeEndian.PutUint64(body[16:], 1)          // the number of the top directory
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
	_, err := conn.Write(append(head, body...))
	return err
}
