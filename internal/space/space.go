// Package space takes space on a disk for files that are written later: also if the disk is full by then.
package space

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Reserve makes a file that has size bytes of the disk. Its user overwrites it in place, without O_TRUNC.
func Reserve(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("reserve space: %w", err)
	}
	err = unix.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) {
		_, err = f.Write(make([]byte, size))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("reserve space: %s: %w", path, err)
	}
	return nil
}
