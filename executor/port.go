package executor

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"cantina/action"
)

func (p *ports) open(first, last int) {
	p.first, p.last, p.next, p.taken, p.claims = first, last, first, map[int]bool{}, map[int]net.Listener{}
	p.low, p.high = ephemeral()
	p.usable, p.leaves = usable, func(int) bool { return false }
}

// FreePorts counts the ports from first to last that the kernel does not allocate itself, and
// returns the range of those that it does.
func FreePorts(first, last int) (n, low, high int) {
	low, high = ephemeral()
	return last - first + 1 - max(0, min(last, high)-max(first, low)+1), low, high
}

// ephemeral is the kernel's range of ports for outgoing connections.
func ephemeral() (low, high int) {
	low, high = 32768, 60999
	if b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		if f := strings.Fields(string(b)); len(f) == 2 {
			lo, err1 := strconv.Atoi(f[0])
			hi, err2 := strconv.Atoi(f[1])
			if err1 == nil && err2 == nil {
				low, high = lo, hi
			}
		}
	}
	return low, high
}

// usable reports whether the port has no listener. It briefly binds both families' wildcard
// address.
func usable(port int) bool {
	l, err := net.Listen("tcp", ":"+strconv.Itoa(port))
	if err != nil {
		return false
	}
	l.Close()
	return true
}

// takeFixed is how long a port that a workload names is tried for, in all and at first.
const takeFixed, tryAgain = 150 * time.Millisecond, 5 * time.Millisecond

// take allocates a port. A fixed port may be in use for a short time: another cell of the machine
// checks whether it is free, a new thread has yet to close its copy of a closed listener, or its
// last container is about to be deleted. So it is retried for some time.
func (p *ports) take(want action.Port) (int, error) {
	n, mine, err := p.try(want)
	for pause, spent := tryAgain, time.Duration(0); err != nil && want.Fixed != 0 && (!mine || p.leaves(want.Fixed)) &&
		spent < takeFixed; pause *= 2 {
		<-time.After(pause)
		spent += pause
		n, mine, err = p.try(want)
	}
	return n, err
}

// try is one try of take; mine is set when a container of this cell has the port.
func (p *ports) try(want action.Port) (n int, mine bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if want.Fixed != 0 {
		if mine = p.taken[want.Fixed]; mine || !p.usable(want.Fixed) {
			return 0, mine, inUse(want.Fixed)
		}
		p.taken[want.Fixed] = true
		return want.Fixed, false, nil
	}
	for range p.last - p.first + 1 {
		n := p.next
		if p.next++; p.next > p.last {
			p.next = p.first
		}
		if n >= p.low && n <= p.high || p.taken[n] || !p.usable(n) || !p.claim(n) {
			continue
		}
		p.taken[n] = true
		return n, false, nil
	}
	return 0, false, fmt.Errorf("no free port from %d to %d", p.first, p.last)
}

// inUse is ErrPortInUse with the number of the port.
type inUse int

func (n inUse) Error() string      { return fmt.Sprintf("port %d is in use", int(n)) }
func (inUse) Is(target error) bool { return target == ErrPortInUse }

// claim shows other cells of the machine that may have the same range that a port is allocated: before a process
// listens on it, the port itself does not show that. The claim is an abstract Unix socket: it is of the same
// network namespace as the port, and ends with this process. It reports whether no other cell has it.
func (p *ports) claim(n int) bool {
	l, err := net.Listen("unix", fmt.Sprintf("@cantina/port/%d", n))
	if err == nil {
		p.claims[n] = l
	}
	return !errors.Is(err, syscall.EADDRINUSE)
}

func (p *ports) give(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.taken, n)
	if l := p.claims[n]; l != nil {
		_ = l.Close() // nobody connects to it
		delete(p.claims, n)
	}
}

// close ends the claims: the containers that are kept are claimed by the next process.
func (p *ports) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n, l := range p.claims {
		_ = l.Close()
		delete(p.claims, n)
	}
}

// hold allocates a port that a container of a predecessor has.
func (p *ports) hold(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken[n] = true; p.claims[n] == nil {
		p.claim(n)
	}
}

// givePorts picks the ports of a container; it keeps those that were claimed for it.
func (c *container) givePorts() error {
	c.e.mu.Lock()
	had := c.ports
	c.e.mu.Unlock()
	got, err := c.e.ports.takePorts(c.spec.Workload.Ports, had)
	if err != nil || len(got) == 0 {
		return err
	}
	c.e.mu.Lock()
	c.ports = got
	c.e.mu.Unlock()
	return nil
}

// takePorts takes ports, all or none, but for those that a container has already.
func (p *ports) takePorts(want []action.Port, had []action.Mapping) (got []action.Mapping, err error) {
	var taken []action.Mapping
	for _, w := range want {
		if m := (action.Mapping{Name: w.Name, Port: w.Fixed}); w.Fixed != 0 && slices.Contains(had, m) {
			got = append(got, m)
			continue
		}
		n, err := p.take(w)
		if err != nil {
			p.givePortsBack(taken)
			return nil, fmt.Errorf("port %s: %w%s", w.Name, err, p.portHolder(w.Fixed))
		}
		m := action.Mapping{Name: w.Name, Port: n}
		got, taken = append(got, m), append(taken, m)
	}
	return got, nil
}

// portLeaves reports whether a container has a port that has ended, and is about to be deleted.
func (p *ports) portLeaves(port int) bool {
	p.e.mu.Lock()
	defer p.e.mu.Unlock()
	for _, c := range p.e.containers {
		if c.state == Completed && c.stuck == nil &&
			slices.ContainsFunc(c.ports, func(m action.Mapping) bool { return m.Port == port }) {
			return true
		}
	}
	return false
}

// portHolder names the container that holds a port, for an error: " by service d/web, index 0
// (container ID)", or "" if it is none of this executor's.
func (p *ports) portHolder(port int) string {
	p.e.mu.Lock()
	defer p.e.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(p.e.containers)) {
		c := p.e.containers[id]
		if port != 0 && slices.ContainsFunc(c.ports, func(m action.Mapping) bool { return m.Port == port }) {
			return fmt.Sprintf(" by %s (container %s)", c.labels.subject(), id)
		}
	}
	return ""
}

// subject names the work of a container (Seams, Containers).
func (l Labels) subject() string {
	switch {
	case l["service"] != "":
		return fmt.Sprintf("service %s/%s, index %s", l["domain"], l["service"], l["index"])
	case l["task"] != "":
		return "task " + l["task"]
	case l["job"] != "":
		return fmt.Sprintf("job %s/%s, node %s", l["domain"], l["job"], l["node"])
	}
	return "another container"
}

func (p *ports) givePortsBack(list []action.Mapping) {
	for _, m := range list {
		p.give(m.Port)
	}
}
