package cell

import "sync"

// table is a map for many goroutines.
type table[V any] struct {
	mu     sync.Mutex
	m      map[string]V
	absent map[string]bool // keys that nothing had at the last keep
}

func newTable[V any]() *table[V] { return &table[V]{m: map[string]V{}} }

func (t *table[V]) put(id string, v V) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.m[id] = v
}

// first puts v unless there is one.
func (t *table[V]) first(id string, v V) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.m[id]; !ok {
		t.m[id] = v
	}
}

func (t *table[V]) get(id string) (V, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok := t.m[id]
	return v, ok
}

// any reports whether there is an entry.
func (t *table[V]) any() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.m) > 0
}

func (t *table[V]) drop(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.m, id)
}

// keep removes the keys that are unused, and were at the last keep: a container may be created
// after its entry.
func (t *table[V]) keep(has func(id string) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	absent := map[string]bool{}
	for id := range t.m {
		switch {
		case has(id):
		case t.absent[id]:
			delete(t.m, id)
		default:
			absent[id] = true
		}
	}
	t.absent = absent
}

// onceError is set once and closes done then.
type onceError struct {
	once *sync.Once
	done chan struct{}
	err  error
}

func newOnceError() *onceError { return &onceError{once: &sync.Once{}, done: make(chan struct{})} }

func (o *onceError) set(err error) {
	o.once.Do(func() {
		o.err = err
		close(o.done)
	})
}
