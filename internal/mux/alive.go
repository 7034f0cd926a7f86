package mux

import (
	"crypto/tls"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// ackTime is after how many milliseconds without an acknowledgement of what was sent a link is
// taken for cut.
const ackTime = 1000

// Base is the connection below TLS.
func Base(c net.Conn) net.Conn {
	if t, ok := c.(*tls.Conn); ok {
		return t.NetConn()
	}
	return c
}

// control calls f with the descriptor of a socket, and does nothing if c is none or is closed.
func control(c net.Conn, f func(fd int)) {
	s, ok := Base(c).(syscall.Conn)
	if !ok {
		return
	}
	if raw, err := s.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { f(int(fd)) })
	}
}

// cut reports whether the machine of the other end does not acknowledge what was sent. While it
// does, a request without an answer is late, and no reason to end the connection. A Unix socket is
// never cut; of what is no socket nothing is known, so silence counts.
func cut(c net.Conn) bool {
	if _, ok := Base(c).(*net.UnixConn); ok {
		return false
	}
	silent := true
	control(c, func(fd int) {
		if info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			silent = info.Unacked > 0 && (info.Retransmits > 0 || info.Last_ack_recv > ackTime)
		}
	})
	return silent
}

// unread reports whether the kernel holds bytes that have come and were not read.
func unread(c net.Conn) bool {
	some := false
	control(c, func(fd int) {
		n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
		some = err == nil && n > 0
	})
	return some
}
