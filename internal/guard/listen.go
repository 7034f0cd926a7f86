package guard

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Errors of opening a listener.
var (
	// ErrInsecure: the address can be reached from elsewhere and nothing protects it.
	ErrInsecure = errors.New("would be reachable from elsewhere without protection")
	// ErrAddressInUse: another process has the address.
	ErrAddressInUse = errors.New("address already in use")
	// ErrCertificates: the certificate files are incomplete or unreadable.
	ErrCertificates = errors.New("bad certificates")
)

// TLSFiles are the three files of mutual TLS; all or none.
type TLSFiles struct{ Cert, Key, CA string }

func (f TLSFiles) none() bool { return f == TLSFiles{} }

// Server returns the configuration of a listener that accepts only callers with a
// certificate of CA; nil when there are no files. Changed files are used from the next connection on.
func (f TLSFiles) Server() (*tls.Config, error) {
	if f.none() {
		return nil, nil
	}
	r, err := f.rotate(x509.ExtKeyUsageServerAuth)
	if err != nil {
		return nil, err
	}
	config := func() *tls.Config {
		cert, pool := r.now()
		return &tls.Config{Certificates: []tls.Certificate{*cert}, ClientCAs: pool,
			ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2", "http/1.1"}}
	}
	c := config()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return config(), nil }
	return c, nil
}

// Client returns the configuration of a caller; nil when there are no files. A changed certificate is
// used from the next connection on; a changed CA needs a restart.
func (f TLSFiles) Client() (*tls.Config, error) {
	if f.none() {
		return nil, nil
	}
	r, err := f.rotate(x509.ExtKeyUsageClientAuth)
	if err != nil {
		return nil, err
	}
	_, pool := r.now()
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert, _ := r.now()
			return cert, nil
		}}, nil
}

// load reads the files, and refuses a certificate that no peer would accept for this use.
func (f TLSFiles) load(use x509.ExtKeyUsage) (tls.Certificate, *x509.CertPool, error) {
	if f.Cert == "" || f.Key == "" || f.CA == "" {
		return tls.Certificate{}, nil, fmt.Errorf("certificate, key and CA are needed together: %w", ErrCertificates)
	}
	cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return cert, nil, fmt.Errorf("%s, %s: %w: %w", f.Cert, f.Key, ErrCertificates, err)
	}
	pem, err := os.ReadFile(f.CA)
	if err != nil {
		return cert, nil, fmt.Errorf("%s: %w: %w", f.CA, ErrCertificates, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return cert, nil, fmt.Errorf("%s holds no certificate: %w", f.CA, ErrCertificates)
	}
	if why := unfit(cert.Leaf, use); why != "" {
		return cert, nil, fmt.Errorf("%s %s: %w", f.Cert, why, ErrCertificates)
	}
	return cert, pool, nil
}

// unfit is why peers refuse a certificate for a use; empty = they may accept it.
func unfit(c *x509.Certificate, use x509.ExtKeyUsage) string {
	any := len(c.ExtKeyUsage)+len(c.UnknownExtKeyUsage) == 0 || slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageAny)
	switch {
	case time.Now().After(c.NotAfter):
		return "has expired at " + c.NotAfter.UTC().Format(time.RFC3339)
	case any || slices.Contains(c.ExtKeyUsage, use):
		return ""
	case use == x509.ExtKeyUsageClientAuth:
		return "does not allow use as a client (extendedKeyUsage clientAuth), which every call needs"
	}
	return "does not allow use as a server (extendedKeyUsage serverAuth), which every listening process needs"
}

// Listener describes where to listen.
type Listener struct {
	// Address is "host:port" or "unix:PATH".
	Address string
	TLS     TLSFiles
	// Insecure permits an address that can be reached from elsewhere without TLS.
	Insecure bool
	// Token is the token that callers of a loopback port must send without TLS. It is needed for such
	// a port.
	Token Token
	// Keys are the keys of browsers, which are accepted in place of the token; nil = none.
	Keys *Keys
	// Group may use a Unix socket beside its owner; empty = none.
	Group string
	// Flag sets the address, for the text of an error; empty = --listen.
	Flag string
	// Log gets failed handshakes and other errors of the HTTP library; nil = standard error does.
	Log *slog.Logger
	// Hosts are further names that requests may be addressed to; those of Address, of the
	// certificate and of the machine are always among them.
	Hosts []string
}

// Open listens. Without TLS only loopback addresses and Unix sockets are permitted, unless
// Insecure is set: then Door.Warning reports it, at each start and in each status. The socket file
// of a dead process is replaced.
func (l Listener) Open(ctx context.Context) (*Door, error) {
	d := &Door{address: l.Address, hosts: hostsOf(l), log: l.Log}
	if path, ok := strings.CutPrefix(l.Address, "unix:"); ok {
		ln, err := openUnix(ctx, path, l.Group)
		d.Listener = ln
		return d, err
	}
	conf, err := l.TLS.Server()
	if err != nil {
		return nil, err
	}
	local, err := isLoopback(ctx, l.Address)
	if err != nil {
		return nil, err
	}
	switch {
	case conf != nil:
		d.certificate = conf.Certificates[0].Leaf
	case local:
		if d.token, d.keys = l.Token, l.Keys; d.token.IsZero() {
			return nil, fmt.Errorf("%s: a loopback port needs a token for its callers: %w", l.Address, ErrInsecure)
		}
	case l.Insecure:
		d.Warning = fmt.Sprintf("listening on %s without protection: whoever reaches it controls this machine", l.Address)
	default:
		return nil, fmt.Errorf("%s %w; give --tls-cert, --tls-key and --tls-ca, or --insecure-listen", l.Address, ErrInsecure)
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", l.Address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s: %w; is another cantina running? choose another address with %s", l.Address,
			ErrAddressInUse, cmp.Or(l.Flag, "--listen"))
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", l.Address, err)
	}
	d.address = ln.Addr().String()
	if conf != nil {
		ln = tls.NewListener(ln, conf)
	}
	d.Listener = ln
	return d, nil
}

// Permit checks an address at which others than clients connect, like the members of a store, by the rules of
// Open. An unprotected one has a warning.
func (l Listener) Permit(ctx context.Context) (warning string, err error) {
	server, err := l.TLS.Server()
	if err == nil {
		_, err = l.TLS.Client()
	}
	if err != nil || server != nil {
		return "", err
	}
	local, err := isLoopback(ctx, l.Address)
	switch {
	case err != nil || local:
		return "", err
	case l.Insecure:
		return fmt.Sprintf("%s %s is used without protection: whoever reaches it controls the store", l.Flag, l.Address), nil
	}
	return "", fmt.Errorf("%s %s %w; give --tls-cert, --tls-key and --tls-ca, or --insecure-listen", l.Flag, l.Address,
		ErrInsecure)
}

// hostsOf are the names by which callers may address a listener.
func hostsOf(l Listener) []string {
	names := slices.Clone(l.Hosts)
	if host, _, err := net.SplitHostPort(l.Address); err == nil {
		names = append(names, host)
	}
	if name, err := os.Hostname(); err == nil {
		names = append(names, name)
	}
	for i, n := range names {
		names[i] = strings.ToLower(n)
	}
	return names
}

// isLoopback reports whether an address can be reached from this machine only. An
// empty host means every interface.
func isLoopback(ctx context.Context, address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, fmt.Errorf("address %q: must be host:port or unix:PATH", address)
	}
	if host == "" {
		return false, nil
	}
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback(), nil
	}
	ips, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return false, fmt.Errorf("address %q: %w", address, err)
	}
	for _, ip := range ips {
		if !ip.IP.IsLoopback() {
			return false, nil
		}
	}
	return len(ips) > 0, nil
}

// openUnix listens on a socket file that only its owner may use, and a group if there is one.
func openUnix(ctx context.Context, path, group string) (net.Listener, error) {
	if c, err := (&net.Dialer{}).DialContext(ctx, "unix", path); err == nil {
		_ = c.Close() // it only showed that a process listens
		return nil, fmt.Errorf("%s: %w; is another cantina running?", path, ErrAddressInUse)
	}
	if info, err := os.Lstat(path); err == nil {
		if info.Mode()&os.ModeSocket == 0 {
			return nil, fmt.Errorf("%s is there and is no socket: %w", path, ErrAddressInUse)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("remove the socket that a dead process left: %w", err)
		}
	}
	// Any process that can connect controls the server, so none may before the mode is set.
	private := path + ".new"
	if err := os.RemoveAll(private); err != nil {
		return nil, err
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "unix", private)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	u := ln.(*net.UnixListener)
	u.SetUnlinkOnClose(false)
	err = os.Chmod(private, 0o600)
	if err == nil && group != "" {
		err = shareWith(private, group)
	}
	if err == nil {
		err = os.Rename(private, path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", path, err), ln.Close())
	}
	return &unixListener{UnixListener: u, path: path}, nil
}

// ShareDirectory gives the members of a group access to a directory of this user.
func ShareDirectory(path, group string) error { return give(path, group, 0o710) }

// shareWith lets the members of a group use a socket.
func shareWith(path, group string) error { return give(path, group, 0o660) }

func give(path, group string, mode os.FileMode) error {
	g, err := user.LookupGroup(group)
	if err != nil {
		return err
	}
	id, err := strconv.Atoi(g.Gid)
	if err != nil {
		return fmt.Errorf("group %s: %w", group, err)
	}
	return errors.Join(os.Chown(path, -1, id), os.Chmod(path, mode))
}

// unixListener removes its socket file when it is closed.
type unixListener struct {
	*net.UnixListener
	path string
}

// Close stops listening and removes the socket file.
func (l *unixListener) Close() error {
	err := l.UnixListener.Close()
	if rerr := os.Remove(l.path); rerr != nil && !errors.Is(rerr, os.ErrNotExist) && err == nil {
		err = rerr
	}
	return err
}
