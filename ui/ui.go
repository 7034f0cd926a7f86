// Package ui has the web UI: a single page in TypeScript, built into dist and embedded in the program.
//
//	src (TypeScript, Preact) ──► Vite (scripts/ui) ──► dist (committed) ──► Handler, below /ui/
//
// The handler serves the files of dist and nothing else. It knows no data: the page reads and writes
// through /v1 with its own key, as every client does (docs/ui.md, docs/decisions/0900).
package ui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:embed dist
var dist embed.FS

// Policy is the Content-Security-Policy of every file: the page loads its own files and calls its own
// server, and nothing else. No script or style is inline, and no page may frame it.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// file is one file of dist, ready to send.
type file struct {
	content, packed []byte // packed is nil if gzip saves nothing
	kind, tag       string
}

// Handler serves the page below prefix, which begins and ends with a slash. It panics if dist cannot be
// read, which cannot happen with embedded files.
func Handler(prefix string) http.Handler {
	files := load()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, prefix)
		if name == "" {
			name = "index.html"
		}
		f, ok := files[name]
		if !ok {
			http.Error(w, "file not found", http.StatusNotFound)
			return
		}
		f.serve(w, r)
	})
}

func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", Policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", "no-cache") // a new version is seen at the next load
	h.Set("Vary", "Accept-Encoding")
	h.Set("ETag", f.tag)
	if r.Header.Get("If-None-Match") == f.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	content := f.content
	if f.packed != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		content = f.packed
	}
	if r.Method != http.MethodHead {
		_, _ = w.Write(content) // a client that went away needs no answer
	}
}

// kinds are the media types of the files, which do not depend on the machine's own table.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}

func load() map[string]*file {
	files := map[string]*file{}
	err := fs.WalkDir(dist, "dist", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := dist.ReadFile(p)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		f := &file{content: content, packed: pack(content), kind: kinds[path.Ext(p)], tag: `"` + hex.EncodeToString(sum[:8]) +
			`"`}
		files[strings.TrimPrefix(p, "dist/")] = f
		return nil
	})
	if err != nil {
		panic("ui: embedded files: " + err.Error())
	}
	return files
}

// pack compresses a file; nil if that saves nothing.
func pack(content []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is valid
	_, _ = w.Write(content)                               // a buffer has no errors
	_ = w.Close()
	if b.Len() >= len(content) {
		return nil
	}
	return b.Bytes()
}
