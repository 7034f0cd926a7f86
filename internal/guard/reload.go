package guard

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"sync"
	"syscall"
	"time"
)

// rotation re-reads the files of mutual TLS when they change, so that a new certificate needs no
// restart. While the files do not fit together, as between the writes of two of them, the last good
// ones remain in use.
type rotation struct {
	files TLSFiles
	use   x509.ExtKeyUsage

	mu   sync.Mutex
	seen [3]fileState
	cert *tls.Certificate
	pool *x509.CertPool
}

// fileState distinguishes two contents of a file.
type fileState struct {
	inode uint64
	size  int64
	mtime time.Time
}

// rotate reads the files for the first time.
func (f TLSFiles) rotate(use x509.ExtKeyUsage) (*rotation, error) {
	r := &rotation{files: f, use: use, seen: f.state()}
	cert, pool, err := f.load(use)
	r.cert, r.pool = &cert, pool
	return r, err
}

func (f TLSFiles) state() (s [3]fileState) {
	for i, path := range []string{f.Cert, f.Key, f.CA} {
		if info, err := os.Stat(path); err == nil {
			s[i] = fileState{info.Sys().(*syscall.Stat_t).Ino, info.Size(), info.ModTime()}
		}
	}
	return s
}

// now returns the present certificate and authorities.
func (r *rotation) now() (*tls.Certificate, *x509.CertPool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.files.state()
	if s == r.seen {
		return r.cert, r.pool
	}
	if cert, pool, err := r.files.load(r.use); err == nil {
		r.cert, r.pool, r.seen = &cert, pool, s
	}
	return r.cert, r.pool
}
