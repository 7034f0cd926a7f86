package ca

import (
	"crypto/tls"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cantina/internal/guard"
)

// TestIssue: a server and a client prove themselves to each other with the files of one authority, and
// neither accepts a certificate of another authority.
func TestIssue(t *testing.T) {
	now := time.Now()
	files := func(dir string) (server, client guard.TLSFiles) {
		a, err := Init(filepath.Join(dir, "ca"), "test", now)
		if err != nil {
			t.Fatal(err)
		}
		s, err := a.Issue(dir, Request{Name: "s1", Hosts: []string{"127.0.0.1", "localhost", "*.example.org", "::1"},
			Life: time.Hour}, now)
		if err != nil {
			t.Fatal(err)
		}
		c, err := a.Issue(dir, Request{Name: "me", Life: time.Hour}, now)
		if err != nil {
			t.Fatal(err)
		}
		return guard.TLSFiles{Cert: s.Cert, Key: s.Key, CA: a.CertPath()},
			guard.TLSFiles{Cert: c.Cert, Key: c.Key, CA: a.CertPath()}
	}
	server, client := files(t.TempDir())
	_, foreign := files(t.TempDir())
	if err := meet(t, server, client); err != nil {
		t.Error(err)
	}
	if err := meet(t, server, guard.TLSFiles{Cert: foreign.Cert, Key: foreign.Key, CA: server.CA}); err == nil {
		t.Error("a client of another authority was accepted")
	}
	if err := meet(t, server, foreign); err == nil {
		t.Error("a server of another authority was accepted")
	}
	if _, err := client.Server(); !errors.Is(err, guard.ErrCertificates) {
		t.Errorf("a client's certificate serves: %v", err)
	}
}

// meet makes a connection and sends a byte each way.
func meet(t *testing.T, server, client guard.TLSFiles) error {
	t.Helper()
	sc, err := server.Server()
	if err != nil {
		t.Fatal(err)
	}
	cc, err := client.Client()
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", sc)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			served <- err
			return
		}
		defer c.Close()
		_, err = c.Write([]byte("x"))
		served <- err
	}()
	d := tls.Dialer{NetDialer: &net.Dialer{}, Config: cc}
	c, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
	if err == nil {
		_, err = c.Read(make([]byte, 1))
		c.Close()
	}
	return errors.Join(err, <-served)
}

// TestBadRequests: a request that no certificate can fulfil writes nothing; no file is replaced unasked.
func TestBadRequests(t *testing.T) {
	now := time.Now()
	dir := t.TempDir()
	if _, err := Open(filepath.Join(dir, "gone")); !errors.Is(err, ErrNoAuthority) {
		t.Error(err)
	}
	for _, name := range []string{"", ".", "..", "a/b", "-x", "a b", "ä", strings.Repeat("x", 65), "a\x00b"} {
		if _, err := Init(filepath.Join(dir, "bad"), name, now); !errors.Is(err, ErrBad) {
			t.Errorf("authority %q: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "bad")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a bad name leaves a directory:", err)
	}
	a, err := Init(filepath.Join(dir, "ca"), "test", now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Init(filepath.Join(dir, "ca"), "test", now); !errors.Is(err, ErrExists) {
		t.Error("made again:", err)
	}
	out := filepath.Join(dir, "out")
	for what, r := range map[string]Request{
		"path":        {Name: "../x", Life: time.Hour},
		"own name":    {Name: "ca", Life: time.Hour},
		"no life":     {Name: "x"},
		"past":        {Name: "x", Life: -time.Hour},
		"port":        {Name: "x", Life: time.Hour, Hosts: []string{"h:7480"}},
		"empty host":  {Name: "x", Life: time.Hour, Hosts: []string{""}},
		"empty label": {Name: "x", Life: time.Hour, Hosts: []string{"a..b"}},
		"url":         {Name: "x", Life: time.Hour, Hosts: []string{"https://a"}},
		"wild inside": {Name: "x", Life: time.Hour, Hosts: []string{"a.*.b"}},
	} {
		if _, err := a.Issue(out, r, now); !errors.Is(err, ErrBad) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := a.Issue(out, Request{Name: "x", Life: time.Hour}, now.Add(life+time.Hour)); !errors.Is(err, ErrBad) {
		t.Error("an expired authority issues:", err)
	}
	if all, _ := os.ReadDir(out); len(all) > 0 {
		t.Error("bad requests left files:", all)
	}
	first, err := a.Issue(out, Request{Name: "x", Life: 20 * life}, now)
	if err != nil || first.NotAfter.After(a.Cert().NotAfter) {
		t.Fatal(first, err)
	}
	if _, err := a.Issue(out, Request{Name: "x", Life: time.Hour}, now); !errors.Is(err, ErrExists) {
		t.Error("replaced unasked:", err)
	}
	if _, err := a.Issue(out, Request{Name: "x", Life: time.Hour, Replace: true}, now); err != nil {
		t.Error(err)
	}
	for _, f := range []string{first.Key, filepath.Join(dir, "ca", keyFile)} {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", f, info, err)
		}
	}
	if all, _ := os.ReadDir(out); len(all) != 2 {
		t.Error("files that are left:", all)
	}
}

// TestDamagedAuthority: damaged files and a key of another authority are named.
func TestDamagedAuthority(t *testing.T) {
	for what, damage := range map[string]func(dir string) error{
		"empty certificate": func(d string) error { return os.WriteFile(filepath.Join(d, CertFile), nil, 0o600) },
		"broken certificate": func(d string) error {
			text := "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
			return os.WriteFile(filepath.Join(d, CertFile), []byte(text), 0o600)
		},
		"empty key":   func(d string) error { return os.WriteFile(filepath.Join(d, keyFile), nil, 0o600) },
		"missing key": func(d string) error { return os.Remove(filepath.Join(d, keyFile)) },
		"other key": func(d string) error {
			if _, err := Init(filepath.Join(d, "other"), "other", time.Now()); err != nil {
				return err
			}
			return os.Rename(filepath.Join(d, "other", keyFile), filepath.Join(d, keyFile))
		},
	} {
		dir := t.TempDir()
		if _, err := Init(dir, "test", time.Now()); err != nil {
			t.Fatal(err)
		}
		if err := damage(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestRotation: a listener and a caller use new files from the next connection on, without a new
// configuration. Files that do not fit together change nothing.
func TestRotation(t *testing.T) {
	now, dir := time.Now(), t.TempDir()
	a, err := Init(filepath.Join(dir, "ca"), "test", now)
	if err != nil {
		t.Fatal(err)
	}
	var files [2]guard.TLSFiles
	issue := func(i int, hosts ...string) {
		t.Helper()
		c, err := a.Issue(dir, Request{Name: "x" + string(rune('0'+i)), Hosts: hosts, Life: time.Hour, Replace: true}, now)
		if err != nil {
			t.Fatal(err)
		}
		files[i] = guard.TLSFiles{Cert: c.Cert, Key: c.Key, CA: a.CertPath()}
	}
	issue(0, "127.0.0.1")
	issue(1)
	sc, err := files[0].Server()
	if err != nil {
		t.Fatal(err)
	}
	cc, err := files[1].Client()
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", sc)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	// serials are those that the two ends of a new connection show.
	serials := func() (server, client string) {
		t.Helper()
		shown := make(chan string, 1)
		go func() {
			c, err := l.Accept()
			if err != nil {
				shown <- err.Error()
				return
			}
			defer c.Close()
			err = c.(*tls.Conn).HandshakeContext(t.Context())
			if peers := c.(*tls.Conn).ConnectionState().PeerCertificates; err == nil {
				shown <- peers[0].SerialNumber.String()
				return
			}
			shown <- err.Error()
		}()
		d := tls.Dialer{NetDialer: &net.Dialer{}, Config: cc}
		c, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String(), <-shown
	}
	s1, c1 := serials()
	if s, c := serials(); s != s1 || c != c1 {
		t.Error("unchanged files are read anew")
	}
	key, err := os.ReadFile(files[0].Key)
	if err != nil {
		t.Fatal(err)
	}
	issue(0, "127.0.0.1")
	good, err := os.ReadFile(files[0].Key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0].Key, key, 0o600); err != nil { // the old key beside the new certificate
		t.Fatal(err)
	}
	if s, _ := serials(); s != s1 {
		t.Errorf("half of a rotation: %s, not %s", s, s1)
	}
	if err := os.WriteFile(files[0].Key, good, 0o600); err != nil {
		t.Fatal(err)
	}
	s2, _ := serials()
	if s2 == s1 {
		t.Error("the server shows its old certificate")
	}
	issue(1)
	if s, c := serials(); s != s2 || c == c1 {
		t.Errorf("the client shows its old certificate: %s", c)
	}
	other, err := Init(filepath.Join(dir, "other"), "other", now) // a second authority joins the first
	if err != nil {
		t.Fatal(err)
	}
	both, err := os.ReadFile(a.CertPath())
	if err != nil {
		t.Fatal(err)
	}
	more, err := os.ReadFile(other.CertPath())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.CertPath(), append(both, more...), 0o600); err != nil {
		t.Fatal(err)
	}
	foreign, err := other.Issue(dir, Request{Name: "x1", Life: time.Hour, Replace: true}, now)
	if err != nil || foreign.Cert != files[1].Cert {
		t.Fatal(foreign, err)
	}
	if _, c := serials(); strings.Contains(c, " ") {
		t.Errorf("a client of the second authority: %s", c)
	}
}
