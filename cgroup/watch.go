package cgroup

import (
	"context"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Watcher reports when the events file of a group has been modified. One descriptor serves any
// number of groups.
type Watcher struct {
	fd   int
	file *os.File

	mu      sync.Mutex
	waiting map[int32]chan struct{}
}

// NewWatcher returns a watcher; call Run.
func NewWatcher() (*Watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch groups: %w", err)
	}
	return &Watcher{fd: fd, file: os.NewFile(uintptr(fd), "inotify"), waiting: map[int32]chan struct{}{}}, nil
}

// Run serves until ctx is done.
func (w *Watcher) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { w.file.Close() })
	defer stop()
	buf := make([]byte, 16<<10)
	for {
		n, err := w.file.Read(buf)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("watch groups: %w", err)
		}
		for off := 0; off+unix.SizeofInotifyEvent <= n; {
			ev := (*unix.InotifyEvent)(unsafe.Pointer(&buf[off]))
			w.report(ev.Wd)
			off += unix.SizeofInotifyEvent + int(ev.Len)
		}
	}
}

func (w *Watcher) report(wd int32) {
	w.mu.Lock()
	c := w.waiting[wd]
	w.mu.Unlock()
	if c != nil {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Watch returns a channel that holds one item after each modification of the
// events file, and a function that ends it. The channel is nil where the group is gone.
func (w *Watcher) Watch(g *Group) (<-chan struct{}, func()) {
	return w.WatchPath(g.Events(), unix.IN_MODIFY)
}

// WatchPath is Watch for any file or directory and the given inotify events.
func (w *Watcher) WatchPath(path string, events uint32) (<-chan struct{}, func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wd, err := unix.InotifyAddWatch(w.fd, path, events)
	if err != nil {
		return nil, func() {}
	}
	c := make(chan struct{}, 1)
	w.waiting[int32(wd)] = c
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.waiting, int32(wd))
		unix.InotifyRmWatch(w.fd, uint32(wd))
	}
}
