package mux

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"cantina/internal/run"
)

func isUrgent(path string) bool { return path == "/urgent" }

// TestUrgentGoesFirst: among the frames that wait for the connection, urgent ones are sent before all others, each
// kind in its order. A frame that is given up takes no turn.
func TestUrgentGoesFirst(t *testing.T) {
	var l turns
	if err := l.take(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	order := make(chan string, 5)
	waiting := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.urgent) + len(l.others)
	}
	begin := func(ctx context.Context, name string, urgent bool) {
		before := waiting()
		go func() {
			if err := l.take(ctx, urgent); err != nil {
				order <- "none"
				return
			}
			order <- name
			l.give()
		}()
		for waiting() == before {
			runtime.Gosched()
		}
	}
	begin(t.Context(), "a", false)
	gone, cancel := context.WithCancel(t.Context())
	begin(gone, "b", false)
	begin(t.Context(), "c", true)
	begin(t.Context(), "d", true)
	cancel()
	if got := <-order; got != "none" {
		t.Errorf("given up: %s", got)
	}
	l.give()
	for _, want := range []string{"c", "d", "a"} {
		if got := <-order; got != want {
			t.Errorf("%s before %s", got, want)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken || len(l.urgent)+len(l.others) > 0 {
		t.Error("it is not free")
	}
}

// TestOthersLeaveRoomForUrgent: hanging requests take all places of others, over two connections, and urgent ones
// are served all the same. Waiting requests are served when there is a place.
func TestOthersLeaveRoomForUrgent(t *testing.T) {
	release, began := make(chan struct{}), make(chan struct{}, 100)
	h := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if !isUrgent(q.URL.Path) {
			began <- struct{}{}
			<-release
		}
		_, _ = io.WriteString(w, "done")
	})
	var waiting, waited atomic.Int64
	s := newServerOf(t, Service{Handler: h, Urgent: isUrgent, Others: make(chan struct{}, 2), Waiting: &waiting,
		Waited: func(time.Duration) { waited.Add(1) }})
	a, b := newClient(t, Config{Connect: s.dial, Service: Service{Urgent: isUrgent}}),
		newClient(t, Config{Connect: s.dial, Service: Service{Urgent: isUrgent}})
	answers := make(chan error, 6)
	for i := range 6 {
		c := a
		if i%2 == 1 {
			c = b
		}
		go func() {
			_, text, err := post(t.Context(), c, "/other", "")
			if err == nil && text != "done" {
				err = errors.New(text)
			}
			answers <- err
		}()
	}
	<-began
	<-began
	for range 2 * maxUrgent {
		if code, text, err := post(t.Context(), a, "/urgent", ""); code != 200 || text != "done" || err != nil {
			t.Fatalf("urgent: %d %q %v", code, text, err)
		}
	}
	if len(began) != 0 || waiting.Load() > 4 || waited.Load() != 0 {
		t.Errorf("%d more than two others are served, %d wait, %d have", len(began), waiting.Load(), waited.Load())
	}
	close(release)
	for range 6 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	if waiting.Load() != 0 || waited.Load() > 4 {
		t.Errorf("%d wait, %d have waited", waiting.Load(), waited.Load())
	}
}

// TestAWaitOccupiesNoPlace: a request that has left its place, because it only waits, lets others be served.
func TestAWaitOccupiesNoPlace(t *testing.T) {
	release, began := make(chan struct{}), make(chan struct{})
	h := http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/waits" {
			run.LeavePlace(q.Context())
			began <- struct{}{}
			<-release
		}
	})
	s := newServerOf(t, Service{Handler: h, Urgent: isUrgent, Others: make(chan struct{}, 1)})
	c := newClient(t, Config{Connect: s.dial, Service: Service{Urgent: isUrgent}})
	answers := make(chan error, 3)
	for range 3 {
		go func() {
			_, _, err := post(t.Context(), c, "/waits", "")
			answers <- err
		}()
		<-began
	}
	for range 3 { // each leaves the place free for the next
		if code, _, err := post(t.Context(), c, "/other", ""); code != 200 || err != nil {
			t.Errorf("%d, %v", code, err)
		}
	}
	close(release)
	for range 3 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
}

// TestLateIsNotCut: a request without an answer does not end a connection whose remote machine acknowledges the
// data. The answers of other requests still come.
func TestLateIsNotCut(t *testing.T) {
	s := newServer(t, silentAt("/silent", echo("server")))
	c := newClient(t, Config{Connect: s.dial})
	limit, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := post(limit, c, "/silent", ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if l, _ := c.current(); l == nil || l.ended() != nil {
		t.Fatal("the connection has ended")
	}
	if code, _, err := post(t.Context(), c, "/x", ""); code != 202 || err != nil {
		t.Errorf("%d, %v", code, err)
	}
	if len(s.conns) != 1 {
		t.Errorf("%d connections", len(s.conns))
	}
}

// TestSilenceWithoutASocket: on a connection without a socket, a request without an answer in time ends the
// connection, unless it was given up.
func TestSilenceWithoutASocket(t *testing.T) {
	near, far := net.Pipe()
	go io.Copy(io.Discard, far)
	defer far.Close()
	l := newConn(t.Context(), near, bufio.NewReader(near), Service{Handler: http.NotFoundHandler()})
	ended := make(chan error, 1)
	go func() { ended <- l.run() }()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := post(gone, l, "/", ""); err == nil || l.ended() != nil {
		t.Errorf("given up: %v, ended %v", err, l.ended())
	}
	limit, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := post(limit, l, "/", ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("silent: %v", err)
	}
	if err := <-ended; !errors.Is(err, errSilent) {
		t.Errorf("ended with %v", err)
	}
}

// TestBehind: data that has arrived unread is noticed, until it is read.
func TestBehind(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	far, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	near, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(served) })
	l := newConn(t.Context(), near, bufio.NewReader(near), Service{Handler: h, Urgent: isUrgent})
	if l.Behind() {
		t.Error("behind before anything has come")
	}
	b, err := (&frame{path: "/urgent", header: http.Header{}}).encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := far.Write(b); err != nil {
		t.Fatal(err)
	}
	for !l.Behind() { // until it has come
		runtime.Gosched()
	}
	ended := make(chan error, 1)
	go func() { ended <- l.run() }()
	<-served
	for l.Behind() { // the reader is about to notice that there is no more
		runtime.Gosched()
	}
	l.End()
	<-ended
}
