// Package fanout sends one question to many servers and returns their answers as they arrive.
//
//	targets ──► at most Width at a time, each with its own deadline ──► Reply, in order of arrival
//
// A server that is slow or down costs its own deadline and one of the places, and delays no answer of
// the others. Fewer than Serial targets are asked one after the other by the caller's goroutine:
// for them a pool costs more than it saves ("Bistro web UI, multi-curl").
package fanout

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"
)

const (
	// Width is the default number of questions in progress.
	Width = 32
	// Deadline is the default time for one answer.
	Deadline = 2 * time.Second
	// Serial is the number of targets from which questions run at the same time.
	Serial = 4
)

// Limits bounds a fan-out. The zero value has the defaults.
type Limits struct {
	Width    int           // questions in progress; 0 = the constant Width
	Deadline time.Duration // for one answer; 0 = the constant Deadline
}

// Reply is the answer of one target, or its error.
type Reply[T any] struct {
	Target string
	Value  T
	Err    error
	Took   time.Duration
}

// Ask sends a question to each target once, and yields one result for each in order of arrival. A context
// that is done makes the remaining results errors. A loop that breaks ends the questions in progress and
// waits for them: ask must return when its context ends.
func Ask[T any](ctx context.Context, targets []string, cfg Limits,
	ask func(ctx context.Context, target string) (T, error)) iter.Seq[Reply[T]] {
	if cfg.Width <= 0 {
		cfg.Width = Width
	}
	if cfg.Deadline <= 0 {
		cfg.Deadline = Deadline
	}
	targets = distinct(targets)
	one := func(ctx context.Context, target string) Reply[T] {
		ctx, cancel := context.WithTimeout(ctx, cfg.Deadline)
		defer cancel()
		begin := time.Now()
		v, err := ask(ctx, target)
		return Reply[T]{target, v, err, time.Since(begin)}
	}
	if len(targets) < Serial {
		return func(yield func(Reply[T]) bool) {
			for _, t := range targets {
				if !yield(one(ctx, t)) {
					return
				}
			}
		}
	}
	return func(yield func(Reply[T]) bool) {
		ctx, cancel := context.WithCancel(ctx)
		stop := make(chan struct{})
		queue, results := make(chan string, len(targets)), make(chan Reply[T])
		for _, t := range targets {
			queue <- t
		}
		close(queue)
		var workers sync.WaitGroup
		for range min(cfg.Width, len(targets)) {
			workers.Go(func() {
				for t := range queue {
					select {
					case results <- one(ctx, t):
					case <-stop:
						return
					}
				}
			})
		}
		defer workers.Wait()
		defer close(stop)
		defer cancel()
		for range targets {
			if !yield(<-results) {
				return
			}
		}
	}
}

func distinct(targets []string) []string {
	seen := make(map[string]bool, len(targets))
	return slices.DeleteFunc(slices.Clone(targets), func(t string) bool {
		again := seen[t]
		seen[t] = true
		return again
	})
}

// Failures remembers the targets that did not answer last time. Its methods may be called at the same time.
type Failures struct {
	mu     sync.Mutex
	failed map[string]bool
}

// maxFailures bounds the names that are remembered.
const maxFailures = 10_000

// Note records whether a target answered.
func (f *Failures) Note(target string, failed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !failed:
		delete(f.failed, target)
	case f.failed == nil:
		f.failed = map[string]bool{target: true}
	case len(f.failed) < maxFailures:
		f.failed[target] = true
	}
}

// Last returns the targets with those at the end that did not answer last time: a server that is down
// takes no place from one that answers.
func (f *Failures) Last(targets []string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]string, 0, len(targets))
	for _, failed := range []bool{false, true} {
		for _, t := range targets {
			if f.failed[t] == failed {
				out = append(out, t)
			}
		}
	}
	return out
}
