package placement

import (
	"fmt"
	"slices"
	"strings"

	"cantina/resource"
)

// A fixed port belongs to a machine: all cells of it share each number. A cell of an unknown
// machine shares with no other.

// machines are the cells with a known state, by host name.
type machines map[string][]*cell

func (m machines) add(c *cell) { m[c.state.Host] = append(m[c.state.Host], c) }

func (m machines) remove(c *cell) {
	list := slices.DeleteFunc(m[c.state.Host], func(x *cell) bool { return x == c })
	if m[c.state.Host] = list; len(list) == 0 {
		delete(m, c.state.Host)
	}
}

// each visits the cell and the others of its machine: those with the same host name, and the
// same address of instances, for machines are set up with one and the same name.
func (m machines) each(c *cell, f func(*cell)) {
	f(c)
	if c.state.Host == "" {
		return
	}
	for _, x := range m[c.state.Host] {
		if x != c && x.state.InstanceAddress == c.state.InstanceAddress {
			f(x)
		}
	}
}

// takePorts allocates the fixed ports of a holding, or frees them again.
func (l *Ledger) takePorts(h *holding, sign int) {
	if len(h.Ports) == 0 {
		return
	}
	c := h.cell
	if c.ports == nil {
		c.ports = make(map[int]int)
	}
	for _, p := range h.Ports {
		if c.ports[p] += sign; c.ports[p] == 0 {
			delete(c.ports, p)
		}
	}
	l.hosts.each(c, func(x *cell) { l.touch(x, sign < 0) })
}

// free reports whether all of the ports are free on the cell's machine.
func (m machines) free(ports []int, c *cell) bool {
	free := true
	if len(ports) > 0 {
		m.each(c, func(x *cell) {
			free = free && !slices.ContainsFunc(ports, func(p int) bool { return x.ports[p] > 0 })
		})
	}
	return free
}

// busy lists those of the ports that are taken on the cell's machine.
func (m machines) busy(ports []int, c *cell) (busy []int) {
	for _, p := range ports {
		if !m.free([]int{p}, c) {
			busy = append(busy, p)
		}
	}
	return busy
}

// holder names the work that has a port of the cell's machine; empty = it has no name.
func (m machines) holder(p int, c *cell) string {
	var names []string
	m.each(c, func(x *cell) {
		for _, h := range x.holds {
			if h.Name != "" && slices.Contains(h.Ports, p) {
				names = append(names, h.Name)
			}
		}
	})
	if len(names) == 0 {
		return ""
	}
	return slices.Min(names)
}

// shortages adds the ports that no cell of a shortfall has free.
func (m machines) shortages(f *shortfall) (out []Shortage) {
	for _, p := range f.ports {
		out = append(out, Shortage{Name: resource.Port(p), Need: 1, LargestAll: 1, Holder: m.holder(p, f.first)})
	}
	return out
}

// portsKey is part of the keys of shapes and shortfalls.
func portsKey(ports []int) string {
	if len(ports) == 0 {
		return ""
	}
	return strings.Trim(fmt.Sprint(ports), "[]")
}

// Machines counts the machines of all known cells, and of others, whose constraints admit work
// with one of the given ones, including cells that may not get work now.
func (l *Ledger) Machines(constraints []Constraint, others []State) int {
	lets := func(s *State) bool {
		return slices.ContainsFunc(constraints, func(c Constraint) bool { _, _, ok := compatible(s, &c); return ok })
	}
	type machine struct{ host, address string }
	seen := make(map[machine]bool)
	add := func(name string, s *State) {
		if !lets(s) {
			return
		}
		m := machine{s.Host, s.InstanceAddress}
		if s.Host == "" {
			m = machine{"", name}
		}
		seen[m] = true
	}
	for _, c := range l.cells {
		if c != nil && c.known {
			add(c.name, &c.state)
		}
	}
	for i := range others {
		if c := l.byName[others[i].Cell]; c == nil || !c.known {
			add(others[i].Cell, &others[i])
		}
	}
	return len(seen)
}
