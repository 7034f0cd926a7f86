package scripttest

import (
	"io"
	"net"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// proxy forwards connections until it is cut: then it closes those that there are and new ones.
// Without a target it accepts connections and never answers.
type proxy struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
	wg    sync.WaitGroup
}

func (r *rig) proxy(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: proxy NAME [TARGET]")
	}
	if p := r.of(ts).proxies[args[0]]; p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.target = args[1]
		return
	}
	args = append(args, "")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	p := &proxy{listener: l, target: args[1], conns: map[net.Conn]bool{}}
	p.wg.Go(p.serve)
	r.of(ts).proxies[args[0]] = p
	ts.Setenv(args[0], l.Addr().String())
}

func (r *rig) cut(ts *testscript.TestScript, neg bool, args []string) { r.turn(ts, args, true) }

func (r *rig) mend(ts *testscript.TestScript, neg bool, args []string) { r.turn(ts, args, false) }

func (r *rig) turn(ts *testscript.TestScript, args []string, cut bool) {
	if len(args) != 1 || r.of(ts).proxies[args[0]] == nil {
		ts.Fatalf("usage: cut|mend NAME of a proxy")
	}
	p := r.of(ts).proxies[args[0]]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *proxy) serve() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.forward(c) })
	}
}

// keep notes a connection; false when the proxy is cut.
func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		_ = c.Close()
		return false
	}
	p.conns[c] = true
	return true
}

func (p *proxy) drop(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

func (p *proxy) forward(near net.Conn) {
	if !p.keep(near) {
		return
	}
	defer p.drop(near)
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	if target == "" {
		_, _ = io.Copy(io.Discard, near)
		return
	}
	far, err := net.Dial("tcp", target)
	if err != nil || !p.keep(far) {
		return
	}
	defer p.drop(far)
	var wg sync.WaitGroup
	for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
		wg.Go(func() {
			_, _ = io.Copy(pair[0], pair[1]) // ends with either side
			_ = near.Close()
			_ = far.Close()
		})
	}
	wg.Wait()
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.cut = true
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}
