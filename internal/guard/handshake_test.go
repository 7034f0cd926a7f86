package guard

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestACertificateThatPeersRefuseIsFoundAtStart, with the use that it does not allow.
func TestACertificateThatPeersRefuseIsFoundAtStart(t *testing.T) {
	const later = time.Hour
	client, server := x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth
	for name, c := range map[string]struct {
		lasts          time.Duration
		uses           []x509.ExtKeyUsage
		client, server string // of the errors; empty = accepted
	}{
		"any use":   {later, nil, "", ""},
		"both":      {later, []x509.ExtKeyUsage{client, server}, "", ""},
		"anything":  {later, []x509.ExtKeyUsage{x509.ExtKeyUsageAny}, "", ""},
		"client":    {later, []x509.ExtKeyUsage{client}, "", "serverAuth"},
		"server":    {later, []x509.ExtKeyUsage{server}, "clientAuth", ""},
		"mail only": {later, []x509.ExtKeyUsage{x509.ExtKeyUsageEmailProtection}, "clientAuth", "serverAuth"},
		"expired":   {-later, []x509.ExtKeyUsage{client, server}, "has expired", "has expired"},
	} {
		f := certificate(t, c.lasts, c.uses)
		_, cerr := f.Client()
		_, serr := f.Server()
		for _, got := range []struct {
			err  error
			want string
		}{{cerr, c.client}, {serr, c.server}} {
			if (got.err != nil) != (got.want != "") || got.err != nil && (!errors.Is(got.err, ErrCertificates) ||
				!strings.Contains(got.err.Error(), got.want) || !strings.Contains(got.err.Error(), f.Cert)) {
				t.Errorf("%s: %v, want %q", name, got.err, got.want)
			}
		}
	}
}

func certificate(t *testing.T, lasts time.Duration, uses []x509.ExtKeyUsage) TLSFiles {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(lasts), ExtKeyUsage: uses}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	f := TLSFiles{Cert: filepath.Join(t.TempDir(), "c.pem"), Key: filepath.Join(t.TempDir(), "c.key")}
	f.CA = f.Cert
	for path, b := range map[string]*pem.Block{f.Cert: {Type: "CERTIFICATE", Bytes: der},
		f.Key: {Type: "EC PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// TestHandshakesInTheLog: in its format, and the same failure of a caller once a minute.
func TestHandshakesInTheLog(t *testing.T) {
	var out strings.Builder
	now := time.Unix(1000, 0)
	l := &serverLog{log: slog.New(slog.NewTextHandler(&out, nil)), now: func() time.Time { return now },
		seen: map[string]time.Time{}}
	const bad = "http: TLS handshake error from 10.0.0.1:%s: tls: bad certificate\n"
	for _, line := range []string{
		strings.Replace(bad, "%s", "4001", 1), strings.Replace(bad, "%s", "4002", 1),
		"http: TLS handshake error from [::1]:4003: tls: bad certificate\n",
		"http: TLS handshake error from 10.0.0.1:4004: EOF\n", "http: Accept error: too many open files\n",
	} {
		if n, err := l.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	now = now.Add(handshakeAgain)
	if _, err := l.Write([]byte(strings.Replace(bad, "%s", "4005", 1))); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		_, text, _ := strings.Cut(strings.TrimSpace(line), "level=")
		got = append(got, text)
	}
	const from1 = `WARN msg="TLS handshake failed" from=10.0.0.1 error="tls: bad certificate"`
	if want := []string{from1, `WARN msg="TLS handshake failed" from=::1 error="tls: bad certificate"`,
		`WARN msg="HTTP server" error="http: Accept error: too many open files"`, from1}; strings.Join(got, "\n") !=
		strings.Join(want, "\n") {
		t.Errorf("%s", out.String())
	}
}
