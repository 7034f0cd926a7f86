package datadir

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// socketName is the socket on which the process that holds a directory answers requests for a
// backup. Only the owner of the directory, which is 0700, can connect.
const socketName = "backup.sock"

// Listen takes connections of processes that want a backup of the store while this one has it.
func (f *Dir) Listen(ctx context.Context) (net.Listener, error) {
	if err := os.Remove(f.Path(socketName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("backup socket: %w", err)
	}
	var ln net.Listener
	err := within(f.path, func(dir string) (err error) {
		ln, err = new(net.ListenConfig).Listen(ctx, "unix", filepath.Join(dir, socketName))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("backup socket: %w", err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false) // its path goes through a descriptor that is closed
	return ln, os.Chmod(f.Path(socketName), 0o600)
}

// Dial connects to the process that holds a directory.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	var conn net.Conn
	err := within(path, func(dir string) (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, socketName))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("backup socket of %s: %w", path, err)
	}
	return conn, nil
}

// within calls do with a short name of the directory: the path of a socket has 107 bytes at most.
func within(path string, do func(dir string) error) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(do("/proc/self/fd/"+strconv.Itoa(int(d.Fd()))), d.Close())
}
