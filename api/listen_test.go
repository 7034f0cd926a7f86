package api_test

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"

	"cantina/api"
)

func TestListenersAreClosedToTheOutsideByDefault(t *testing.T) {
	for _, a := range []string{"0.0.0.0:0", ":0", "[::]:0"} {
		if ln, _, err := (api.Listener{Address: a}).Open(t.Context()); !errors.Is(err, api.ErrInsecure) || !strings.Contains(err.Error(), "--insecure-listen") {
			t.Errorf("%s: %v, %v", a, ln, err)
		}
	}
	ln, warning, err := (api.Listener{Address: "0.0.0.0:0", Insecure: true}).Open(t.Context())
	if err != nil || !strings.Contains(warning, "without protection") {
		t.Fatalf("%q, %v", warning, err)
	}
	_ = ln.Close()
	ln, warning, err = (api.Listener{Address: "127.0.0.1:0"}).Open(t.Context())
	if err != nil || warning != "" {
		t.Fatalf("%q, %v", warning, err)
	}
	defer ln.Close()
	if _, _, err := (api.Listener{Address: ln.Addr().String()}).Open(t.Context()); !errors.Is(err, api.ErrAddressInUse) {
		t.Fatalf("a port that is taken: %v", err)
	}
	if _, _, err := (api.Listener{Address: "nonsense"}).Open(t.Context()); err == nil {
		t.Fatal("no error")
	}
	if _, _, err := (api.Listener{Address: "127.0.0.1:0", TLS: api.TLSFiles{Cert: "x"}}).Open(t.Context()); !errors.Is(err, api.ErrCertificates) {
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
	ln, _, err := (api.Listener{Address: "unix:" + path}).Open(t.Context())
	if err != nil {
		t.Fatalf("a dead socket is replaced: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	if _, _, err := (api.Listener{Address: "unix:" + path}).Open(t.Context()); !errors.Is(err, api.ErrAddressInUse) {
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
	if _, _, err := (api.Listener{Address: "unix:" + path}).Open(t.Context()); err == nil {
		t.Fatal("a file that is no socket is not removed")
	}
}
