package cell

import (
	"maps"
	"sync"
)

// residual remembers the log entries about rows without a container, by instance or uid: the rows
// may stay for long, and each poll finds them again.
type residual struct {
	mu   sync.Mutex
	said map[string]string
}

// changed records the message about a row, and reports whether it is new.
func (r *residual) changed(id, text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if was, ok := r.said[id]; ok && was == text {
		return false
	}
	if r.said == nil {
		r.said = map[string]string{}
	}
	r.said[id] = text
	return true
}

func (r *residual) drop(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.said, id)
}

// keep removes entries that no row names any more.
func (r *residual) keep(rows Rows) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.said) == 0 {
		return
	}
	named := map[string]bool{}
	for _, x := range rows.LRPs {
		for _, a := range x.Rows() {
			named[a.Instance] = true
		}
	}
	for _, t := range rows.Tasks {
		named[t.UID] = true
	}
	maps.DeleteFunc(r.said, func(id, _ string) bool { return !named[id] })
}
