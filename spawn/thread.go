package spawn

import (
	"errors"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// pool is the threads of one kind. There are always as many as are wanted that do not
// hang, so that all of them are never more than those and the ones that hang at a time.
type pool struct{ want, free int }

// The kinds of threads.
const (
	poolFast = iota
	poolBound
	poolPlain
)

const (
	// maxStarts bounds how many starts have the child's ends of their pipes open: a
	// burst of thousands waits without them, or it would need five descriptors for each
	// container instead of three.
	maxStarts = 64
	// hangsAfter is how long a child may take to get to its program before its thread
	// counts as one that hangs, and another takes its place.
	hangsAfter = 100 * time.Millisecond
	// maxHangs bounds how many threads are added so.
	maxHangs = 256
)

// OffMain runs f on a thread that belongs to the caller's goroutine until that ends, and is not
// the main one. /proc/self shows the descriptors, root and namespaces of the main thread to the
// whole process, so a thread that leaves them must be another.
func OffMain(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		OffMain(f) // this thread waits: it gets another
	}()
	<-done
	runtime.UnlockOSThread()
}

// thread runs a thread that Run waits for. The launcher is locked.
func (l *Launcher) thread(serve func()) {
	l.works++
	go func() {
		OffMain(serve)
		l.mu.Lock()
		l.works--
		l.free.Broadcast()
		l.mu.Unlock()
	}()
}

// addStarter adds a thread in the place of one that hangs. The launcher is locked.
func (l *Launcher) addStarter() error {
	st, err := newStarter()
	if err != nil {
		return err
	}
	l.fast = append(l.fast, st)
	l.thread(func() { st.serve(l.done, l) })
	l.idle <- st
	return nil
}

// serve forks on one thread. The goroutine ends locked, and its thread with it.
func (l *Launcher) serve(done <-chan struct{}, in chan *request, restricted bool) {
	var broken error
	if restricted {
		broken = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	}
	for {
		select {
		case <-done:
			return
		case r := <-in:
			if r.err = broken; broken == nil {
				l.fork(r)
			}
			lost := r.lost
			close(r.done)
			if lost {
				// This thread is where it must not fork again; it stays, because
				// its end would be the death of its children.
				<-done
				return
			}
		}
	}
}

// ask makes a thread fork.
func (l *Launcher) ask(r *request, child []int) error {
	if r.spec.suits() {
		select {
		case st := <-l.idle:
			return st.ask(l, r, child)
		case <-l.ended:
			return ErrClosed
		}
	}
	in, restricted := l.bound, true
	if r.pool = poolBound; r.spec.Gain {
		in, restricted, r.pool = l.plain, false, poolPlain
	}
	r.spare = func() error {
		l.thread(func() { l.serve(l.done, in, restricted) })
		return nil
	}
	select {
	case in <- r:
		return l.await(r)
	case <-l.ended:
		return ErrClosed
	}
}

// errHangs reports that a child does not get to its program.
var errHangs = errors.New("the start hangs")

// await waits until the thread is back, or has a child that hangs.
func (l *Launcher) await(r *request) error {
	t := time.NewTimer(hangsAfter)
	defer t.Stop()
	for {
		select {
		case <-r.done:
			return r.err
		case <-t.C:
		}
		if l.replace(r) {
			return errHangs
		}
		t.Reset(hangsAfter)
	}
}

// replace puts another thread in the place of one that waits for its child, and brings
// it back from where it forked, if that can be done from outside. It reports whether
// there is a child.
func (l *Launcher) replace(r *request) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.returned || r.made == nil || r.made.tid.Load() == 0 {
		return false
	}
	if g := r.spec.Group; g != nil && g.NeedsThread() {
		g.LeaveThreadOf(r.tid)
	}
	r.hangs = true
	l.mu.Lock()
	defer l.mu.Unlock()
	l.works--
	l.hangs++
	l.free.Broadcast()
	c := &l.pools[r.pool]
	c.free--
	if c.free < c.want && l.hangs <= maxHangs {
		select {
		case <-l.done:
		default:
			if r.spare() == nil { // without it the others have to do
				c.free++
			}
		}
	}
	return true
}

// back notes that the thread waits no more.
func (l *Launcher) back(r *request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.returned = true
	if r.hangs {
		l.mu.Lock()
		l.works++
		l.hangs--
		l.pools[r.pool].free++
		r.late = l.over
		l.mu.Unlock()
	}
}
