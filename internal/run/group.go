package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Group runs parts that live and end together: when one returns, all others are stopped, and Run
// returns when every one has. It is used once.
type Group struct {
	parts []part
}

type part struct {
	name string
	run  func(context.Context) error
}

// Add names a part. Parts are stopped in reverse order of Add: a part may rely
// on every earlier one until it has returned.
func (g *Group) Add(name string, run func(context.Context) error) {
	g.parts = append(g.parts, part{name, run})
}

// Run starts the parts in order and returns when all have ended. Its error joins
// those of the parts, each with its name, but for context.Canceled.
func (g *Group) Run(ctx context.Context) error {
	ended := make(chan struct{})
	var once sync.Once
	var mu sync.Mutex
	var errs []error
	stops := make([]context.CancelFunc, len(g.parts))
	dones := make([]chan struct{}, len(g.parts))
	for i, p := range g.parts {
		pctx, stop := context.WithCancel(context.WithoutCancel(ctx))
		stops[i], dones[i] = stop, make(chan struct{})
		go func() {
			defer close(dones[i])
			defer once.Do(func() { close(ended) })
			if err := p.run(pctx); err != nil && !errors.Is(err, context.Canceled) {
				mu.Lock()
				errs = append(errs, fmt.Errorf("%s: %w", p.name, err))
				mu.Unlock()
			}
		}()
	}
	if len(g.parts) > 0 {
		select {
		case <-ctx.Done():
		case <-ended:
		}
	}
	for i := len(g.parts) - 1; i >= 0; i-- {
		stops[i]()
		<-dones[i]
	}
	return errors.Join(errs...)
}
