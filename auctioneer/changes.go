package auctioneer

import (
	"sync"
	"time"
)

// changes are those that are to be made to the auction, in order. A caller that has one never waits
// for a round: it leaves it here, and makes it itself only if the auction is free.
type changes struct {
	mu    sync.Mutex
	queue []change
}

type change struct {
	at    time.Duration // boot time of the call
	make  func(now time.Duration)
	wakes bool // it may let work be placed
}

func (c *changes) take() []change {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.queue
	c.queue = nil
	return all
}

func (c *changes) none() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue) == 0
}

// change has f change the auction, and a round made after that.
func (a *Auctioneer) change(f func(now time.Duration)) { a.enqueue(f, true) }

// note is change for what lets no work be placed.
func (a *Auctioneer) note(f func(now time.Duration)) { a.enqueue(f, false) }

func (a *Auctioneer) enqueue(f func(now time.Duration), wakes bool) {
	c := change{a.cfg.Clock.Boot(), f, wakes}
	a.changes.mu.Lock()
	a.changes.queue = append(a.changes.queue, c)
	a.changes.mu.Unlock()
	a.settle()
}

// settle makes the queued changes. If another has the lock, that one does when it gives it back.
func (a *Auctioneer) settle() {
	for !a.changes.none() && a.mu.TryLock() {
		a.make()
		a.mu.Unlock()
	}
}

// lock takes the lock; all changes of earlier calls are made.
func (a *Auctioneer) lock() {
	a.mu.Lock()
	a.make()
}

func (a *Auctioneer) unlock() {
	a.mu.Unlock()
	a.settle()
}

// breathe lets others have the lock.
func (a *Auctioneer) breathe() {
	a.unlock()
	a.lock()
}

// make makes the queued changes; the lock is held.
func (a *Auctioneer) make() {
	for _, c := range a.changes.take() {
		c.make(c.at)
		if c.wakes {
			a.wake()
		}
	}
}

// wake has a round made; the lock is held.
func (a *Auctioneer) wake() {
	a.woken = true
	a.loop.Wake()
}
