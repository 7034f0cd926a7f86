package image

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// TestCredentials: a registry that requires a password gets the one in the file, also after a change of the file.
// The password is in no error and no log.
func TestCredentials(t *testing.T) {
	const user, password = "puller", "s3cret-of-the-registry"
	open := false
	h := newHub(t)
	h.before = func(w http.ResponseWriter, r *http.Request) bool {
		u, p, _ := r.BasicAuth()
		if open || u == user && p == password {
			return true
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		http.Error(w, `{"errors":[{"code":"UNAUTHORIZED"}]}`, http.StatusUnauthorized)
		return false
	}
	host := strings.TrimPrefix(h.URL, "http://")
	img, err := random.Image(1000, 2)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(host + "/private/app:v1")
	if err != nil {
		t.Fatal(err)
	}
	open = true
	if err := remote.Write(ref, img); err != nil {
		t.Fatal(err)
	}
	open = false
	file := filepath.Join(t.TempDir(), "config.json")
	login := func(u, p string) {
		auth := base64.StdEncoding.EncodeToString([]byte(u + ":" + p))
		if err := os.WriteFile(file, fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, host, auth), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	login(user, "wrong-"+password)
	keychain, err := FileKeychain(file)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	st, err := Open(t.TempDir(), Config{Keychain: keychain,
		Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	pinned := host + "/private/app@" + digest.String()
	_, err = st.Get(context.Background(), pinned)
	if err == nil {
		t.Fatal("pulled with a wrong password")
	}
	for _, secret := range []string{password, base64.StdEncoding.EncodeToString([]byte(user + ":wrong-" + password))} {
		if strings.Contains(err.Error()+log.String(), secret) {
			t.Errorf("a secret is printed: %v; %s", err, &log)
		}
	}
	login(user, password)
	i, err := st.Get(context.Background(), pinned)
	if err != nil {
		t.Fatal(err)
	}
	i.Close()
	if i.Digest != digest.String() || strings.Contains(log.String(), password) {
		t.Errorf("digest %s, log %s", i.Digest, &log)
	}
}

// TestDamagedCredentials: the error names the fault of the file without its content.
func TestDamagedCredentials(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.json")
	for _, text := range []string{`{"auths":{"r":{"auth":"hunter2`, `hunter2`, `{"auths":{"r":{"auth":"hunter2!!"}}}`} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		k, err := FileKeychain(file)
		if err == nil {
			r, rerr := name.NewRegistry("r.example")
			if rerr != nil {
				t.Fatal(rerr)
			}
			_, err = k.Resolve(r)
		}
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
