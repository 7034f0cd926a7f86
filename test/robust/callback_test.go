package robust

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestCallbackIsSigned: a receiver of the end of a task can verify that this cluster sent it, by a shared secret
// from a file.
func TestCallbackIsSigned(t *testing.T) {
	const secret = "0123456789abcdef-secret"
	type delivery struct{ signature, body string }
	got := make(chan delivery, 16)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- delivery{r.Header.Get("Cantina-Signature"), string(body)}
	}))
	defer s.Close()
	d := startDev(t, tempDir(t), "--callback-secret-file", write(t, "secret", secret+"\n"))
	apply(t, d.wait().Addr, fmt.Sprintf("tasks:\n  t: {command: ['true'], callback: '%s/done'}\n", s.URL))
	select {
	case x := <-got:
		stamp, ok := strings.CutPrefix(x.signature, "t=")
		stamp, sum, also := strings.Cut(stamp, ",v1=")
		mac := hmac.New(sha256.New, []byte(secret))
		io.WriteString(mac, stamp+"."+x.body)
		if want := hex.EncodeToString(mac.Sum(nil)); !ok || !also || sum != want {
			t.Errorf("signature %q of %s, want v1=%s", x.signature, x.body, want)
		}
	case <-t.Context().Done():
	}
	if r := cli(t, "", "dev", "--data", tempDir(t), "--callback-secret-file", write(t, "short", "x\n")); r.code != 2 ||
		!strings.Contains(r.err, "at least 16") {
		t.Errorf("a secret of one byte: code %d, %s", r.code, r.err)
	}
}
