package worker

import "fmt"

// calm lets a state go on without faults and reports errors: each wanted task is alive once in the end, and the
// leader knows it.
func (s *world) calm(n *node) string {
	c := n.copied()
	for i := range c.cells {
		if c.paused[i] {
			s.resume(c, i)
		}
	}
	for range calmRounds {
		for range 4 * inFlight { // answers fly, too
			if len(c.flight) == 0 {
				break
			}
			m := c.flight[0]
			c.flight = c.flight[1:]
			s.deliver(c, m)
		}
		if c.err != "" {
			return "while calm: " + c.err
		}
		if s.resolved(c) {
			return ""
		}
		for i := range c.cells {
			s.contact(c, i)
			for w := range max(1, c.budget.tasks) {
				if s.mayStart(c, w, i) {
					s.startWork(c, w, i)
				}
			}
		}
		s.pass(c, 2, [2]bool{true, true}, [2]int{0, 1})
	}
	return fmt.Sprintf("a task that is wanted does not run %v after the last fault", calmRounds*2*tick)
}

// calmRounds is how many rounds of calm suffice: an expiry, and the pause between two questions.
const calmRounds = 24

// resolved reports whether each wanted task runs once, also in the leader's view.
func (s *world) resolved(n *node) bool {
	if n.leader == nil || len(n.flight) > 0 {
		return false
	}
	for w := range max(1, n.budget.tasks) {
		es := n.leader.batch.model.byWork[theWorks()[w]]
		if len(es) != 1 || !es[0].sure || es[0].ending {
			return false
		}
		found := 0
		for i, c := range n.cells {
			for _, r := range n.alive[i] {
				if r == es[0].run && c.proc == es[0].on.row.Proc {
					found++
				}
			}
		}
		if found != 1 {
			return false
		}
	}
	return true
}
