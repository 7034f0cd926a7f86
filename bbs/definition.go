package bbs

import "cantina/lrp"

// Definition returns the committed definition of a process, or nil.
func (b *BBS) Definition(process string) *lrp.Desired {
	b.view.mu.RLock()
	defer b.view.mu.RUnlock()
	p, ok := b.view.processes[process]
	if !ok {
		return nil
	}
	s := b.view.services[p.service].row
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
