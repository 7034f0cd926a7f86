package main

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// noteInput says that a task reads nothing, when there is something that it could
// have been meant to read; told: it was said before. It returns whether it is said.
func noteInput(c *cli, told bool) bool {
	if told || c.InTTY || !waits(c.In) {
		return told
	}
	c.sayf("standard input is ignored: a task has none; use a file that the cell can read, or --env\n")
	return true
}

// waits reports whether something can be read at once. It reads nothing, and does
// not wait for who may write later.
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
