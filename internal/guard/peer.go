package guard

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ErrForeignPort reports a loopback port at which another user listens: any user of a machine
// may take a port while its server is down, and would get the token, or command the cell.
var ErrForeignPort = errors.New("another user listens there")

// dialTime bounds the making of one connection.
const dialTime = 3 * time.Second

// Way is how an address is called. Its methods may be called at the same time.
type Way struct {
	token   Token
	network string
	target  string
	trusted bool // its file, or its certificate, identifies the listener

	mu     sync.Mutex
	looked bool // whether the address is on loopback was found out
	local  bool
}

// Way returns how address ("host:port" or "unix:PATH") is called; secure = over TLS.
func (t Token) Way(address string, secure bool) *Way {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return &Way{network: "unix", target: path, trusted: true}
	}
	return &Way{token: t, network: "tcp", target: address, trusted: secure}
}

// UnixHost is the host of requests over a Unix socket.
const UnixHost = "unix"

// Host is the Host header of its requests.
func (w *Way) Host() string {
	if w.Unix() {
		return UnixHost
	}
	return w.target
}

// Unix reports whether it is a Unix socket.
func (w *Way) Unix() bool { return w.network == "unix" }

// Sign puts the token into a request for an address on loopback.
func (w *Way) Sign(ctx context.Context, h http.Header) {
	if !w.trusted && w.onLoopback(ctx) {
		w.token.Sign(h)
	}
}

// onLoopback finds out once whether the address is of this machine alone.
func (w *Way) onLoopback(ctx context.Context) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.looked {
		local, err := isLoopback(ctx, w.target)
		w.looked, w.local = err == nil, err == nil && local
	}
	return w.local
}

// Dial connects. At a loopback port without TLS only this user, root and the token's owner are
// believed: ErrForeignPort.
func (w *Way) Dial(ctx context.Context) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: dialTime}
	c, err := dialer.DialContext(ctx, w.network, w.target)
	if err != nil {
		return nil, err
	}
	if err := w.known(ctx, c); err != nil {
		_ = c.Close() // nothing was sent
		return nil, err
	}
	return c, nil
}

// known checks the owner of the port of a connection.
func (w *Way) known(ctx context.Context, c net.Conn) error {
	at, ok := c.RemoteAddr().(*net.TCPAddr)
	if w.trusted || !ok {
		return nil
	}
	if !at.IP.IsLoopback() {
		if w.onLoopback(ctx) {
			return fmt.Errorf("%s: %w: the name was one of loopback, and is %s now", w.target, ErrForeignPort, at)
		}
		return nil
	}
	who, err := listenerOf(at.AddrPort())
	if err != nil {
		return fmt.Errorf("which user listens on %s: %w", w.target, err)
	}
	if who == 0 || who == os.Geteuid() || !w.token.IsZero() && who == w.token.owner {
		return nil
	}
	return fmt.Errorf("%s: %w (user %d), neither root nor this one: use its Unix socket, TLS, or --token-file with that "+
		"user's file", w.target, ErrForeignPort, who)
}

// Transport is the round tripper of requests that go this way: t, with their token.
func (w *Way) Transport(t *http.Transport) http.RoundTripper {
	t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return w.Dial(ctx) }
	return &signing{w, t}
}

// Times of a connection for streams in both directions. A client that is stopped, as by Ctrl-Z, answers
// nothing; one whose machine is gone must not hold its streams for ever.
const (
	pingAfter   = 15 * time.Second // without a frame
	serverTime  = 15 * time.Second // for a server to answer
	clientTime  = 5 * time.Minute  // for a client to answer
	streamBytes = 1 << 20          // of a stream that its reader has not read
)

// Duplex is the round tripper of streams in both directions, over HTTP/2. Connections are made by
// dial, which is w.Dial, perhaps with more around it.
func (w *Way) Duplex(conf *tls.Config, dial func(context.Context) (net.Conn, error)) http.RoundTripper {
	protocols := new(http.Protocols)
	if conf == nil || w.Unix() {
		protocols.SetUnencryptedHTTP2(true)
	} else {
		protocols.SetHTTP2(true)
	}
	t := &http.Transport{Protocols: protocols, IdleConnTimeout: IdleTime, DisableCompression: true,
		HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: serverTime, MaxReceiveBufferPerStream: streamBytes}}
	if conf != nil {
		t.TLSClientConfig = conf.Clone() // the transport changes it
	}
	signed := w.Transport(t)
	t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }
	return signed
}

type signing struct {
	way *Way
	t   *http.Transport
}

// RoundTrip implements http.RoundTripper.
func (s *signing) RoundTrip(q *http.Request) (*http.Response, error) {
	q = q.Clone(q.Context())
	s.way.Sign(q.Context(), q.Header)
	return s.t.RoundTrip(q)
}

// CloseIdleConnections is called by http.Client.CloseIdleConnections.
func (s *signing) CloseIdleConnections() { s.t.CloseIdleConnections() }

// listenerOf returns the user that listens at a loopback port.
func listenerOf(at netip.AddrPort) (int, error) {
	if who, err := askKernel(at); err == nil {
		return who, nil
	}
	return askProc(at)
}

// Of the kernel's sock_diag(7): the request for one socket and where its answer has the user.
const (
	diagRequest = 20 // SOCK_DIAG_BY_FAMILY
	diagState   = 1  // of inet_diag_msg: its second byte
	diagUser    = 64
	stateListen = 10
	diagSize    = 72
)

// askKernel queries sock_diag for the listener at an address: its cost does not grow with the
// number of sockets.
func askKernel(at netip.AddrPort) (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		return 0, err
	}
	q := make([]byte, unix.SizeofNlMsghdr+56)
	le := binary.NativeEndian
	le.PutUint32(q[0:], uint32(len(q)))
	le.PutUint16(q[4:], diagRequest)
	le.PutUint16(q[6:], unix.NLM_F_REQUEST)
	b := q[unix.SizeofNlMsghdr:]
	b[0], b[1] = unix.AF_INET6, unix.IPPROTO_TCP
	ip := at.Addr().AsSlice()
	if at.Addr().Unmap().Is4() {
		b[0], ip = unix.AF_INET, at.Addr().Unmap().AsSlice()
	}
	le.PutUint32(b[4:], 1<<stateListen)
	binary.BigEndian.PutUint16(b[8:], at.Port())
	copy(b[12:28], ip)
	le.PutUint64(b[48:], ^uint64(0)) // any cookie
	if err := unix.Sendto(fd, q, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	a := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, a, 0)
	if err != nil {
		return 0, err
	}
	a = a[:n]
	if n < unix.SizeofNlMsghdr+diagSize || le.Uint16(a[4:]) != diagRequest {
		return 0, errNoListener
	}
	if m := a[unix.SizeofNlMsghdr:]; m[diagState] == stateListen {
		return int(le.Uint32(m[diagUser:])), nil
	}
	return 0, errNoListener
}

// errNoListener reports a port without a listener.
var errNoListener = errors.New("the kernel does not name it")

// askProc looks through the kernel's tables of sockets, for kernels without sock_diag.
func askProc(at netip.AddrPort) (int, error) {
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			continue
		}
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			x := strings.Fields(s.Text())
			if len(x) < 8 || x[3] != "0A" {
				continue
			}
			host, port, _ := strings.Cut(x[1], ":")
			if n, err := strconv.ParseUint(port, 16, 16); err != nil || uint16(n) != at.Port() {
				continue
			}
			if a, ok := procAddr(host); ok && (a.IsUnspecified() || a == at.Addr().Unmap()) {
				return strconv.Atoi(x[7])
			}
		}
	}
	return 0, errNoListener
}

// procAddr parses an address of the tables: words of four bytes in the machine's order.
func procAddr(text string) (netip.Addr, bool) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b)%4 != 0 {
		return netip.Addr{}, false
	}
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	a, ok := netip.AddrFromSlice(b)
	return a.Unmap(), ok
}
