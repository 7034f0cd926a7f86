// Package dead remembers which cell processes are certainly dead. It is a value of the core: the
// boards of services and tasks each own one.
package dead

// Newest is the number of remembered processes that no row names any more: a call that was
// accepted before such a process was declared dead may still put it into a row.
const Newest = 256

// Set is a set of cell processes that are certainly dead: those that rows name, and the newest
// others. The zero value is empty.
type Set struct {
	procs map[string]bool
	order []string // by the time of their deaths
	most  int      // how many order may have before it is looked through
}

// Add records that a process is certainly dead. named reports whether a row names a process.
func (s *Set) Add(proc string, named func(proc string) bool) {
	if s.procs == nil {
		s.procs, s.most = map[string]bool{}, 2*Newest
	}
	if s.procs[proc] {
		return
	}
	s.procs[proc] = true
	s.order = append(s.order, proc)
	if len(s.order) <= s.most {
		return
	}
	left := make([]string, 0, s.most)
	for i, p := range s.order {
		switch {
		case !s.procs[p]: // it lives after all
		case named(p) || i >= len(s.order)-Newest:
			left = append(left, p)
		default:
			delete(s.procs, p)
		}
	}
	s.order, s.most = left, max(2*Newest, 2*len(left))
}

// Delete removes a process that was treated as dead because no list named it.
func (s *Set) Delete(proc string) { delete(s.procs, proc) }

// Has reports whether a process is certainly dead.
func (s *Set) Has(proc string) bool { return s.procs[proc] }

// Len is how many processes are remembered.
func (s *Set) Len() int { return len(s.procs) }
