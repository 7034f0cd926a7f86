// Package reaperbin carries the program cantina-reaper inside the cell's own. Make builds it into
// this directory before all else. A build without it works too: cantina is then its own reaper
// (Own). The executor and the command line use this package.
package reaperbin

import (
	"embed"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Own is the path of the running program, whatever has become of its file.
const Own = "/proc/self/exe"

// ErrMissing reports a build without the reaper.
var ErrMissing = errors.New("missing reaper: this program was built without cantina-reaper (build with make)")

//go:embed cantina-reaper*
var files embed.FS

// Embedded reports whether the build has the small reaper.
func Embedded() bool {
	_, err := files.Open("cantina-reaper")
	return err == nil
}

// Open puts the embedded reaper into memory, sealed, and returns the file to execute as
// /proc/self/fd/<n>: the built program is run, in any state of the disk. It returns ErrMissing.
func Open() (*os.File, error) {
	program, err := files.ReadFile("cantina-reaper")
	if err != nil {
		return nil, ErrMissing
	}
	fd, err := unix.MemfdCreate("cantina-reaper", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("open reaper: %w", err)
	}
	f := os.NewFile(uintptr(fd), "cantina-reaper")
	if _, err := f.Write(program); err != nil {
		f.Close()
		return nil, fmt.Errorf("open reaper: %w", err)
	}
	seals := unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		f.Close()
		return nil, fmt.Errorf("seal reaper: %w", err)
	}
	return f, nil
}
