package etcdtest

import (
	"bytes"
	"errors"
	"net"
	"sync"
	"testing"
	"time"
)

// Mode is how a Proxy handles bytes.
type Mode int

// The modes of a proxy.
const (
	// Forward passes everything on.
	Forward Mode = iota
	// DropRequests discards the clients' data.
	DropRequests
	// DropAnswers discards the server's data.
	DropAnswers
	// HoldRequests keeps the clients' data back, for Release.
	HoldRequests
)

// Proxy is a network between clients and one etcd, with its faults.
type Proxy struct {
	// Endpoint is its address for clients.
	Endpoint string

	listener net.Listener
	wait     sync.WaitGroup

	mu     sync.Mutex // guards the following
	target string
	mode   Mode
	links  map[*link]bool
	held   []*link
	seen   []byte // the clients' data since the mode was set
	news   chan struct{}
	closed bool
}

// link is one client's connection and its twin to the server.
type link struct {
	client, server net.Conn
	kept           []byte        // requests kept back; guarded by Proxy.mu
	answers        frames        // used by the goroutine that reads from server alone
	unread         chan struct{} // closed when the server's data is no longer read
}

// frames counts the responses in an HTTP/2 server's data: HEADERS frames that end their stream.
type frames struct {
	head  []byte // of the present frame, up to 9 bytes
	skip  int    // bytes of its payload to come
	ended int
}

func (f *frames) read(b []byte) {
	for len(b) > 0 {
		if f.skip > 0 {
			n := min(f.skip, len(b))
			f.skip -= n
			b = b[n:]
			continue
		}
		n := min(9-len(f.head), len(b))
		f.head = append(f.head, b[:n]...)
		b = b[n:]
		if len(f.head) < 9 {
			return
		}
		const headers, endStream = 1, 1
		f.skip = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
		if f.head[3] == headers && f.head[4]&endStream != 0 {
			f.ended++
		}
		f.head = f.head[:0]
	}
}

// StartProxy starts a proxy before an etcd; it ends with the test.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{
		Endpoint: "http://" + l.Addr().String(), listener: l, target: target,
		links: make(map[*link]bool), news: make(chan struct{}),
	}
	p.wait.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close() // wakes accept
	p.Cut()
	p.mu.Lock()
	for _, l := range p.held {
		_ = l.server.Close()
	}
	p.mu.Unlock()
	p.wait.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target, closed := p.target, p.closed
		p.mu.Unlock()
		server, err := net.Dial("tcp", target)
		if err != nil || closed {
			_ = client.Close()
			continue
		}
		l := &link{client: client, server: server, unread: make(chan struct{})}
		p.mu.Lock()
		p.links[l] = true
		p.mu.Unlock()
		p.wait.Go(func() { p.pump(l, true) })
		p.wait.Go(func() { p.pump(l, false) })
	}
}

// pump carries one direction until the connection ends.
func (p *Proxy) pump(l *link, requests bool) {
	from, to := l.server, l.client
	if requests {
		from, to = l.client, l.server
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if !requests {
			l.answers.read(buf[:n])
		}
		if n > 0 && p.pass(l, requests, buf[:n]) {
			if _, werr := to.Write(buf[:n]); werr != nil {
				err = errors.Join(err, werr)
			}
		}
		if err != nil {
			p.drop(l)
			if !requests {
				close(l.unread)
			}
			return
		}
	}
}

// pass reports whether bytes are forwarded.
func (p *Proxy) pass(l *link, requests bool, b []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.links[l] {
		return false // it is closed; Release sends what was kept
	}
	if requests {
		p.seen = append(p.seen, b...)
		close(p.news)
		p.news = make(chan struct{})
	}
	switch p.mode {
	case DropRequests:
		return !requests
	case DropAnswers:
		return requests
	case HoldRequests:
		if requests {
			l.kept = append(l.kept, b...)
		}
		return !requests
	case Forward:
	}
	return true
}

// drop closes a connection; the server's side stays open while requests are kept
// back for it.
func (p *Proxy) drop(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropLocked(l)
}

func (p *Proxy) dropLocked(l *link) {
	_ = l.client.Close()
	if len(l.kept) > 0 && !p.closed {
		if p.links[l] {
			p.held = append(p.held, l)
		}
	} else {
		_ = l.server.Close()
	}
	delete(p.links, l)
}

// Set changes the mode, for bytes that arrive from now on.
func (p *Proxy) Set(m Mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = m
	p.seen = nil
}

// Target lets new connections go to another server.
func (p *Proxy) Target(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = addr
}

// Saw returns when clients have sent text since the mode was set.
func (p *Proxy) Saw(t testing.TB, text string) {
	t.Helper()
	for {
		p.mu.Lock()
		found, news := bytes.Contains(p.seen, []byte(text)), p.news
		p.mu.Unlock()
		if found {
			return
		}
		select {
		case <-news:
		case <-t.Context().Done():
			t.Fatalf("no client sent %q", text)
		}
	}
}

// Cut closes all connections of clients.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		p.dropLocked(l)
	}
}

// CutTo closes all connections of clients and sets the mode for later ones: none begins in the
// earlier mode and continues in this one.
func (p *Proxy) CutTo(m Mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = m
	p.seen = nil
	for l := range p.links {
		p.dropLocked(l)
	}
}

// Release sends the data that HoldRequests kept back of closed connections, and waits for the
// server's response to one call on each. It returns the number of calls that the server has
// answered.
func (p *Proxy) Release() (int, error) {
	p.mu.Lock()
	held := p.held
	p.held = nil
	p.mu.Unlock()
	answered := 0
	for _, l := range held {
		err := p.replay(l)
		_ = l.server.Close()
		if err != nil {
			return answered, err
		}
		answered++
	}
	return answered, nil
}

func (p *Proxy) replay(l *link) error {
	_ = l.server.SetReadDeadline(time.Now()) // ends the read that waits for the lost client
	<-l.unread
	if err := l.server.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	if _, err := l.server.Write(l.kept); err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for before := l.answers.ended; l.answers.ended == before; {
		n, err := l.server.Read(buf)
		l.answers.read(buf[:n])
		if err != nil {
			return err
		}
	}
	return nil
}
