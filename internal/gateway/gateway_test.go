package gateway

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cantina/fanout"
	"cantina/internal/guard"
)

// server is a fake server and its address.
func fake(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func answers(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

// open serves a gateway.
func open(t *testing.T, cfg Servers) (*Gateway, string) {
	t.Helper()
	g := New(cfg)
	t.Cleanup(g.Close)
	s := httptest.NewServer(g.Handler())
	t.Cleanup(s.Close)
	return g, s.URL
}

// ask reads a fan-out.
func ask(t *testing.T, address string, each ...func(Reply)) []Reply {
	t.Helper()
	res, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var out []Reply
	for d := json.NewDecoder(res.Body); ; {
		var a Reply
		if err := d.Decode(&a); err == io.EOF {
			return out
		} else if err != nil {
			t.Fatalf("%v, HTTP %d", err, res.StatusCode)
		}
		out = append(out, a)
		for _, f := range each {
			f(a)
		}
	}
}

// TestManyServers: 200 servers, of which 20 hang, 5 have another version, one is down. All others answer while those
// hang, and at the next read the failed ones are asked last.
func TestManyServers(t *testing.T) {
	over := make(chan struct{})
	kinds := map[string]string{}
	var order []string
	var mu sync.Mutex
	cfg := Servers{Deadline: time.Hour, Build: "v9"}
	other := func(w http.ResponseWriter) { http.Error(w, "<html>no such page", 404) }
	for i := range 200 {
		kind, h := "good", answers(fmt.Sprintf(`{"status":{"build":"v%d"}}`, i))
		switch {
		case i%10 == 3:
			kind, h = "hang", func(w http.ResponseWriter, _ *http.Request) {
				<-over
				other(w)
			}
		case i%40 == 5:
			kind, h = "other", func(w http.ResponseWriter, _ *http.Request) { other(w) }
		}
		address := ""
		address = fake(t, func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			order = append(order, address)
			mu.Unlock()
			h(w, r)
		})
		kinds[address] = kind
		cfg.List = append(cfg.List, address)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	down := ln.Addr().String()
	_ = ln.Close()
	kinds[down], cfg.List = "down", append(cfg.List, down)
	_, address := open(t, cfg)
	want := map[string]string{"good": "", "hang": "other_version", "other": "other_version", "down": "no_connection"}
	for try := range 2 {
		n := 0
		ask(t, address+"/many/v1/status", func(a Reply) {
			code := ""
			if a.Error != nil {
				code = a.Error.Code
			}
			kind, body := kinds[a.Server], string(a.Body)
			if code != want[kind] || (code == "") != strings.HasPrefix(body, `{"status":`) {
				t.Errorf("%s server: %+v %+v", kind, a, a.Error)
			}
			if n++; n == 181 && try == 0 {
				close(over) // without this the others do not answer: none of the 181 was one of them
			}
		})
		if n != 201 {
			t.Fatalf("%d answers", n)
		}
	}
	firstBad := slices.IndexFunc(order[200:], func(a string) bool { return kinds[a] != "good" })
	if firstBad < 175-fanout.Width { // 175 are good; those in progress overtake each other
		t.Errorf("server %d of the second read is one that failed", firstBad)
	}
}

// TestASilentServer: its answer is an error at the deadline.
func TestASilentServer(t *testing.T) {
	at := fake(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	_, address := open(t, Servers{List: []string{at}, Deadline: 50 * time.Millisecond})
	ask(t, address+"/many/v1/status", func(a Reply) {
		if a.Error == nil || a.Error.Code != "timeout" || a.TookMS < 50 {
			t.Errorf("%+v", a)
		}
	})
}

// TestAProxiedCall: a call arrives as the page made it, with the credentials of the gateway and none of the browser.
// Of the answer only what the page needs comes back, and nothing that a browser would run.
func TestAProxiedCall(t *testing.T) {
	var got *http.Request
	var body string
	at := fake(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got, body = r, string(b)
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.WriteHeader(409)
		_, _ = io.WriteString(w, "<script>alert(1)</script>")
	})
	_, address := open(t, Servers{List: []string{at}, Token: guard.NewToken("a token of the gateway")})
	req, err := http.NewRequest("PUT", address+"/at/"+url.PathEscape(at)+"/v1/jobs/shop/a%2Fb/paused?x=1&x=2",
		strings.NewReader(`{"paused":true}`))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{"Content-Type": "application/json", "If-Match": "7", "Idempotency-Key": "k",
		"Authorization": "Bearer key of the browser", "Cookie": "c=d", "Origin": address, "X-Forwarded-For": "1.2.3.4"} {
		req.Header.Set(k, v)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got.Method != "PUT" || got.RequestURI != "/v1/jobs/shop/a%2Fb/paused?x=1&x=2" || got.Host != at ||
		body != `{"paused":true}` {
		t.Errorf("%s %s %s %s", got.Method, got.RequestURI, got.Host, body)
	}
	if h := got.Header; h.Get("If-Match") != "7" || h.Get("Idempotency-Key") != "k" ||
		h.Get("Content-Type") != "application/json" || h.Get("Authorization") != "Bearer a token of the gateway" ||
		h.Get("Cookie")+h.Get("Origin")+h.Get("X-Forwarded-For") != "" {
		t.Errorf("%v", h)
	}
	if h := res.Header; res.StatusCode != 409 || h.Get("Content-Type") != "application/octet-stream" ||
		h.Get("Set-Cookie")+h.Get("Access-Control-Allow-Origin") != "" ||
		!strings.Contains(h.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("%d %v", res.StatusCode, h)
	}
}

// TestAProxiedStream: each line arrives while the stream continues, and a page that leaves ends it.
func TestAProxiedStream(t *testing.T) {
	read, ended := make(chan bool), make(chan bool)
	at := fake(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/jsonl")
		_, _ = io.WriteString(w, "{\"n\":1}\n")
		w.(http.Flusher).Flush()
		<-read
		_, _ = io.WriteString(w, "{\"n\":2}\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(ended)
	})
	_, address := open(t, Servers{List: []string{at}})
	res, err := http.Get(address + "/at/" + url.PathEscape(at) + "/v1/events?since=tail")
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(res.Body)
	for i := 1; i <= 2; i++ {
		if !lines.Scan() || lines.Text() != fmt.Sprintf(`{"n":%d}`, i) {
			t.Fatalf("line %d: %q, %v", i, lines.Text(), lines.Err())
		}
		if i == 1 {
			read <- true
		}
	}
	_ = res.Body.Close()
	<-ended
}

// TestOnlyPermittedServersAreCalled: a page may add those that --servers-allow permits. Others get no connection, from
// the fan-out and from the proxy.
func TestOnlyPermittedServersAreCalled(t *testing.T) {
	var calls atomic.Int64
	known := fake(t, answers(`{}`))
	added := fake(t, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		answers(`{}`)(w, r)
	})
	for rule, want := range map[string]string{"": "not_allowed", "10.0.0.0/8": "not_allowed",
		".example.com": "not_allowed",
		"127.0.0.0/8":  "", "127.0.0.1": ""} {
		calls.Store(0)
		allow, err := ParseAllow(strings.Fields(rule))
		if err != nil {
			t.Fatal(err)
		}
		_, address := open(t, Servers{List: []string{known}, Allow: allow})
		got := ask(t, address+"/many/v1/status?servers="+url.QueryEscape(known+","+added))
		for _, a := range got {
			code := ""
			if a.Error != nil {
				code = a.Error.Code
			}
			if len(got) != 2 || a.Server == added && code != want || a.Server == known && code != "" {
				t.Errorf("rule %q: %+v %+v", rule, a, a.Error)
			}
		}
		res, err := http.Get(address + "/at/" + url.PathEscape(added) + "/v1/status")
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if n := calls.Load(); want == "" && (n != 2 || res.StatusCode != 200) ||
			want != "" && (n != 0 || res.StatusCode != 403) {
			t.Errorf("rule %q: %d calls, HTTP %d", rule, n, res.StatusCode)
		}
	}
}

// TestRules of names and networks.
func TestRules(t *testing.T) {
	a, err := ParseAllow([]string{".Example.com", "corp", "10.1.0.0/16", "fd00::/8", "192.0.2.7"})
	if err != nil || a.String() != ".example.com, .corp, 10.1.0.0/16, fd00::/8, 192.0.2.7/32" {
		t.Errorf("%v, %v", a, err)
	}
	for server, want := range map[string]bool{
		"a.example.com:7480": true, "example.com:7480": true, "A.EXAMPLE.COM.:7480": true,
		"badexample.com.evil:7480": false,
		"x.corp:7480":              true, "10.1.2.3:7480": true,
		"[fd00::1]:7480": true, "192.0.2.7:7480": true, "192.0.2.8:7480": false,
		"[::ffff:10.1.2.3]:7480": true, "10.2.0.1:7480": false, "a.example.com:22": false, "a.example.com": false,
		"a.example.com:99999": false, "unix:/run/x.sock": false, "a.example.com:http": false,
	} {
		if err := a.check(t.Context(), server); (err == nil) != want {
			t.Errorf("%s: %v", server, err)
		}
	}
	for at, want := range map[string]bool{"10.1.9.9:7480": true, "127.0.0.1:7480": false, "[::ffff:10.1.9.9]:1": true} {
		if err := a.reached("10.1.2.3:7480", net.TCPAddrFromAddrPort(netip.MustParseAddrPort(at))); (err == nil) != want {
			t.Errorf("connected to %s: %v", at, err)
		}
	}
	for _, bad := range []string{"", ".", "a/b", "*.example.com", "..x", "10.0.0.0/99", "a:7480"} {
		if _, err := ParseAllow([]string{bad}); err == nil {
			t.Errorf("rule %q is accepted", bad)
		}
	}
}

// TestLists of servers.
func TestLists(t *testing.T) {
	got := ParseServers("a:1,b:2 # the old ones\n# all\n\n c:3\td:4,a:1\r\n")
	if !slices.Equal(got, []string{"a:1", "b:2", "c:3", "d:4"}) {
		t.Errorf("%q", got)
	}
	for server, want := range map[string]bool{"a:1": true, "[::1]:7480": true, "unix:/run/s.sock": true,
		"a": false, ":7480": false,
		"a:": false, "a:0": false, "a:70000": false, "unix:": false, "http://a:1": false, "u@a:1": false} {
		if err := CheckServer(server); (err == nil) != want {
			t.Errorf("%s: %v", server, err)
		}
	}
}

// TestTooMuch: an answer or a list without bound is refused.
func TestTooMuch(t *testing.T) {
	at := fake(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `"`)
		for range 17 {
			if _, err := io.WriteString(w, strings.Repeat("x", 1<<20)); err != nil {
				return
			}
		}
		_, _ = io.WriteString(w, `"`)
	})
	_, address := open(t, Servers{List: []string{at}, Deadline: time.Minute})
	if got := ask(t, address+"/many/v1/jobs"); len(got) != 1 || got[0].Error == nil || got[0].Error.Code != "too_large" {
		t.Errorf("%+v", got)
	}
	var list []string
	for i := range maxServers + 1 {
		list = append(list, fmt.Sprintf("h:%d", i+1))
	}
	res, err := http.Get(address + "/many/v1/jobs?servers=" + strings.Join(list, ","))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 400 {
		t.Errorf("HTTP %d", res.StatusCode)
	}
}

// TestTheWayToThePage: it is below /ui/many/, which is how it finds out that it has many servers.
func TestTheWayToThePage(t *testing.T) {
	_, address := open(t, Servers{List: []string{"a:1"}, Build: "v9"})
	res, err := http.Get(address + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	if err != nil || res.Request.URL.Path != PagePath || !strings.Contains(string(page), `<div id="app">`) {
		t.Errorf("%s: %s, %v", res.Request.URL, page, err)
	}
	res, err = http.Get(address + "/many/servers")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	const want = `{"allow":"","build":"v9","deadline_ms":2000,"servers":["a:1"]}` + "\n"
	if text, _ := io.ReadAll(res.Body); string(text) != want {
		t.Errorf("%s", text)
	}
}
