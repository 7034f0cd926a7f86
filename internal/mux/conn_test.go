package mux

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server takes connections and hands them out.
type server struct {
	*httptest.Server
	conns chan *Conn
	from  chan string
}

func newServer(t *testing.T, h http.Handler) *server {
	t.Helper()
	return newServerOf(t, Service{Handler: h})
}

func newServerOf(t *testing.T, service Service) *server {
	t.Helper()
	s := &server{conns: make(chan *Conn, 10), from: make(chan string, 10)}
	var all sync.WaitGroup
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		all.Add(1)
		defer all.Done()
		Accept(q.Context(), w, q, service, func(address string, l *Conn) {
			s.from <- address
			s.conns <- l
		})
	}))
	t.Cleanup(func() {
		for {
			select {
			case l := <-s.conns:
				l.End()
				continue
			default:
			}
			break
		}
		all.Wait()
		s.Close()
	})
	return s
}

func (s *server) dial(ctx context.Context) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(s.URL, "http://"))
}

func newClient(t *testing.T, c Config) *Client {
	t.Helper()
	x := NewClient(c)
	t.Cleanup(x.Close)
	return x
}

// post sends a body and returns status and body of the answer.
func post(ctx context.Context, to interface {
	Do(*http.Request) (*http.Response, error)
}, path, body string) (int, string, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://x"+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	q.Header.Set("Ask", "a")
	q.Header.Add("Ask", "b")
	a, err := to.Do(q)
	if err != nil {
		return 0, "", err
	}
	text, err := io.ReadAll(a.Body)
	return a.StatusCode, a.Header.Get("Told") + string(text), err
}

// echo answers with the body of the request.
func echo(who string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		w.Header().Set("Told", who+" ")
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintf(w, "%s %v %s", q.URL.Path, q.Header["Ask"], body)
	})
}

func TestBothDirections(t *testing.T) {
	s := newServer(t, echo("server"))
	c := newClient(t, Config{Connect: s.dial, Service: Service{Handler: echo("client")}, Address: "me:1"})
	big := strings.Repeat("x", 3*atOnce)
	for range 3 {
		if code, text, err := post(t.Context(), c, "/a/b", big); code != 202 || text != "server /a/b [a b] "+big ||
			err != nil {
			t.Fatalf("%d %.40s %v", code, text, err)
		}
	}
	if got := <-s.from; got != "me:1" {
		t.Errorf("address %q", got)
	}
	l := <-s.conns
	defer l.End()
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			if code, text, err := post(t.Context(), l, "/c", fmt.Sprint(i)); code != 202 ||
				text != fmt.Sprintf("client /c [a b] %d", i) || err != nil {
				t.Errorf("%d %q %v", code, text, err)
			}
		})
	}
	all.Wait()
	if len(s.from) != 0 {
		t.Error("a second connection was opened")
	}
}

// TestACallWithinACall: the handler of a request may call back over the same connection.
func TestACallWithinACall(t *testing.T) {
	var s *server
	s = newServer(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		l := <-s.conns
		s.conns <- l
		code, text, err := post(q.Context(), l, "/back", "")
		fmt.Fprint(w, code, text, err)
	}))
	c := newClient(t, Config{Connect: s.dial, Service: Service{Handler: echo("client")}})
	if _, text, err := post(t.Context(), c, "/", ""); text != "202client /back [a b] <nil>" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}

func TestTheEndOfALine(t *testing.T) {
	asked := make(chan struct{}, 1)
	s := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/hang" {
			asked <- struct{}{}
			<-q.Context().Done() // the end of the connection cancels its calls
		}
	}))
	lost := make(chan struct{}, 10)
	c := newClient(t, Config{Connect: s.dial, Lost: func() { lost <- struct{}{} }})
	outcome := make(chan error, 1)
	go func() {
		_, _, err := post(t.Context(), c, "/hang", "")
		outcome <- err
	}()
	<-asked
	old := <-s.conns
	old.Close()
	if err := <-outcome; !errors.Is(err, ErrEnded) || errors.Is(err, ErrNotSent) {
		t.Errorf("under way: %v", err)
	}
	<-lost
	if _, _, err := post(t.Context(), old, "/", ""); !errors.Is(err, ErrNotSent) {
		t.Errorf("over a connection that has ended: %v", err)
	}
	if code, _, err := post(t.Context(), c, "/", ""); code != 200 || err != nil {
		t.Errorf("the next request opens a connection: %d, %v", code, err)
	}
	c.Idle()
	if code, _, err := post(t.Context(), c, "/", ""); code != 200 || err != nil {
		t.Errorf("after Idle: %d, %v", code, err)
	}
	c.Close()
	if _, _, err := post(t.Context(), c, "/", ""); !errors.Is(err, ErrNotSent) || len(lost) != 0 {
		t.Errorf("closed: %v, lost %d times", err, len(lost))
	}
}

func TestNothingRemoteEndsTheProcess(t *testing.T) {
	s := newServer(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("at the disco") }))
	c := newClient(t, Config{Connect: s.dial})
	if code, text, err := post(t.Context(), c, "/", ""); code != 500 || !strings.Contains(text, "disco") || err != nil {
		t.Errorf("%d %q %v", code, text, err)
	}
}

func TestTooManyAtOnce(t *testing.T) {
	release := make(chan struct{})
	s := newServer(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	c := newClient(t, Config{Connect: s.dial})
	codes := make(chan int, maxServed+1)
	var all sync.WaitGroup
	for range maxServed + 1 {
		all.Go(func() {
			code, _, err := post(t.Context(), c, "/", "")
			if err != nil {
				t.Error(err)
			}
			codes <- code
		})
	}
	if code := <-codes; code != http.StatusServiceUnavailable {
		t.Errorf("the one too many: %d", code)
	}
	close(release)
	all.Wait()
}

func TestRefusedUpgrades(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	c := newClient(t, Config{Connect: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(plain.URL, "http://"))
	}})
	if _, _, err := post(t.Context(), c, "/", ""); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
	s := newServer(t, echo("server"))
	a, err := http.Get(s.URL + Path)
	if err != nil {
		t.Fatal(err)
	}
	a.Body.Close()
	if a.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("a request that asks for none: %s", a.Status)
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestMute: a server that accepts the connection and stays silent holds no caller longer than its timeout.
func TestMute(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c := newClient(t, Config{Connect: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", ln.Addr().String())
	}})
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if _, _, err := post(short, c, "/", ""); err == nil {
				t.Error("answered")
			}
		})
	}
	all.Wait()
}

func TestFrames(t *testing.T) {
	for _, f := range []frame{
		{id: 7, path: "/x", header: http.Header{"A": {"1", "2"}}, body: []byte("body")},
		{answer: true, id: 1<<32 - 1, status: 404, header: http.Header{}, body: []byte{}},
	} {
		b, err := f.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := read(bufio.NewReader(bytes.NewReader(b)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(f, *got, cmp.AllowUnexported(frame{})); diff != "" {
			t.Error(diff)
		}
	}
	if _, err := (&frame{path: "/x", body: make([]byte, maxFrame)}).encode(); !errors.Is(err, errFrame) {
		t.Errorf("too large: %v", err)
	}
}

// FuzzFrame: any bytes are a frame that encodes again to the same, or an error.
func FuzzFrame(f *testing.F) {
	for _, x := range []frame{{id: 1, path: "/p", header: http.Header{"K": {"v"}}, body: []byte("b")},
		{answer: true, id: 2, status: 200}} {
		b, err := x.encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{255, 255, 255, 255, 1})
	f.Add([]byte{0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := read(bufio.NewReader(bytes.NewReader(b)))
		if err != nil {
			return
		}
		again, err := x.encode()
		if err != nil {
			t.Fatal(err)
		}
		y, err := read(bufio.NewReader(bytes.NewReader(again)))
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range []string{"User-Agent", "Accept-Encoding", "Date", "Content-Length"} {
			delete(x.header, k)
		}
		if diff := cmp.Diff(x, y, cmp.AllowUnexported(frame{})); diff != "" {
			t.Error(diff)
		}
	})
}
