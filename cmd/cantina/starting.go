package main

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"cantina/internal/guard"
	"cantina/internal/run"
)

// How long a client waits for a server of this machine that is just starting, as in
// `cantina dev & cantina run …`: newWait if its token or socket was made within that time.
const (
	startWait  = time.Second
	newWait    = 5 * time.Second
	startPause = 50 * time.Millisecond
)

// awaitServer returns when a server listens where clients look by themselves, or when none appears in
// time: then the call reports that. A server that was named is not waited for.
func (c *cli) awaitServer() {
	if c.impatient || len(c.addr) > 0 || c.Getenv("CANTINA_ADDR") != "" || c.tls != (guard.TLSFiles{}) {
		return
	}
	for begin := time.Now(); ; {
		address := c.addresses()[0]
		network, to := "tcp", address
		if path, ok := strings.CutPrefix(address, "unix:"); ok {
			network, to = "unix", path
		}
		conn, err := net.DialTimeout(network, to, startWait)
		if err == nil {
			_ = conn.Close()
			return
		}
		if !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist) {
			return
		}
		limit := startWait
		if c.isNew(c.defaultTokenFile()) || network == "unix" && c.isNew(to) {
			limit = newWait
		}
		if time.Since(begin) >= limit || run.Pause(c.ctx, startPause) != nil {
			return
		}
	}
}

// isNew reports whether a file was written a moment ago.
func (c *cli) isNew(path string) bool {
	info, err := os.Stat(path)
	return err == nil && c.Now().Sub(info.ModTime()).Abs() < newWait
}
