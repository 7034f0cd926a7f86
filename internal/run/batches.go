package run

import (
	"context"
	"sync"
)

// Batches collects items by key: one call per key is in progress, and the items that are added
// meanwhile go with the next one.
type Batches[K comparable, T any] struct {
	spawn func(func(context.Context))
	send  func(context.Context, K, []T)

	mu      sync.Mutex
	waiting map[K][]T // a key exists while a call is in progress
}

// NewBatches returns a collection without items. spawn runs a function concurrently; send makes a
// call.
func NewBatches[K comparable, T any](spawn func(func(context.Context)),
	send func(context.Context, K, []T)) *Batches[K, T] {
	return &Batches[K, T]{spawn: spawn, send: send, waiting: map[K][]T{}}
}

// Add puts an item into the next call of its key. It does not wait.
func (b *Batches[K, T]) Add(key K, item T) {
	b.mu.Lock()
	waiting, busy := b.waiting[key]
	b.waiting[key] = append(waiting, item)
	b.mu.Unlock()
	if busy {
		return
	}
	b.spawn(func(ctx context.Context) {
		for items := b.take(key); len(items) > 0; items = b.take(key) {
			b.send(ctx, key, items)
		}
	})
}

// take returns the items of a key; the key is gone when there are none.
func (b *Batches[K, T]) take(key K) []T {
	b.mu.Lock()
	defer b.mu.Unlock()
	items := b.waiting[key]
	if b.waiting[key] = nil; len(items) == 0 {
		delete(b.waiting, key)
	}
	return items
}
