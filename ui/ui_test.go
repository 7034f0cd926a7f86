package ui

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func answer(path string, header ...string) *http.Response {
	q := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	Handler("/ui/").ServeHTTP(w, q)
	return w.Result()
}

// TestEveryFileIsServed: each with its type, its policy and a tag, packed or not, and nothing beside them.
func TestEveryFileIsServed(t *testing.T) {
	seen := 0
	err := fs.WalkDir(dist, "dist", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		seen++
		want, _ := dist.ReadFile(path)
		at := "/ui/" + strings.TrimPrefix(path, "dist/")
		r := answer(at)
		got, _ := io.ReadAll(r.Body)
		if r.StatusCode != 200 || !bytes.Equal(got, want) || r.Header.Get("Content-Type") == "" ||
			r.Header.Get("Content-Security-Policy") != Policy {
			t.Errorf("%s: %d, %d of %d bytes, %v", at, r.StatusCode, len(got), len(want), r.Header)
		}
		if r := answer(at, "Accept-Encoding", "gzip"); r.Header.Get("Content-Encoding") == "gzip" {
			unpacked, err := gzip.NewReader(r.Body)
			if err != nil {
				return err
			}
			if got, err := io.ReadAll(unpacked); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s packed: %v, %d of %d bytes", at, err, len(got), len(want))
			}
		}
		if r := answer(at, "If-None-Match", r.Header.Get("ETag")); r.StatusCode != http.StatusNotModified {
			t.Errorf("%s again: %d", at, r.StatusCode)
		}
		return nil
	})
	if err != nil || seen < 4 {
		t.Errorf("%d files, %v", seen, err)
	}
	if r := answer("/ui/"); r.StatusCode != 200 || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") {
		t.Errorf("the page: %d %v", r.StatusCode, r.Header)
	}
	for _, path := range []string{"/ui/none", "/ui/dist/app.js", "/ui/../ui.go", "/ui//app.js", "/ui/app.js/"} {
		if r := answer(path); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
}

// TestThePageIsPlain: no script and no style is inline, and no file names another host.
func TestThePageIsPlain(t *testing.T) {
	page, err := dist.ReadFile("dist/index.html")
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{`<script>`, `<style`, ` style=`, `javascript:`, ` on[a-z]+=`} {
		if regexp.MustCompile(bad).Match(page) {
			t.Errorf("index.html has %s", bad)
		}
	}
	names := regexp.MustCompile(`(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}`)
	allowed := map[string]bool{"http://www.w3.org": true} // names of XML, which are never loaded
	for _, file := range []string{"index.html", "app.js", "app.css", "icon.svg"} {
		text, err := dist.ReadFile("dist/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names.FindAllString(string(text), -1) {
			if !allowed[n] {
				t.Errorf("%s names %s", file, n)
			}
		}
	}
}
