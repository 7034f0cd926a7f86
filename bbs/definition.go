package bbs

import "cantina/lrp"

// Definition returns the committed definition of a process, or nil.
func (q *queries) Definition(process string) *lrp.Desired {
	q.view.mu.RLock()
	defer q.view.mu.RUnlock()
	p, ok := q.view.processes[process]
	if !ok {
		return nil
	}
	s := q.view.services[p.service].row
	if s == nil {
		return nil
	}
	for i := range s.Versions {
		if s.Versions[i].Process == process {
			return &s.Versions[i].Desired
		}
	}
	return nil
}
