package spawn

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// source is something a loop watches. ready runs on the loop's goroutine.
type source interface{ ready(buf []byte) }

// loop waits for many descriptors with one goroutine and no blocked thread: its
// epoll descriptor itself is watched by the Go runtime.
type loop struct {
	fd   int
	file *os.File

	mu      sync.Mutex
	next    uint64
	sources map[uint64]source
}

func newLoop() (*loop, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make epoll: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("make epoll: %w", err)
	}
	return &loop{fd: fd, file: os.NewFile(uintptr(fd), "epoll"), sources: map[uint64]source{}}, nil
}

// add watches fd until remove.
func (l *loop) add(fd int, s source) (uint64, error) {
	l.mu.Lock()
	l.next++
	id := l.next
	l.sources[id] = s
	l.mu.Unlock()
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(id), Pad: int32(id >> 32)}
	if err := unix.EpollCtl(l.fd, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		l.forget(id)
		return 0, fmt.Errorf("watch descriptor: %w", err)
	}
	return id, nil
}

func (l *loop) forget(id uint64) {
	l.mu.Lock()
	delete(l.sources, id)
	l.mu.Unlock()
}

// remove must come before fd is closed: a child between fork and exec holds a
// copy, which would keep the watch alive.
func (l *loop) remove(fd int, id uint64) {
	unix.EpollCtl(l.fd, unix.EPOLL_CTL_DEL, fd, nil)
	l.forget(id)
}

// run serves until ctx is done.
func (l *loop) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { l.file.Close() })
	defer stop()
	conn, err := l.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("watch processes: %w", err)
	}
	events := make([]unix.EpollEvent, 256)
	buf := make([]byte, 256<<10)
	for {
		n := 0
		err := conn.Read(func(fd uintptr) bool {
			n, err = unix.EpollWait(int(fd), events, 0)
			return n > 0 || err != nil && err != syscall.EINTR
		})
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("watch processes: %w", err)
		}
		for _, ev := range events[:max(n, 0)] {
			l.dispatch(uint64(uint32(ev.Fd))|uint64(uint32(ev.Pad))<<32, buf)
		}
	}
}

func (l *loop) dispatch(id uint64, buf []byte) {
	l.mu.Lock()
	s := l.sources[id]
	l.mu.Unlock()
	if s != nil {
		s.ready(buf)
	}
}
