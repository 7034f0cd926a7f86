// Package bundle writes the archive of cantina debug bundle: a tar.gz with one file for each part, without
// secrets, of bounded size. A part that fails is listed in errors.txt, and the others are written.
//
//	verb ──► Writer.Add(name, read) ──► Scrub and Text remove secrets ──► tar.gz
package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"cantina/internal/text"
)

// Limits of an archive, before compression.
const (
	// MaxPart is the size of the largest part in bytes. Of a longer one the end is left out.
	MaxPart = 4 << 20
	maxAll  = 32 << 20
	// partTime is how long a part may take.
	partTime = 20 * time.Second
)

var errFull = errors.New("the bundle has reached its largest size")

// Writer writes an archive. Close it at the end.
type Writer struct {
	now     time.Time
	secrets []string
	zip     *gzip.Writer
	tar     *tar.Writer
	left    int
	failed  bytes.Buffer
	fault   error // of the archive itself
}

// New returns a writer to out, whose files have the time now. The secrets are those that the caller knows: they are
// removed wherever they stand.
func New(out io.Writer, now time.Time, secrets ...string) *Writer {
	zip := gzip.NewWriter(out)
	w := &Writer{now: now, zip: zip, tar: tar.NewWriter(zip), left: maxAll}
	for _, s := range secrets {
		if s != "" {
			w.secrets = append(w.secrets, s)
		}
	}
	return w
}

// Add writes a part. An error of read is noted beside what read returned.
func (w *Writer) Add(ctx context.Context, name string, read func(context.Context) ([]byte, error)) {
	ctx, cancel := context.WithTimeout(ctx, partTime)
	defer cancel()
	part, err := read(ctx)
	if len(part) > MaxPart {
		err = errors.Join(err, fmt.Errorf("has %d bytes: only the first %d are here", len(part), MaxPart))
		part = part[:MaxPart]
	}
	if len(part) > w.left {
		part, err = nil, errFull
	}
	if len(part) > 0 {
		w.left -= len(part)
		w.write(name, w.clean(part))
	}
	if err != nil {
		fmt.Fprintf(&w.failed, "%s: %s\n", name, text.Clean(err.Error()))
	}
}

// Missing lists a part that could not be read.
func (w *Writer) Missing(name, why string) { fmt.Fprintf(&w.failed, "%s: %s\n", name, why) }

// Failed is the list of the parts that are missing or incomplete.
func (w *Writer) Failed() string { return string(w.clean(w.failed.Bytes())) }

// clean removes secrets. A part that is no text, such as a profile, has no free text.
func (w *Writer) clean(part []byte) []byte {
	for _, s := range w.secrets {
		part = bytes.ReplaceAll(part, []byte(s), []byte(Removed))
	}
	if !utf8.Valid(part) {
		return part
	}
	return []byte(Text(string(part)))
}

func (w *Writer) write(name string, part []byte) {
	h := &tar.Header{Name: "cantina-debug/" + safe(name), Mode: 0o600, Size: int64(len(part)), ModTime: w.now}
	if err := w.tar.WriteHeader(h); err != nil {
		w.fault = errors.Join(w.fault, err)
		return
	}
	_, err := w.tar.Write(part)
	w.fault = errors.Join(w.fault, err)
}

// safe is a name as a path within the archive.
func safe(name string) string {
	name = strings.Map(func(r rune) rune {
		if strings.ContainsRune(`\:*?"<>| `, r) || r < ' ' {
			return '_'
		}
		return r
	}, name)
	return strings.ReplaceAll(name, "..", "_")
}

// Close writes errors.txt and ends the archive.
func (w *Writer) Close() error {
	report := w.failed.Bytes()
	if len(report) == 0 {
		report = []byte("every part is complete\n")
	}
	w.write("errors.txt", w.clean(report))
	return errors.Join(w.fault, w.tar.Close(), w.zip.Close())
}
