package sim

import "time"

// cutLink cuts a machine from one server or all, in one or both directions.
func (n *network) cutLink(s *server, m *machine, d time.Duration) {
	for _, o := range n.w.servers {
		if o != s && n.w.chance(500) {
			continue
		}
		a, b := n.serverNode(o.id), n.machineNode(m.id)
		which := n.w.rng.IntN(3)
		if which != 0 {
			n.cuts[[2]int{a, b}] = n.w.now + d
		}
		if which != 1 {
			n.cuts[[2]int{b, a}] = n.w.now + d
		}
	}
}

// cutOthers cuts a machine from every server but one.
func (n *network) cutOthers(s *server, m *machine, d time.Duration) {
	if n.w.cfg.Alone {
		return
	}
	for _, o := range n.w.servers {
		if o != s {
			a, b := n.serverNode(o.id), n.machineNode(m.id)
			n.cuts[[2]int{a, b}], n.cuts[[2]int{b, a}] = n.w.now+d, n.w.now+d
		}
	}
}

// The nodes of the network: servers first, then machines; the store last.
func (n *network) serverNode(i int) int  { return i }
func (n *network) machineNode(i int) int { return len(n.w.servers) + i }
func (n *network) storeNode() int        { return len(n.w.servers) + len(n.w.machines) }

func (n *network) cut(a, b int) bool { return n.cuts[[2]int{a, b}] > n.w.now }

// send carries one message, perhaps never, late or twice.
func (n *network) send(op Op, from, to int, deliver func()) {
	n.w.res.Coverage.add(op, n.w)
	if n.cut(from, to) {
		n.w.trace("  net: %v %d→%d cut off", op, from, to)
		return
	}
	if n.w.calm {
		n.w.after(n.w.between(time.Millisecond, 5*time.Millisecond), deliver)
		return
	}
	bad := 20
	if n.rough > n.w.now {
		bad = 200
	}
	if n.w.chance(bad) {
		n.w.trace("  net: %v %d→%d dropped", op, from, to)
		return
	}
	if to >= len(n.w.servers) && to < n.storeNode() && n.w.machines[to-len(n.w.servers)].lag > n.w.now {
		n.w.after(n.w.between(time.Second, 20*time.Second), deliver)
		return
	}
	n.w.after(n.delay(bad), deliver)
	if n.w.chance(bad) {
		n.w.after(n.delay(bad), deliver)
	}
}

func (n *network) delay(bad int) time.Duration {
	switch {
	case n.w.chance(bad / 4):
		return n.w.between(time.Second, 25*time.Second)
	case n.w.chance(bad * 2):
		return n.w.between(0, 2*time.Second)
	}
	return n.w.between(time.Millisecond, 20*time.Millisecond)
}
