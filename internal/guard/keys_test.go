package guard

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func request(method, path string, header ...string) *http.Request {
	q := httptest.NewRequest(method, "/", nil)
	q.URL.Path, q.Host = path, "127.0.0.1:1"
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	return q
}

// TestKeys: a key is valid for a day after its last use, in the process that made it; only so many are kept.
func TestKeys(t *testing.T) {
	now := time.Duration(0)
	k := NewKeys(func() time.Duration { return now })
	show := func(key string) bool { return k.shown(http.Header{"Authorization": {"Bearer " + key}}) }
	first, second := k.New().Reveal(), k.New().Reveal()
	if first == second || !show(first) || show("") || show(first[1:]) || show(first+"A") {
		t.Fatal("the wrong keys are accepted")
	}
	now = keyIdle
	if !show(first) {
		t.Error("a key ends before its time")
	}
	now += time.Second
	if show(second) {
		t.Error("a key that was not used for a day is accepted")
	}
	now += keyIdle - time.Second
	if !show(first) {
		t.Error("use does not extend a key")
	}
	now++
	for range maxKeys {
		k.New()
	}
	if show(first) || len(k.used) != maxKeys {
		t.Errorf("the oldest of %d keys is accepted", len(k.used))
	}
	if other := NewKeys(func() time.Duration { return now }); other.shown(http.Header{"Authorization": {"Bearer " +
		first}}) {
		t.Error("another process accepts a key")
	}
	if (*Keys)(nil).shown(http.Header{"Authorization": {"Bearer "}}) {
		t.Error("no keys accept a key")
	}
}

// TestPage: the files of the web UI need no token, and a link of another site opens them in a tab; no
// other path and no other request gains anything from that.
func TestPage(t *testing.T) {
	keys := NewKeys(func() time.Duration { return 0 })
	d := &Door{token: NewToken("0123456789abcdef"), keys: keys}
	key := "Bearer " + keys.New().Reveal()
	link := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	for name, c := range map[string]struct {
		q  *http.Request
		ok bool
	}{
		"page":              {request("GET", "/ui/"), true},
		"script":            {request("HEAD", "/ui/app.js"), true},
		"data":              {request("GET", "/v1/status"), false},
		"data with a key":   {request("GET", "/v1/status", "Authorization", key), true},
		"write with a key":  {request("POST", "/v1/plan", "Authorization", key), true},
		"write to the page": {request("POST", "/ui/"), false},
		"climbs":            {request("GET", "/ui/../v1/status"), false},
		"climbs later":      {request("GET", "/ui/a/../../v1/status"), false},
		"two slashes":       {request("GET", "/ui//v1/status"), false},
		"a dot":             {request("GET", "/ui/./"), false},
		"prefix":            {request("GET", "/uix"), false},
		"no slash":          {request("GET", "/ui"), false},
		"link to the page":  {request("GET", "/ui/", link...), true},
		"link to data":      {request("GET", "/v1/status", append(link, "Authorization", key)...), false},
		"in a frame": {request("GET", "/ui/", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate",
			"Sec-Fetch-Dest", "iframe"), false},
		"as a script": {request("GET", "/ui/app.js", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors",
			"Sec-Fetch-Dest", "script"), false},
		"by fetch": {request("GET", "/ui/", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest",
			"empty"), false},
		"form":           {request("POST", "/ui/", append(link, "Authorization", key)...), false},
		"foreign origin": {request("GET", "/ui/", append(link, "Origin", "http://evil.example")...), false},
	} {
		if got := d.check(c.q) == nil; got != c.ok {
			t.Errorf("%s: %v, want %v", name, got, c.ok)
		}
	}
	rebound := request("GET", "/ui/", link...)
	if rebound.Host = "evil.example"; d.check(rebound) == nil {
		t.Error("a rebound name reaches the page")
	}
}
