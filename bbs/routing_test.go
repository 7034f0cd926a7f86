package bbs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cantina/event"
	"cantina/lrp"
	"cantina/plan"
)

// router keeps the state of a routing consumer of the event stream: the running and the ready instances of each
// index of web, by the rows and by the view of readers. At times it loses its connection and resumes, or lists
// afresh.
type router struct {
	r   *rig
	rng *rand.Rand

	mu    sync.Mutex
	rows  map[int]map[string]bool    // index → instances that run
	shown map[int]map[lrp.Key]string // index → the view of each version's instances
	floor int64                      // the list has all that was committed up to here
	bad   string
	moves int // instances that came
	lost  int // connections
}

// list reads everything and returns a position from which nothing is missed.
func (c *router) list() event.Position {
	at := c.r.hub.Newest() // before the list, as the API does it
	page, err := c.r.b.ListInstances(plan.InstanceFilter{Domain: "d", Service: "web"}, plan.Range{Limit: 1000})
	if err != nil {
		c.r.t.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows, c.shown = map[int]map[string]bool{}, map[int]map[lrp.Key]string{}
	for _, i := range page.Items {
		n := i.Key.Index
		if c.rows[n] == nil {
			c.rows[n], c.shown[n] = map[string]bool{}, map[lrp.Key]string{}
		}
		for _, a := range i.Rows.Rows() {
			if a.Serves() {
				c.rows[n][a.Instance] = true
			}
		}
		if i.Serves() {
			c.shown[n][i.Key] = i.Actual.Instance
		}
	}
	c.floor = page.Revision
	return at
}

// take follows one event and looks whether an index is left without an instance.
func (c *router) take(e event.Event) {
	a := e.Instance
	if e.Kind != event.Instance || a == nil || a.Service != webKey || e.Revision <= c.floor {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := a.Key.Index
	if c.rows[n] == nil {
		return // not there when the consumer began
	}
	switch {
	case e.Gone || !a.Serves():
		delete(c.rows[n], a.Instance)
	case !c.rows[n][a.Instance]:
		c.rows[n][a.Instance] = true
		c.moves++
	}
	if e.Turn {
		delete(c.shown[n], a.Key)
		if e.Shown.Serves() {
			c.shown[n][a.Key] = e.Shown.Instance
		}
	}
	if (len(c.rows[n]) == 0 || len(c.shown[n]) == 0) && c.bad == "" {
		c.bad = fmt.Sprintf("index %d at %v: rows %v, shown %v after %+v", n, e.Position, c.rows[n], c.shown[n], *a)
	}
}

// run follows the stream until ctx is done.
func (c *router) run(ctx context.Context) {
	sub := c.r.hub.Since(c.list())
	for {
		b, err := sub.Next(ctx, time.Hour)
		if err != nil {
			return
		}
		for _, e := range b.Events {
			c.take(e)
			switch c.rng.IntN(6) {
			case 0: // the connection breaks: resume behind what was seen
				c.lost++
				sub = c.r.hub.Since(e.Position)
			case 1: // or everything is forgotten
				c.lost++
				sub = c.r.hub.Since(c.list())
			default:
				continue
			}
			break
		}
	}
}

// evacuate empties a cell as its harmoniser does.
func (r *rig) evacuate(cell string) {
	page, _ := r.b.ListInstances(plan.InstanceFilter{Cell: cell}, plan.Range{Limit: 1000})
	for _, i := range page.Items {
		for _, a := range i.Rows.Rows() {
			if a.Cell == cell && a.State == lrp.Running {
				_ = r.event(i.Key, lrp.Evacuate{By: a.Identity, Net: a.Net, Until: r.clock.Wall().Add(time.Hour)})
			}
		}
	}
}

// silent makes a cell UNHEALTHY: it gets nothing until it is back. One of three stays.
func (r *rig) silent(cell string) bool {
	r.mu.Lock()
	others := 0
	for _, on := range r.dead {
		if on {
			others++
		}
	}
	if others > 0 {
		r.mu.Unlock()
		return false
	}
	r.dead[cell+"1"] = true
	r.mu.Unlock()
	r.b.CellUnhealthy(cell, cell+"1")
	return true
}

// back makes a silent cell HEALTHY.
func (r *rig) back(cell string) {
	r.mu.Lock()
	was := r.dead[cell+"1"]
	r.dead[cell+"1"] = false
	r.mu.Unlock()
	if was {
		r.b.CellHealthy(cell, cell+"1")
	}
}

// TestARoutingConsumerNeverLosesAnIndex is the order of events over suspicion and its end, replacement, evacuation,
// rollouts and rollbacks. The connection of the consumer breaks at any event.
func TestARoutingConsumerNeverLosesAnIndex(t *testing.T) {
	for seed := range uint64(30) {
		inBubble(t, func(t *testing.T, r *rig) {
			rng := rand.New(rand.NewPCG(seed, 1))
			r.cells, r.slow = append(r.cells, "c"), seed%2 == 1
			r.apply([]lrp.Desired{web(3, "0")}, nil)
			r.serve()
			c := &router{r: r, rng: rand.New(rand.NewPCG(seed, 2))}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); c.run(ctx) }()
			synctest.Wait()
			for step := range 25 {
				cell := []string{"a", "b", "c"}[rng.IntN(3)]
				switch rng.IntN(6) {
				case 0:
					r.silent(cell)
				case 1:
					r.back(cell)
				case 2:
					r.evacuate(cell)
				case 3:
					r.apply([]lrp.Desired{web(3, fmt.Sprint(seed, step))}, nil)
				case 4: // silent, and replaced before it is given up
					if r.silent(cell) {
						r.serve()
						r.b.CellMustDie(cell, cell+"1", false)
					}
				case 5:
					r.serve()
				}
				synctest.Wait()
			}
			r.serve()
			cancel()
			<-ended
			if c.bad != "" {
				t.Errorf("seed %d: %s", seed, c.bad)
			}
			if c.moves == 0 || c.lost == 0 {
				t.Errorf("seed %d: %d moves, %d broken connections: nothing was tested", seed, c.moves, c.lost)
			}
		})
	}
}

// TestInstancesOfOneIndexStandTogether: during a rollout the new version's instances are
// listed beside those that they replace, on every page.
func TestInstancesOfOneIndexStandTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply([]lrp.Desired{web(3, "1")}, nil)
		r.serve()
		r.slow = true
		r.apply([]lrp.Desired{web(3, "2")}, nil)
		synctest.Wait()
		var got []int
		versions := map[int]bool{}
		for page := (plan.Range{Limit: 1}); ; {
			p, err := r.b.ListInstances(plan.InstanceFilter{Domain: "d", Service: "web"}, page)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range p.Items {
				got = append(got, x.Key.Index)
				versions[x.Version] = true
			}
			if page.After = p.Next; p.Next == "" {
				break
			}
		}
		if len(versions) != 2 || len(got) < 4 || !slices.IsSorted(got) {
			t.Errorf("indices %v of %d versions", got, len(versions))
		}
	})
}
