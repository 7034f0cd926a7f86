// Package ca is a certificate authority in a directory: it makes the certificates with which servers,
// cells and people prove themselves over mutual TLS (guard.TLSFiles). The private key of the
// authority stays in the directory; nothing else needs it.
package ca

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Names of the authority's files in its directory.
const (
	CertFile = "ca.pem"
	keyFile  = "ca.key"
)

// Errors of an authority.
var (
	// ErrExists: a file of that name exists, and is not replaced.
	ErrExists = errors.New("already exists")
	// ErrNoAuthority: the directory has none.
	ErrNoAuthority = errors.New("no certificate authority")
	// ErrBad: a name, a host or a lifetime that no certificate can have.
	ErrBad = errors.New("not valid in a certificate")
)

const (
	// life is how long an authority is valid.
	life = 10 * 365 * 24 * time.Hour
	// skew is the difference of clocks that a new certificate allows for.
	skew = time.Hour
	// maxName bounds a common name, as X.509 does.
	maxName = 64
)

// Authority issues certificates.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
}

// Init makes an authority in a directory, which is created with mode 0700. An existing one is left
// alone, with ErrExists: the certificates that it issued would become worthless.
func Init(dir, name string, now time.Time) (*Authority, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("directory of the authority: %w", err)
	}
	for _, f := range []string{CertFile, keyFile} {
		if _, err := os.Lstat(filepath.Join(dir, f)); !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(fmt.Errorf("%s: %w", filepath.Join(dir, f), ErrExists), err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("key of the authority: %w", err)
	}
	c := &x509.Certificate{SerialNumber: serial(), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-skew), NotAfter: now.Add(life), IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("certificate of the authority: %w", err)
	}
	if err := store(filepath.Join(dir, keyFile), filepath.Join(dir, CertFile), key, der); err != nil {
		return nil, err
	}
	return Open(dir)
}

// Open reads the authority of a directory; ErrNoAuthority if it has none.
func Open(dir string) (*Authority, error) {
	certPath, keyPath := filepath.Join(dir, CertFile), filepath.Join(dir, keyFile)
	text, err := os.ReadFile(certPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", dir, ErrNoAuthority)
	}
	if err != nil {
		return nil, fmt.Errorf("certificate of the authority: %w", err)
	}
	a := &Authority{dir: dir}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s: not a certificate", certPath)
	}
	if a.cert, err = x509.ParseCertificate(block.Bytes); err != nil {
		return nil, fmt.Errorf("%s: %w", certPath, err)
	}
	if text, err = os.ReadFile(keyPath); err != nil {
		return nil, fmt.Errorf("key of the authority: %w", err)
	}
	if block, _ = pem.Decode(text); block == nil {
		return nil, fmt.Errorf("%s: not a key", keyPath)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyPath, err)
	}
	signer, ok := key.(*ecdsa.PrivateKey)
	if !ok || !signer.PublicKey.Equal(a.cert.PublicKey) {
		return nil, fmt.Errorf("%s is not the key of %s", keyPath, certPath)
	}
	a.key = signer
	return a, nil
}

// Cert is the certificate of the authority.
func (a *Authority) Cert() *x509.Certificate { return a.cert }

// CertPath is its file, needed to check certificates.
func (a *Authority) CertPath() string { return filepath.Join(a.dir, CertFile) }

// Request describes a certificate.
type Request struct {
	// Name is its common name, and the name of its files: NAME.pem and NAME.key.
	Name string
	// Hosts are the host names and IP addresses at which its owner listens. One without hosts is a
	// client: it only makes calls.
	Hosts []string
	// Life is how long it is valid; never longer than the authority.
	Life time.Duration
	// Replace allows existing files to be replaced, each by a rename.
	Replace bool
}

// Issued has the files of a new certificate.
type Issued struct {
	Cert, Key string
	NotAfter  time.Time
}

// Issue makes a key and a certificate, and writes them into a directory. An existing file is left
// alone, with ErrExists, unless the request replaces it.
func (a *Authority) Issue(dir string, r Request, now time.Time) (Issued, error) {
	c, err := a.template(r, now)
	if err != nil {
		return Issued{}, err
	}
	out := Issued{Cert: filepath.Join(dir, r.Name+".pem"), Key: filepath.Join(dir, r.Name+".key"), NotAfter: c.NotAfter}
	for _, f := range []string{out.Cert, out.Key} {
		if _, err := os.Lstat(f); !errors.Is(err, fs.ErrNotExist) && !r.Replace {
			return Issued{}, errors.Join(fmt.Errorf("%s: %w", f, ErrExists), err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Issued{}, fmt.Errorf("key of %s: %w", r.Name, err)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return Issued{}, fmt.Errorf("certificate of %s: %w", r.Name, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Issued{}, fmt.Errorf("directory of the certificate: %w", err)
	}
	return out, store(out.Key, out.Cert, key, der)
}

// template is the certificate of a request.
func (a *Authority) template(r Request, now time.Time) (*x509.Certificate, error) {
	if err := checkName(r.Name); err != nil {
		return nil, err
	}
	if r.Name+".pem" == CertFile {
		return nil, fmt.Errorf("name %q is that of the authority's own files: %w", r.Name, ErrBad)
	}
	if r.Life <= 0 {
		return nil, fmt.Errorf("lifetime %v: %w", r.Life, ErrBad)
	}
	c := &x509.Certificate{SerialNumber: serial(), Subject: pkix.Name{CommonName: r.Name},
		NotBefore: now.Add(-skew), NotAfter: now.Add(r.Life), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if c.NotAfter.After(a.cert.NotAfter) {
		c.NotAfter = a.cert.NotAfter
	}
	if !c.NotAfter.After(now) {
		return nil, fmt.Errorf("the certificate authority has expired at %s: %w",
			a.cert.NotAfter.UTC().Format(time.RFC3339), ErrBad)
	}
	for _, h := range r.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
			continue
		}
		if err := checkHost(h); err != nil {
			return nil, err
		}
		c.DNSNames = append(c.DNSNames, h)
	}
	if len(r.Hosts) > 0 {
		c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	return c, nil
}

// checkName accepts plain names of files only.
func checkName(name string) error {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)
	}
	if name == "" || len(name) > maxName || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "-") ||
		strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }) {
		return fmt.Errorf("name %q: %w; a name has 1 to %d letters, digits, dots, dashes and underscores, and begins "+
			"with a letter, a digit or an underscore", name, ErrBad, maxName)
	}
	return nil
}

// checkHost accepts host names only.
func checkHost(h string) error {
	bad := fmt.Errorf("host %q: %w; give a host name or an IP address, without a port", h, ErrBad)
	if len(h) > 253 {
		return bad
	}
	for i, label := range strings.Split(h, ".") {
		wild := i == 0 && label == "*"
		if !wild && (label == "" || len(label) > 63 || checkName(strings.Trim(label, "-")) != nil) {
			return bad
		}
	}
	return nil
}

// serial is a random number of 127 bits.
func serial() *big.Int {
	var b [16]byte
	rand.Read(b[:])
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b[:])
}

// store writes a key with mode 0600, and its certificate after it.
func store(keyPath, certPath string, key *ecdsa.PrivateKey, der []byte) error {
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("key: %w", err)
	}
	if err := replace(keyPath, 0o600, &pem.Block{Type: "PRIVATE KEY", Bytes: text}); err != nil {
		return err
	}
	return replace(certPath, 0o644, &pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// replace writes a file under another name, and renames it.
func replace(path string, mode fs.FileMode, b *pem.Block) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(f.Name())
	err = errors.Join(f.Chmod(mode), pem.Encode(f, b), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// Listed is a certificate in a file.
type Listed struct {
	Name, File string
	Use        string // "authority", "server and client" or "client"
	Hosts      string // separated by commas
	NotAfter   time.Time
}

// List reads the certificates of a directory, in order of file name: the first one of each file whose
// name ends in .pem. Files without a certificate are left out.
func List(dir string) ([]Listed, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	var all []Listed
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".pem") || !e.Type().IsRegular() {
			continue
		}
		path := filepath.Join(dir, e.Name())
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("certificates: %w", err)
		}
		block, _ := pem.Decode(text)
		if block == nil || block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		hosts := slices.Clone(c.DNSNames)
		for _, ip := range c.IPAddresses {
			hosts = append(hosts, ip.String())
		}
		x := Listed{Name: c.Subject.CommonName, File: path, Use: "client", Hosts: strings.Join(hosts, ","),
			NotAfter: c.NotAfter}
		switch {
		case c.IsCA:
			x.Use = "authority"
		case slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageServerAuth):
			x.Use = "server and client"
		}
		all = append(all, x)
	}
	return all, nil
}
