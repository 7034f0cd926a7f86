package cgroup

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// write writes one value into one control file.
func write(path, value string) error {
	fd, err := openFile(path, unix.O_WRONLY)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	if err := writeFD(fd, value); err != nil {
		return fmt.Errorf("write %q to %s: %w", value, path, err)
	}
	return nil
}

func writeFD(fd int, value string) error {
	for {
		_, err := unix.Write(fd, []byte(value))
		if err != unix.EINTR {
			return err
		}
	}
}

func openFile(path string, flags int) (int, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// read reads one control file.
func read(path string) (string, error) {
	fd, err := openFile(path, unix.O_RDONLY)
	if err != nil {
		return "", fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	var out []byte
	buf := make([]byte, 4096)
	for {
		n, err := unix.Read(fd, buf)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return "", fmt.Errorf("read %s: %w", path, err)
		case n == 0:
			return string(out), nil
		default:
			out = append(out, buf[:n]...)
		}
	}
}

// readInt reads a control file that holds one number; "max" is the largest.
func readInt(path string) (int64, error) {
	s, err := read(path)
	if err != nil {
		return 0, err
	}
	s = strings.TrimSpace(s)
	if s == "max" {
		return 1<<63 - 1, nil
	}
	return strconv.ParseInt(s, 10, 64)
}

// readField reads one "name value" line of a control file; 0 when it is absent.
func readField(path, name string) (int64, error) {
	s, err := read(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(s) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), " "); ok && k == name {
			return strconv.ParseInt(v, 10, 64)
		}
	}
	return 0, nil
}

func makeDir(path string) error {
	if err := unix.Mkdir(path, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make group %s: %w", path, err)
	}
	return nil
}

// exists reports whether a control file is there.
func exists(path string) bool { return unix.Access(path, unix.F_OK) == nil }
