package spawn

import (
	"fmt"
	"io"
	"sync"

	"golang.org/x/sys/unix"
)

// pipeRounds is how many reads one pipe gets before it is another's turn.
const pipeRounds = 4

// pipe copies one stream of a process into a sink. Reading happens on the loop's goroutine, and
// once more on that of the draining caller.
type pipe struct {
	loop *loop
	id   uint64

	mu   sync.Mutex
	fd   int // -1 when closed
	sink io.WriteCloser
}

// newPipe returns the reading side and the descriptor for the child.
func newPipe(l *loop, sink io.WriteCloser) (*pipe, int, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, -1, fmt.Errorf("make pipe: %w", err)
	}
	if _, err := unix.FcntlInt(uintptr(fds[0]), unix.F_SETFL, unix.O_NONBLOCK); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, -1, fmt.Errorf("make pipe: %w", err)
	}
	return &pipe{loop: l, fd: fds[0], sink: sink}, fds[1], nil
}

func (p *pipe) watch() error {
	id, err := p.loop.add(p.fd, p)
	p.mu.Lock()
	p.id = id
	p.mu.Unlock()
	return err
}

func (p *pipe) ready(buf []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range pipeRounds {
		if !p.read(buf) {
			return
		}
	}
}

// read moves one buffer. It returns false when there is nothing more for now.
func (p *pipe) read(buf []byte) bool {
	if p.fd < 0 {
		return false
	}
	n, err := unix.Read(p.fd, buf)
	switch {
	case err == unix.EINTR:
		return true
	case err == unix.EAGAIN:
		return false
	case n <= 0:
		p.closeLocked()
		return false
	}
	// The sink accounts for data that it cannot take; the process continues.
	p.sink.Write(buf[:n])
	return n == len(buf)
}

// drain reads the present content of the pipe, at most the capacity of a pipe, so that a
// continuous writer does not block the caller.
func (p *pipe) drain(buf []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	const most = 1 << 20
	for got := 0; got < most && p.fd >= 0; {
		n, err := unix.Read(p.fd, buf)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return
		case n <= 0:
			p.closeLocked()
			return
		}
		p.sink.Write(buf[:n])
		got += n
	}
}

// end reads the present content of the pipe, and drops later data: the sink is closed, but a
// continuing writer is not disturbed.
func (p *pipe) end(buf []byte) {
	p.drain(buf)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fd >= 0 {
		p.sink.Close()
		p.sink = nowhere{}
	}
}

// nowhere is a sink that drops everything.
type nowhere struct{}

func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) Close() error                { return nil }

func (p *pipe) close() {
	p.mu.Lock()
	p.closeLocked()
	p.mu.Unlock()
}

func (p *pipe) closeLocked() {
	if p.fd < 0 {
		return
	}
	p.loop.remove(p.fd, p.id)
	unix.Close(p.fd)
	p.fd = -1
	p.sink.Close()
}
