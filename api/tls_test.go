package api_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cantina/api"
	"cantina/internal/guard"
	pb "cantina/wire/cantinav1"
)

// authority makes certificates in a directory.
type authority struct {
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{dir: t.TempDir(), key: key}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.write(t, "ca", a.cert, key)
	return a
}

func (a *authority) write(t *testing.T, name string, c *x509.Certificate, key *ecdsa.PrivateKey) {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for suffix, block := range map[string]*pem.Block{".crt": {Type: "CERTIFICATE", Bytes: der},
		".key": {Type: "EC PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(a.dir, name+suffix), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// issue makes a certificate and returns its files together with those of ca.
func (a *authority) issue(t *testing.T, name string, ca *authority) guard.TLSFiles {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a.write(t, name, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, key)
	return guard.TLSFiles{Cert: filepath.Join(a.dir, name+".crt"), Key: filepath.Join(a.dir, name+".key"),
		CA: filepath.Join(ca.dir, "ca.crt")}
}

func TestOnlyCallersWithACertificateGetIn(t *testing.T) {
	w := newWorld(t)
	ca, unrelated := newAuthority(t), newAuthority(t)
	ln, err := guard.Listener{Address: "127.0.0.1:0", TLS: ca.issue(t, "server", ca)}.Open(t.Context())
	if err != nil || ln.Warning != "" {
		t.Fatal(ln, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- ln.Serve(ctx, w.server.Handler()) }()
	defer func() { stop(); <-done }()
	list := func(files guard.TLSFiles) error {
		conf, err := files.Client()
		if err != nil {
			t.Fatal(err)
		}
		c := api.NewClient(api.ClientConfig{Addresses: []string{ln.Addr().String()}, TLS: conf})
		defer c.Close()
		_, err = api.Call(t.Context(), c, calls.ListServices, &pb.ListServicesRequest{})
		return err
	}
	if err := list(ca.issue(t, "alice", ca)); err != nil {
		t.Fatal(err)
	}
	var e *api.Error
	for name, c := range map[string]struct {
		files guard.TLSFiles
		hint  string
	}{
		"a certificate of another authority": {unrelated.issue(t, "mallory", ca), "the server refuses this certificate"},
		"no certificate":                     {guard.TLSFiles{}, "the server uses TLS: give --tls-cert"},
		"another authority of the server": {ca.issue(t, "bob", unrelated),
			"the server's certificate is not signed by the CA of --tls-ca"},
	} {
		if err := list(c.files); !errors.As(err, &e) || e.Exit != api.ExitConnection ||
			!strings.Contains(e.Detail.Hint, c.hint) {
			t.Errorf("%s: %v, hint %q", name, err, e.Detail.GetHint())
		}
	}
}
