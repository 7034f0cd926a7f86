package reaper

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cantina/cgroup"
)

// tick is how often something that is ending, or is closed, is looked at.
const tick = 20 * time.Millisecond

// watcher holds the deadlines. One goroutine owns it; two others only read the
// socket and the timer.
type watcher struct {
	killWait int64 // milliseconds
	timer    int   // descriptor
	classes  map[string]*class
	kills    map[string]int64 // group → when it is killed, boot time in ns
	procs    map[int]*proc    // without control groups
	clean    []string         // patterns of groups that are removed at the end, as far as they are empty
	orphan   bool             // the cell is gone
	handover bool             // a successor holds the deadlines now
	finish   bool             // end everything, then itself
	stopping bool             // the cell has sent that it ends: all work is over, or it detached
}

func newWatcher(killWait int64) *watcher {
	return &watcher{killWait: killWait, classes: map[string]*class{}, kills: map[string]int64{}, procs: map[int]*proc{}}
}

func (w *watcher) class(dir string) *class {
	c := w.classes[dir]
	if c == nil {
		c = newClass(dir)
		w.classes[dir] = c
	}
	return c
}

// bootNow is CLOCK_BOOTTIME: it continues while the machine sleeps.
func bootNow() int64 {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return ts.Nano()
}

func (w *watcher) run() error {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return errors.New("timer: " + err.Error())
	}
	w.timer = fd
	messages := make(chan string, 64)
	go readMessages(os.Stdin, messages)
	expired := make(chan struct{}, 1)
	go readTimer(os.NewFile(uintptr(fd), "timer"), expired)
	signals := make(chan os.Signal, 16)
	// A terminal's signals are for the cell, which ends us when it is done.
	signal.Ignore(syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU,
		syscall.SIGPIPE)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGUSR1)
	w.send("ready")
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for !w.over() {
		if w.busy() {
			ticker.Reset(tick)
		} else {
			ticker.Stop()
		}
		select {
		case m, ok := <-messages:
			if !ok {
				messages = nil
				w.cellGone()
				break
			}
			w.command(m)
		case <-expired:
		case <-ticker.C:
		case s := <-signals:
			w.signalled(s)
		}
		w.step(bootNow())
	}
	return nil
}

func (w *watcher) signalled(s os.Signal) {
	if s == syscall.SIGUSR1 {
		w.handover = true
		return
	}
	w.finish = true
	w.endStopped()
}

func (w *watcher) cellGone() {
	w.orphan = true
	if !w.stopping {
		w.endStopped()
	}
}

// endStopped begins to end all work that ends with the cell, permanently.
func (w *watcher) endStopped() {
	for _, c := range w.classes {
		if c.stop {
			c.end()
			c.last = true
		}
	}
	for _, p := range w.procs {
		if p.stop {
			p.ending = true
		}
	}
}

// command understands:
//
//	deadline DIR NS           boot time at which DIR ends; 0 = never
//	kill DIR MS               kill the group DIR in MS milliseconds
//	spare DIR                 but not that one: it is gone
//	proc PID START bound|free stop|keep SIGNAL GRACE_MS   (without control groups)
//	procdeadline NS           the deadline of all bound processes
//	gone PID                  the process has been waited for
//	bye                       the cell ends in order; nothing is to be done
func (w *watcher) command(m string) {
	f := strings.Fields(m)
	switch {
	case len(f) == 3 && f[0] == "deadline":
		w.class(f[1]).setDeadline(number(f[2]))
	case len(f) == 3 && f[0] == "kill":
		w.kills[f[1]] = bootNow() + number(f[2])*1e6
	case len(f) == 2 && f[0] == "spare":
		delete(w.kills, f[1])
	case len(f) == 7 && f[0] == "proc":
		w.addProc(f[1:])
	case len(f) == 2 && f[0] == "procdeadline":
		for _, p := range w.procs {
			p.setDeadline(number(f[1]))
		}
	case len(f) == 2 && f[0] == "gone":
		w.dropProc(int(number(f[1])))
	case len(f) == 1 && f[0] == "bye":
		w.stopping = true
	default:
		say("unexpected input: " + m)
	}
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

// step performs due actions and sets the timer for the next.
func (w *watcher) step(now int64) {
	var next int64
	sooner := func(at int64) {
		if at > 0 && (next == 0 || at < next) {
			next = at
		}
	}
	for _, c := range w.classes {
		if c.due(now) && !(w.handover && !c.stop) {
			c.end()
			w.send("expired " + c.dir)
		}
		if c.step(now, w.killWait) {
			w.send("drained " + c.dir)
		}
		if c.state == open {
			sooner(c.deadline)
		}
	}
	for dir, at := range w.kills {
		if at > now {
			sooner(at)
		} else if killUntilEmpty(cgroup.At(dir)) {
			delete(w.kills, dir)
		}
	}
	for _, p := range w.procs {
		p.step(now, w.killWait)
		if !p.ending {
			sooner(p.deadline)
		}
	}
	w.arm(next)
}

func (w *watcher) arm(at int64) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(at)}
	unix.TimerfdSettime(w.timer, unix.TFD_TIMER_ABSTIME, &spec, nil)
}

// busy reports whether something has to be looked at every tick.
func (w *watcher) busy() bool {
	now := bootNow()
	for _, at := range w.kills {
		if at <= now {
			return true
		}
	}
	for _, c := range w.classes {
		if c.state != open {
			return true
		}
	}
	for _, p := range w.procs {
		if p.ending || w.orphan {
			return true
		}
	}
	// An orphan that waits for kept containers looks whether they are gone.
	return w.orphan
}

// over reports whether nothing is left to do: it ends itself last.
func (w *watcher) over() bool {
	if !w.orphan && !w.finish {
		return false
	}
	if w.stopping && w.orphan {
		return true
	}
	for _, c := range w.classes {
		if c.stop && (c.state != closed || !c.empty()) {
			return false
		}
		keeps := !c.stop && c.deadline > 0 && !w.handover && !w.finish
		if keeps && !c.empty() {
			return false
		}
	}
	for _, p := range w.procs {
		if p.stop && !p.isGone() {
			return false
		}
	}
	if w.orphan && !w.handover {
		for _, pattern := range w.clean {
			dirs, _ := filepath.Glob(pattern)
			for _, d := range dirs {
				cgroup.RemoveEmpty(d)
			}
		}
	}
	return true
}

func (w *watcher) send(m string) {
	// The cell may be stopped and its buffer full: it sends the request again, we do not wait.
	unix.Sendto(0, []byte(m), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
}
