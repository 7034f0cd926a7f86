package sim

import "iter"

// threads are the coroutines of one process of the world: code of the shells that
// waits for answers, run as it is. They take turns with the events of the world, so
// that one seed is one run. When the process ends, what waits is let go: gates let
// everybody through, and the calls of the process fail from then on.
type threads struct {
	w       *world
	soon    func(fn func()) // runs fn in the process at once, or when it goes on
	waiting []*thread
	dead    bool
}

// thread is one coroutine.
type thread struct {
	of     *threads
	resume func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
}

func newThreads(w *world, soon func(fn func())) *threads {
	p := &threads{w: w, soon: soon}
	w.threads = append(w.threads, p)
	return p
}

// run runs fn beside everything else, at once until it waits.
func (p *threads) run(fn func()) {
	if p.dead {
		return
	}
	t := &thread{of: p}
	t.resume, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		fn()
	})
	t.step()
}

// step goes on with a coroutine until it waits or has ended.
func (t *thread) step() {
	w := t.of.w
	before := w.current
	w.current = t
	_, more := t.resume()
	w.current = before
	if !more {
		t.stop()
	}
}

// end lets go of everything that waits: the process has ended. It is called from an
// event of the world, or from one of the coroutines, which then runs to its end
// without ever waiting again.
func (p *threads) end() {
	if p.dead {
		return
	}
	p.dead = true
	if p.w.current != nil && p.w.current.of == p {
		p.w.after(0, p.release)
		return
	}
	p.release()
}

func (p *threads) release() {
	all := p.waiting
	p.waiting = nil
	for _, t := range all {
		before := p.w.current
		p.w.current = t
		t.stop()
		p.w.current = before
	}
	for i, o := range p.w.threads {
		if o == p {
			p.w.threads = append(p.w.threads[:i], p.w.threads[i+1:]...)
			return
		}
	}
}

// gate is a run.Gate for coroutines: what is waited for comes from an event of the
// world or from another coroutine.
type gate struct {
	p       *threads
	opened  bool
	waiting []*thread
}

func (p *threads) gate() *gate { return &gate{p: p} }

// Open lets everybody through who waits, and who comes later.
func (g *gate) Open() {
	if g.opened {
		return
	}
	g.opened = true
	for _, t := range g.waiting {
		g.p.soon(func() { g.p.goOn(t) })
	}
	g.waiting = nil
}

// Wait suspends the coroutine that runs until the gate is open or the process has ended.
func (g *gate) Wait() {
	if g.opened || g.p.dead {
		return
	}
	t := g.p.w.current
	g.waiting = append(g.waiting, t)
	g.p.waiting = append(g.p.waiting, t)
	t.yield(struct{}{})
}

func (p *threads) goOn(t *thread) {
	for i, o := range p.waiting {
		if o == t {
			p.waiting = append(p.waiting[:i], p.waiting[i+1:]...)
			t.step()
			return
		}
	}
}
