package guard

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"cantina/internal/secret"
)

// ErrTokenFile reports a file of a token that cannot be used.
var ErrTokenFile = errors.New("not usable as the file of a token")

// Token is the secret that a caller sends to a loopback port. The zero value is none.
type Token struct {
	text  secret.Text
	owner int // owner of its file: the user whose ports are trusted with it
	path  string
}

// minToken is the least length of a token, in bytes.
const minToken = 16

// NewToken is a token without a file.
func NewToken(text string) Token { return Token{text: secret.New(text), owner: os.Geteuid()} }

// IsZero reports whether there is none.
func (t Token) IsZero() bool { return t.text.IsZero() }

// Reveal returns the token.
func (t Token) Reveal() string { return t.text.Reveal() }

// Path is the token's file; empty = none.
func (t Token) Path() string { return t.path }

// ReadToken reads the token of a file. A file that others can also read is refused with
// ErrTokenFile: its readers control the machine. The error is fs.ErrNotExist if there is no file.
func ReadToken(path string) (Token, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return Token{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Token{}, err
	}
	if !info.Mode().IsRegular() {
		return Token{}, fmt.Errorf("%s: %w: not a plain file", path, ErrTokenFile)
	}
	if others := info.Mode().Perm() & 0o077; others != 0 {
		return Token{},
			fmt.Errorf("%s: %w: others may use it (mode %04o); delete it, and start the server again: another token is made",
				path, ErrTokenFile, info.Mode().Perm())
	}
	text := make([]byte, 4096)
	n, err := f.Read(text)
	word := strings.TrimSpace(string(text[:n]))
	switch {
	case n > 0 && (len(word) < minToken || n == len(text) ||
		strings.ContainsFunc(word, func(r rune) bool { return r <= ' ' || r > '~' })):
		return Token{}, fmt.Errorf("%s: %w: a token is one word of %d to 4095 plain characters", path, ErrTokenFile, minToken)
	case n == 0:
		return Token{}, fmt.Errorf("%s: %w: it is empty (%w); delete it", path, ErrTokenFile, err)
	}
	return Token{text: secret.New(word), owner: int(info.Sys().(*syscall.Stat_t).Uid), path: path}, nil
}

// OpenToken reads the token of a file, and makes it when there is none: all processes
// that start at once get the same.
func OpenToken(path string) (Token, error) {
	t, err := ReadToken(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return Token{}, fmt.Errorf("directory of the token: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".token-*") // mode 0600
	if err != nil {
		return Token{}, fmt.Errorf("file of the token: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = fmt.Fprintln(f, rand.Text())
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return Token{}, fmt.Errorf("file of the token: %w", err)
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) { // the first process creates it
		return Token{}, fmt.Errorf("file of the token: %w", err)
	}
	return ReadToken(path)
}

// scheme is how HTTP calls a token in a header.
const scheme = "Bearer "

// Sign puts the token into a request.
func (t Token) Sign(h http.Header) {
	if !t.IsZero() {
		h.Set("Authorization", scheme+t.text.Reveal())
	}
}

// shown reports whether a request shows the token.
func (t Token) shown(h http.Header) bool {
	return subtle.ConstantTimeCompare([]byte(bearer(h)), []byte(t.text.Reveal())) == 1
}

// bearer returns the token that a request shows; empty = none.
func bearer(h http.Header) string {
	given := h.Get("Authorization")
	if len(given) <= len(scheme) || !strings.EqualFold(given[:len(scheme)], scheme) {
		return ""
	}
	return strings.TrimSpace(given[len(scheme):])
}
