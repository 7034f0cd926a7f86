package main

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// noteInput prints that a task has no standard input, if there is input that may be meant for it;
// reported: it was printed before. It returns whether it is printed.
func noteInput(c *cli, reported bool) bool {
	if reported || c.InTTY || !waits(c.In) {
		return reported
	}
	c.sayf("standard input is ignored: a task has none; use a file that the cell can read, or --env\n")
	return true
}

// waits reports whether input can be read at once. It reads nothing, and does not wait for later
// writers.
func waits(r io.Reader) bool {
	switch in := r.(type) {
	case *os.File:
		info, err := in.Stat()
		if err != nil {
			return false
		}
		if info.Mode().IsRegular() {
			at, err := in.Seek(0, io.SeekCurrent)
			return err == nil && info.Size() > at
		}
		if info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
			return false // /dev/null, a terminal
		}
		n, err := unix.IoctlGetInt(int(in.Fd()), unix.TIOCINQ)
		return err == nil && n > 0
	case interface{ Len() int }: // a test's
		return in.Len() > 0
	}
	return false
}
