package placement

// never is the usage of a leaf that takes nothing.
const never = 1 << 62

// tree is a tournament over the cells of one class for one kind of work: every node has the least
// usage and, per dimension, the largest free amount below it. A search skips cells that cannot fit
// or cannot win, so it visits a path, not the class.
//
// Leaves are refreshed lazily: a change only marks the leaf.
type tree struct {
	leaves int // a power of two
	dims   int
	usage  []int64
	free   []int64 // dims per node
	dirty  []int32
	marked []bool
}

// reset makes room for n leaves of so many dimensions, all of them never and
// marked, so that the next flush fills them.
func (t *tree) reset(n, dims int) {
	leaves := 1
	for leaves < n {
		leaves *= 2
	}
	*t = tree{leaves: leaves, dims: dims, usage: make([]int64, 2*leaves), free: make([]int64, 2*leaves*dims),
		marked: make([]bool, leaves)}
	for i := range t.usage {
		t.usage[i] = never
	}
	for i := range t.free {
		t.free[i] = -1
	}
}

func (t *tree) mark(leaf int) {
	if leaf < len(t.marked) && !t.marked[leaf] {
		t.marked[leaf] = true
		t.dirty = append(t.dirty, int32(leaf))
	}
}

// set writes one leaf and the path above it. A nil free means never.
func (t *tree) set(leaf int, usage int64, free func(d int) int64) {
	i := t.leaves + leaf
	t.usage[i] = usage
	for d := range t.dims {
		if usage == never {
			t.free[i*t.dims+d] = -1
		} else {
			t.free[i*t.dims+d] = free(d)
		}
	}
	for i /= 2; i >= 1; i /= 2 {
		l, r := 2*i, 2*i+1
		t.usage[i] = min(t.usage[l], t.usage[r])
		for d := range t.dims {
			t.free[i*t.dims+d] = max(t.free[l*t.dims+d], t.free[r*t.dims+d])
		}
	}
}

// search is one search for the best cell. Lower count wins, then lower score, then the one found
// first.
type search struct {
	need   vector
	where  []int // dimensions with a need
	floor  int   // least count that any cell of the class can have
	lift   int64 // least rise that any cell of the class can have
	count  int
	score  int64
	best   int32 // cell, -1 = none yet
	visits int
	class  *class // that is searched now
	ledger *Ledger
	shape  *shape
	group  *group
}

func (s *search) better(count int, score int64) bool {
	return s.best < 0 || count < s.count || count == s.count && score < s.score
}

func (t *tree) find(i int, s *search) {
	s.visits++
	if !s.better(s.floor, t.usage[i]+s.lift) {
		return
	}
	for _, d := range s.where {
		if t.free[i*t.dims+d] < s.need[d] {
			return
		}
	}
	if i >= t.leaves {
		cell, count, score, ok := s.look(i - t.leaves)
		if ok && s.better(count, score) {
			s.best, s.count, s.score = cell, count, score
		}
		return
	}
	l, r := 2*i, 2*i+1
	if t.usage[r] < t.usage[l] {
		l, r = r, l
	}
	t.find(l, s)
	t.find(r, s)
}
