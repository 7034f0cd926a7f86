package spawn

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// starter is a thread that forks. It has its own descriptor table with few entries: a fork copies
// the table of its thread, and an exec walks through it, which with the descriptors of thousands
// of containers costs more than all other steps. It gets the child's ends of pipes through a
// socket.
//
// Threads that share the cell's table fork processes that need descriptors of the cell
// (Spec.Files, Spec.Enter, a program in memory).
type starter struct {
	in   chan *request
	near int  // the cell's end of the socket
	far  int  // the thread's end
	own  bool // the thread has its own table
}

func newStarter() (*starter, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make starter: %w", err)
	}
	return &starter{in: make(chan *request), near: fds[0], far: fds[1]}, nil
}

// suits reports whether a starter can fork it.
func (s *Spec) suits() bool {
	return !s.Gain && s.Files == nil && s.Stdin == 0 && s.Enter == nil && !s.inMemory()
}

// ask makes the starter fork. Child are the descriptors in r.files that are not null.
func (st *starter) ask(l *Launcher, r *request, child []int) error {
	if err := unix.Sendmsg(st.near, []byte{byte(len(child))}, rights(child), nil, 0); err != nil {
		l.idle <- st
		return fmt.Errorf("hand over descriptors: %w", err)
	}
	r.child = child
	r.spare, r.pool = l.addStarter, poolFast
	select {
	case st.in <- r:
		return l.await(r)
	case <-l.ended:
		return ErrClosed
	}
}

func rights(fds []int) []byte {
	if len(fds) == 0 {
		return nil
	}
	return unix.UnixRights(fds...)
}

// serve forks until done. The goroutine ends locked, and its thread with it.
func (st *starter) serve(done <-chan struct{}, l *Launcher) {
	err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	_ = st.ownTable(l) // it is tried again with each request
	for {
		select {
		case <-done:
			return
		case r := <-st.in:
			table := st.ownTable(l)
			got, rerr := st.receive(l, r)
			if r.err = errors.Join(err, table, rerr); r.err == nil {
				l.fork(r)
			}
			for _, fd := range got {
				unix.Close(fd)
			}
			lost, late := r.lost, r.late
			close(r.done)
			if late {
				return
			}
			if lost {
				err = errLost
			}
			l.idle <- st
		}
	}
}

// errLost reports a thread that did not get back from where it forked. It stays,
// because its end would be the death of its children, and forks no more.
var errLost = errors.New("the starting thread is lost")

// ownTable gives the thread its own table and empties it: a remaining copy would hold open all
// descriptors that the cell closes, and a process that waits for their end would wait forever. So
// it needs no new descriptor. The thread keeps those of the cell's descriptors that it uses, and
// those that the Go runtime uses to wake itself.
func (st *starter) ownTable(l *Launcher) error {
	if st.own {
		return nil
	}
	if err := unix.Unshare(unix.CLONE_FILES); err != nil {
		return fmt.Errorf("make a table of descriptors: %w", err)
	}
	keep := []int{0, 1, 2, st.far, int(l.null.Fd())}
	if l.tree != nil {
		keep = append(keep, l.tree.Descriptors()...)
	}
	for _, fd := range l.wakers {
		if isWaker(fd) {
			keep = append(keep, fd)
		}
	}
	if err := closeAllBut(keep); err != nil {
		return fmt.Errorf("empty the table of descriptors: %w", err)
	}
	st.own = true
	return nil
}

// closeAllBut closes every descriptor of the thread's table that is not in keep.
func closeAllBut(keep []int) error {
	slices.Sort(keep)
	from := 0
	for _, fd := range append(keep, math.MaxInt32) {
		if fd > from {
			err := unix.CloseRange(uint(from), uint(fd-1), 0)
			if err == unix.ENOSYS {
				return closeListed(keep)
			}
			if err != nil {
				return err
			}
		}
		from = max(from, fd+1)
	}
	return nil
}

// closeListed does it where the kernel, or a filter of its calls, knows of no ranges.
func closeListed(keep []int) error {
	open, err := descriptors()
	for _, fd := range open {
		if !slices.Contains(keep, fd) {
			unix.Close(fd)
		}
	}
	return err
}

// descriptors are those of the thread's table. The goroutine stays on its thread: the directory
// is gone when the thread that opened it has ended.
func descriptors() ([]int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	open, err := os.ReadDir("/proc/thread-self/fd")
	if err != nil {
		return nil, fmt.Errorf("read the table of descriptors: %w", err)
	}
	var out []int
	for _, d := range open {
		if fd, err := strconv.Atoi(d.Name()); err == nil {
			out = append(out, fd)
		}
	}
	return out, nil
}

// wakers are the descriptors that the Go runtime may use to wake itself, and similar ones. The
// runtime has made its own by the time the cell waits for one descriptor.
func wakers() ([]int, error) {
	open, err := descriptors()
	return slices.DeleteFunc(open, func(fd int) bool { return !isWaker(fd) }), err
}

// isWaker checks the present use of a descriptor, because another file may have its number. If
// that is unknown, it may be one.
func isWaker(fd int) bool {
	target, err := os.Readlink("/proc/thread-self/fd/" + strconv.Itoa(fd))
	return err == nil && strings.HasPrefix(target, "anon_inode:[event") || err != nil && !errors.Is(err, os.ErrNotExist)
}

// receive takes the descriptors of a request and puts them into its files.
func (st *starter) receive(l *Launcher, r *request) ([]int, error) {
	var b [1]byte
	oob := make([]byte, unix.CmsgSpace(4*4))
	n, oobn, _, _, err := unix.Recvmsg(st.far, b[:], oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil || n != 1 {
		return nil, fmt.Errorf("take over descriptors: %w", err)
	}
	var got []int
	if oobn > 0 {
		messages, err := unix.ParseSocketControlMessage(oob[:oobn])
		if err != nil {
			return nil, fmt.Errorf("take over descriptors: %w", err)
		}
		for i := range messages {
			fds, err := unix.ParseUnixRights(&messages[i])
			if err != nil {
				return got, fmt.Errorf("take over descriptors: %w", err)
			}
			got = append(got, fds...)
		}
	}
	if len(got) != len(r.child) {
		return got, errors.New("take over descriptors: some are missing")
	}
	for i, f := range r.files {
		r.files[i] = l.null.Fd()
		if j := slices.Index(r.child, int(f)); j >= 0 {
			r.files[i] = uintptr(got[j])
		}
	}
	return got, nil
}

func (st *starter) close() {
	unix.Close(st.near)
	unix.Close(st.far)
}
