// Package terminal makes a cell that runs in a terminal behave as a program there
// should, although its containers are in sessions of their own:
//
//	Ctrl-C, TERM, QUIT, HUP   end everything; the second one kills
//	Ctrl-Z                    freezes every container, then the cell itself
//	fg                        thaws
//
// (Bistro task termination, Design for least surprise.) The commands that run a
// cell call it.
package terminal

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

// Host is the executor.
type Host interface {
	Freeze() error
	Thaw() error
	Abort()
}

// Listen takes the signals that end the process from now on, for Opening and Serve.
func Listen() chan os.Signal {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP)
	return signals
}

// Opening calls stop at a signal that arrives before opened is closed, and leaves the signal to
// Serve. A second one ends the process as without a handler: the opening may wait for an event
// that does not occur.
func Opening(opened <-chan struct{}, signals chan os.Signal, stop func()) {
	select {
	case <-opened:
		return
	case s := <-signals:
		stop()
		select {
		case <-opened:
			signals <- s
		case s = <-signals:
			signal.Reset(s)
			if p, err := os.FindProcess(os.Getpid()); err == nil {
				_ = p.Signal(s) // it always may
			}
		}
	}
}

// Serve handles the signals until ctx is done. It calls stop at the first one that ends the
// program, and Host.Abort at the second; it continues in between, so ctx must outlive the effect
// of stop.
func Serve(ctx context.Context, signals chan os.Signal, h Host, stop func(), log *slog.Logger) error {
	signal.Notify(signals, syscall.SIGTSTP)
	defer signal.Stop(signals)
	ending := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case s := <-signals:
			switch {
			case s == syscall.SIGTSTP:
				suspend(h, log)
			case ending:
				log.Warn("second signal: killing all containers", "signal", s.String())
				h.Abort()
			default:
				log.Info("ending", "signal", s.String())
				ending = true
				stop()
			}
		}
	}
}

// suspend returns when the program is continued.
func suspend(h Host, log *slog.Logger) {
	if err := h.Freeze(); err != nil {
		log.Warn("containers are not frozen", "error", err)
	}
	// STOP, not TSTP: that would need its default action back, and does nothing
	// to a process group without a shell.
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		log.Warn("not stopped", "error", err)
	} else {
		<-continued // this thread may run on for a short time
	}
	if err := h.Thaw(); err != nil {
		log.Warn("containers are not thawed", "error", err)
	}
}
