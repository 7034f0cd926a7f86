package executor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"cantina/action"
)

// maxSecret is the longest content of a secret, in bytes. One line end after it is cut off.
const maxSecret = 64 << 10

// ErrSecret reports a secret that the cell does not have.
var ErrSecret = errors.New("cannot read a secret")

// secrets reads the files of a domain, each anew, so that a program gets the present contents. No path and no
// symbolic link leads out of the directory of the domain.
func (e *Executor) secrets(domain string, files []action.SecretFile) ([]action.Variable, error) {
	if len(files) == 0 {
		return nil, nil
	}
	if e.cfg.Secrets == "" {
		return nil, fmt.Errorf("%w %s: this cell has no --secrets directory", ErrSecret, files[0].Name)
	}
	if domain == "" || strings.ContainsRune(domain, filepath.Separator) || !filepath.IsLocal(domain) || domain == "." {
		return nil, fmt.Errorf("%w %s: domain %q cannot be the name of a directory", ErrSecret, files[0].Name, domain)
	}
	dir := filepath.Join(e.cfg.Secrets, domain)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrSecret, files[0].Name, err)
	}
	out := make([]action.Variable, 0, len(files))
	for _, f := range files {
		value, err := readSecret(root, f.File)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%w %s: file %s: %w", ErrSecret, f.Name, filepath.Join(dir, f.File), err),
				root.Close())
		}
		out = append(out, action.Variable{Name: f.Name, Value: value})
	}
	return out, root.Close()
}

func readSecret(root *os.Root, name string) (value string, err error) {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe would wait for its writer
	if err != nil {
		if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
			err = failed.Err // the caller names the file
		}
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", errors.Join(err, errors.New("not a regular file"))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	switch {
	case err != nil:
		return "", err
	case len(text) > maxSecret:
		return "", fmt.Errorf("more than %d bytes", maxSecret)
	case strings.ContainsRune(string(text), 0):
		return "", errors.New("it contains a NUL byte, which no variable can have")
	}
	value = strings.TrimSuffix(string(text), "\n")
	return strings.TrimSuffix(value, "\r"), nil
}
