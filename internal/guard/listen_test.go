package guard_test

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"

	"cantina/internal/guard"
)

var token = guard.NewToken("0123456789abcdef")

func TestListenersAreClosedToTheOutsideByDefault(t *testing.T) {
	for _, a := range []string{"0.0.0.0:0", ":0", "[::]:0"} {
		if ln, err := (guard.Listener{Address: a}).Open(t.Context()); !errors.Is(err, guard.ErrInsecure) ||
			!strings.Contains(err.Error(), "--insecure-listen") {
			t.Errorf("%s: %v, %v", a, ln, err)
		}
	}
	ln, err := (guard.Listener{Address: "0.0.0.0:0", Insecure: true}).Open(t.Context())
	if err != nil || !strings.Contains(ln.Warning, "without protection") {
		t.Fatalf("%v, %v", ln, err)
	}
	_ = ln.Close()
	for _, insecure := range []bool{false, true} {
		if _, err := (guard.Listener{Address: "127.0.0.1:0", Insecure: insecure}).Open(t.Context()); !errors.Is(err,
			guard.ErrInsecure) {
			t.Errorf("a loopback port without a token: %v", err)
		}
	}
	ln, err = (guard.Listener{Address: "127.0.0.1:0", Token: token}).Open(t.Context())
	if err != nil || ln.Warning != "" {
		t.Fatalf("%v, %v", ln, err)
	}
	defer ln.Close()
	if _, err := (guard.Listener{Address: ln.Addr().String(), Token: token}).Open(t.Context()); !errors.Is(err,
		guard.ErrAddressInUse) {
		t.Fatalf("a port that is taken: %v", err)
	}
	if _, err := (guard.Listener{Address: "nonsense"}).Open(t.Context()); err == nil {
		t.Fatal("no error")
	}
	if _, err := (guard.Listener{Address: "127.0.0.1:0",
		TLS: guard.TLSFiles{Cert: "x"}}).Open(t.Context()); !errors.Is(err, guard.ErrCertificates) {
		t.Fatalf("half of the files: %v", err)
	}
}

func TestUnixSocket(t *testing.T) {
	path := t.TempDir() + "/s.sock"
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	_ = dead.Close() // as after kill -9: the file stays
	ln, err := (guard.Listener{Address: "unix:" + path}).Open(t.Context())
	if err != nil {
		t.Fatalf("a dead socket is replaced: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	if _, err := (guard.Listener{Address: "unix:" + path}).Open(t.Context()); !errors.Is(err, guard.ErrAddressInUse) {
		t.Fatalf("a socket in use: %v", err)
	}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the socket file stayed: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (guard.Listener{Address: "unix:" + path}).Open(t.Context()); err == nil {
		t.Fatal("a file that is no socket is not removed")
	}
}
