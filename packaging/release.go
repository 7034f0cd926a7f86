package packaging

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Release names the source of a release.
type Release struct {
	// Version is the text that cantina version prints.
	Version string
	// Next is the version in progress, from the changelog: a Debian package of a commit is older than it.
	Next string
	// Time is that of the commit; all files have it.
	Time time.Time
	// Source is the root directory of the source.
	Source string
}

// Build is one built program, with pages that a build for this machine has printed.
type Build struct {
	// Arch is its GOARCH.
	Arch string
	// Program is the path of the program.
	Program string
	// Pages has the manual pages, and the completion scripts bash, zsh and fish.
	Pages string
}

var (
	heading  = regexp.MustCompile(`(?m)^## \[?v?(\d+\.\d+\.\d+)`)
	numbered = regexp.MustCompile(`^v?\d+\.\d+\.\d+`)
)

// NextVersion returns the newest version of a changelog.
func NextVersion(changelog []byte) (string, error) {
	m := heading.FindSubmatch(changelog)
	if m == nil {
		return "", errors.New("the changelog has no heading of the form ## 1.2.3")
	}
	return string(m[1]), nil
}

// debVersion is the version of the Debian package.
func (r Release) debVersion() string {
	if numbered.MatchString(r.Version) {
		return strings.ReplaceAll(strings.TrimPrefix(r.Version, "v"), "-", "~")
	}
	return r.Next + "~" + r.Time.UTC().Format("20060102150405") + "." + strings.ReplaceAll(r.Version, "-", ".")
}

// file is one file of a package, with its path there.
type file struct {
	to   string
	mode int64
	data []byte
}

// common are the files of both kinds of packages, with directories as in a Debian system.
func (r Release) common(b Build) ([]file, error) {
	var out []file
	add := func(from, to string, mode int64, pack bool) error {
		data, err := os.ReadFile(from)
		if err == nil && pack {
			data, err = compress(data)
		}
		out = append(out, file{to, mode, data})
		return err
	}
	pages, err := filepath.Glob(filepath.Join(b.Pages, "*.1"))
	if err != nil || len(pages) == 0 {
		return nil, errors.Join(err, fmt.Errorf("no manual pages in %s", b.Pages))
	}
	slices.Sort(pages)
	failed := []error{
		add(b.Program, "usr/bin/cantina", 0o755, false),
		add(filepath.Join(r.Source, "LICENSE"), "usr/share/doc/cantina/copyright", 0o644, false),
		add(filepath.Join(r.Source, "CHANGELOG.md"), "usr/share/doc/cantina/changelog.gz", 0o644, true),
		add(filepath.Join(b.Pages, "bash"), "usr/share/bash-completion/completions/cantina", 0o644, false),
		add(filepath.Join(b.Pages, "zsh"), "usr/share/zsh/vendor-completions/_cantina", 0o644, false),
		add(filepath.Join(b.Pages, "fish"), "usr/share/fish/vendor_completions.d/cantina.fish", 0o644, false),
	}
	for _, p := range pages {
		failed = append(failed, add(p, "usr/share/man/man1/"+filepath.Base(p)+".gz", 0o644, true))
	}
	return out, errors.Join(failed...)
}

func compress(data []byte) ([]byte, error) {
	var to bytes.Buffer
	w, err := gzip.NewWriterLevel(&to, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(data)
	return to.Bytes(), errors.Join(err, w.Close())
}

// Archive writes the program, its pages and its unit files below one directory.
func (r Release) Archive(b Build, to string) error {
	files, err := r.common(b)
	if err != nil {
		return err
	}
	units, err := unitFiles()
	if err != nil {
		return err
	}
	top := strings.TrimSuffix(filepath.Base(to), ".tar.gz")
	return create(to, func(w io.Writer) error {
		z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
		if err != nil {
			return err
		}
		return errors.Join(r.writeTar(z, top, append(files, units...), nil), z.Close())
	})
}

// writeTar writes files with all their directories. own are directories of the user 65532.
func (r Release) writeTar(to io.Writer, top string, files []file, own []string) error {
	w := tar.NewWriter(to)
	seen := map[string]bool{"": true, ".": true, "/": true}
	var parent func(dir string) error
	parent = func(dir string) error {
		if seen[dir] {
			return nil
		}
		seen[dir] = true
		if err := parent(path.Dir(dir)); err != nil {
			return err
		}
		h := &tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: r.Time, Format: tar.FormatPAX}
		if slices.Contains(own, dir) {
			h.Mode, h.Uid, h.Gid = 0o700, imageUser, imageUser
		}
		return w.WriteHeader(h)
	}
	for _, dir := range own {
		if err := parent(path.Join(top, dir)); err != nil {
			return err
		}
	}
	for _, f := range files {
		name := path.Join(top, f.to)
		if err := parent(path.Dir(name)); err != nil {
			return err
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: f.mode, Size: int64(len(f.data)), ModTime: r.Time,
			Format: tar.FormatPAX}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(f.data); err != nil {
			return err
		}
	}
	return w.Close()
}

// create writes a file, and removes it if that fails.
func create(to string, write func(io.Writer) error) error {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		os.Remove(to)
		return fmt.Errorf("write %s: %w", to, err)
	}
	return nil
}

// Sums writes SHA256SUMS, in the format of sha256sum, over all other files of a directory.
func Sums(dir string) error {
	all, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, e := range all { // in the order of their names
		if e.IsDir() || e.Name() == "SHA256SUMS" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(text.String()), 0o644)
}
