package placement

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"cantina/internal/draw"
	"cantina/internal/history"
	"cantina/resource"
)

// generator prints the decisions of an auction in a random history.
type generator struct {
	t       *testing.T
	rng     *rand.Rand
	out     strings.Builder
	a       *Auction
	now     time.Duration
	cells   int
	holds   []string // that were granted or placed, and some that are gone
	items   int
	version int64
}

// TestHistories compares the decisions of auctions, and the number of nodes that their searches visit, with a
// stored text.
func TestHistories(t *testing.T) {
	book := history.Open(t, "testdata/histories.txt")
	for n := range 80 {
		rng := rand.New(rand.NewPCG(uint64(n), 11))
		w := &generator{t: t, rng: rng, cells: draw.One(rng, 2, 4, 9, 24), a: NewAuction(Config{
			BatchReserve: draw.One(rng, 0, 0, 20, 50), InFlight: draw.One(rng, 0, 5*time.Second),
			Rest:     draw.One(rng, 0, 3*time.Second),
			Patience: draw.One(rng, 0, 2*time.Second, 5*time.Second), Batch: draw.One(rng, 0, 0, 2),
		})}
		for range 100 {
			w.something()
		}
		book.Check(t, fmt.Sprintf("auctions-%02d", n), w.out.String())
	}
	book.Close(t)
}

func (w *generator) printf(format string, args ...any) { fmt.Fprintf(&w.out, format+"\n", args...) }

func (w *generator) cell() string { return fmt.Sprint("c", w.rng.IntN(w.cells)) }

// some draws a part of the list, in its order.
func (w *generator) some(all ...string) (out []string) {
	for _, x := range all {
		if w.rng.IntN(3) == 0 {
			out = append(out, x)
		}
	}
	return out
}

// state draws the state that a cell reports. Half of the cells of a history are alike.
func (w *generator) state(name string) State {
	w.version++
	s := State{
		Cell: name, Process: "p-" + name, Version: w.version - int64(w.rng.IntN(3)),
		Zone: draw.One(w.rng, "z1", "z1", "z2", "z3"),
		Host: draw.One(w.rng, "h1", "h2", "h3", ""), InstanceAddress: draw.One(w.rng, "10.1", "10.1", "10.2"),
		Stacks: []string{"deb"},
		Capacity: resource.Amounts{resource.MemoryMB: 200, resource.DiskMB: 500, resource.Containers: 6,
			resource.CPUMilli: 4000},
		Draining: w.rng.IntN(15) == 0,
	}
	if w.rng.IntN(2) == 0 {
		return s
	}
	s.Capacity = resource.Amounts{resource.MemoryMB: draw.One(w.rng, 100, 150, 333),
		resource.DiskMB: draw.One(w.rng, 100, 1000), resource.Containers: 1 + w.rng.IntN(8),
		resource.CPUMilli: draw.One(w.rng, 0, 1000, 8000)}
	s.OptionalTags, s.RequiredTags, s.Taints = w.some("blue", "green"), w.some("red"), w.some("slow")
	s.OpenFiles = draw.One(w.rng, 0, 0, 1024)
	switch w.rng.IntN(8) {
	case 0:
		s.Stacks = append(s.Stacks, "win")
	case 1:
		s.Labels = map[string]string{"disk": "ssd"}
	case 2:
		s.Capacity["gpu"] = 1 + w.rng.IntN(2)
	case 3:
		s.Withdrawn = map[string]string{"overlay": "no such file system"}
	case 4:
		s.Unavailable = "probe failed"
	case 5:
		s.Foreign = resource.Amounts{resource.MemoryMB: 50, resource.Containers: 1}
	case 6:
		s.Process = draw.One(w.rng, "p-"+name, "q-"+name)
	}
	return s
}

func (w *generator) need() resource.Amounts {
	need := resource.Amounts{resource.MemoryMB: draw.One(w.rng, 0, 10, 40, 60, 120, 180)}
	switch w.rng.IntN(8) {
	case 0:
		need[resource.DiskMB] = draw.One(w.rng, 100, 400)
	case 1:
		need[resource.CPUMilli] = draw.One(w.rng, 1000, 3000)
	case 2:
		need["gpu"] = 1
	case 3:
		need[draw.One(w.rng, "fpga", resource.Containers)] = 2
	}
	return need
}

func (w *generator) constraint() (c Constraint) {
	switch w.rng.IntN(16) {
	case 0:
		c.Stack = draw.One(w.rng, "deb", "win")
	case 1, 2:
		c.Tags = w.some("blue", "red", "green")
	case 3:
		c.Labels = map[string]string{"disk": "ssd"}
	case 4, 5:
		c.Tolerates, c.Tags = []string{"slow"}, w.some("red")
	case 6, 7:
		c.Host = draw.One(w.rng, "h1", "h2")
	case 8:
		c.OpenFiles = draw.One(w.rng, 1000, 4096)
	case 9:
		c.Isolation = w.some("overlay", "namespaces")
	case 10, 11:
		c.Ports = draw.One(w.rng, []int{80}, []int{81, 80}, []int{443})
	}
	return c
}

func (w *generator) item() Item {
	w.items++
	it := Item{Hold: fmt.Sprint("hold", w.items), Kind: draw.One(w.rng, KindLRP, KindLRP, KindTask), Need: w.need(),
		Constraint: w.constraint(), Avoid: w.some(w.cell())}
	it.Name = draw.One(w.rng, "", "default/"+it.Hold)
	if it.Kind == KindTask {
		it.ID = fmt.Sprint("task", w.rng.IntN(40))
		return it
	}
	it.Group, it.Index = draw.One(w.rng, "web", "web", "api", ""), w.rng.IntN(12)-1
	it.ID = fmt.Sprint(it.Group, ".", it.Index)
	return it
}

// hold draws an id that may be allocated.
func (w *generator) hold() string {
	if len(w.holds) == 0 {
		return "none"
	}
	return w.holds[len(w.holds)-1-w.rng.IntN(min(len(w.holds), 12))]
}

// something happens.
func (w *generator) something() {
	switch w.rng.IntN(30) {
	case 0, 1, 2, 3, 4:
		s := w.state(w.cell())
		if w.rng.IntN(4) > 0 {
			w.printf("admit %s %v", s.Cell, w.a.Admit(s.Cell, s.Process, ""))
		}
		w.printf("push %+v %v", s, w.a.Push(s))
	case 5:
		name := w.cell()
		w.printf("admit %s %v", name, w.a.Admit(name, draw.One(w.rng, "p-", "q-")+name,
			draw.One(w.rng, "", "", "unhealthy", "new")))
	case 6:
		name := w.cell()
		w.a.Remove(name)
		w.printf("remove %s", name)
	case 7, 8, 9, 10, 11, 12:
		for range 1 + w.rng.IntN(5) {
			it := w.item()
			w.printf("submit %+v: %v, %d wait", it, w.a.Submit(w.now, it), w.a.Waiting())
		}
	case 13:
		w.printf("withdraw %d", w.a.Withdraw(w.item().ID, w.item().ID))
	case 14, 15:
		h := w.hold()
		w.printf("confirm %s %v", h, w.a.Confirm(h))
	case 16, 17:
		h, full := w.hold(), w.rng.IntN(2) == 0
		w.a.Refuse(w.now, h, full, draw.One(w.rng, "", "disk is full"))
		w.printf("refuse %s %v", h, full)
	case 18, 19, 20:
		h := w.hold()
		w.printf("release %s %d", h, w.a.Release(h, w.hold()))
	case 21:
		it := w.item()
		h := Holding{Hold: draw.One(w.rng, it.Hold, w.hold()), Cell: w.cell(),
			Kind: draw.One(w.rng, KindLRP, KindTask, KindBatch), Group: it.Group, Need: it.Need, Ports: it.Constraint.Ports,
			Name: it.Name}
		w.holds = append(w.holds, h.Hold)
		w.printf("hold %+v %v", h, w.a.Hold(h))
	case 22:
		w.a.Rest(w.now, w.cell())
	case 23, 24, 25:
		w.reserve()
	case 26:
		w.ask()
	default:
		w.round()
	}
	for _, c := range w.a.Cells() {
		w.printf("  %+v", c)
	}
	at, ok := w.a.Next()
	w.printf("at %v, next %v %v, visits %d", w.now, at, ok, w.a.visits)
}

// reserve asks for batch work of a few jobs, each of one shape most of the time.
func (w *generator) reserve() {
	var wants []Want
	for range 1 + w.rng.IntN(4) {
		w.items++
		job := w.rng.IntN(4)
		x := Want{Hold: fmt.Sprintf("batch/job%d\x00t%d", job, w.items),
			Need: resource.Amounts{resource.MemoryMB: 30 + 50*job, resource.CPUMilli: 500 * job}}
		switch w.rng.IntN(6) {
		case 0:
			x.Constraint, x.Need = w.constraint(), w.need()
		case 1:
			x.Hosts = hosts(draw.One(w.rng, "h1", "h2"), draw.One(w.rng, "h3", ""))
		case 2:
			x.Hold = draw.One(w.rng, "", x.Hold, w.hold())
		}
		wants = append(wants, x)
	}
	for _, g := range w.a.Reserve(wants, w.now) {
		if g.Refusal == nil {
			w.holds = append(w.holds, g.Hold)
		}
		w.printf("grant %q %s %s %s %s", g.Hold, g.Cell, g.Process, g.Host, words(g.Refusal))
	}
}

func words(r *Refusal) string {
	if r == nil {
		return "none"
	}
	return fmt.Sprintf("%s, never %v, missing %v, remedy %q", r, r.Never, r.Missing(), r.Remedy())
}

// ask only reads.
func (w *generator) ask() {
	it := w.item()
	w.printf("explain %+v: %s", it, words(w.a.Explain(it)))
	for _, id := range []string{it.ID, w.item().ID} {
		since, ok := w.a.WaitingSince(id)
		w.printf("%s waits since %v %v: %s", id, since, ok, words(w.a.ExplainWaiting(id)))
	}
	cell, ok := w.a.Where(w.hold())
	one, known := w.a.Cell(w.cell())
	w.printf("where %s %v, %+v %v", cell, ok, one, known)
	w.printf("machines %d", w.a.Machines([]Constraint{it.Constraint, w.constraint()},
		[]State{w.state(w.cell()), w.state("other")}))
}

// round goes to a bound, or to another moment, and has an auction.
func (w *generator) round() {
	at, ok := w.a.Next()
	switch by := w.rng.IntN(4); {
	case by > 0 && ok:
		w.now = max(w.now, at+draw.One[time.Duration](w.rng, 0, 0, 0, -1, 1))
	default:
		w.now += draw.One(w.rng, 0, time.Millisecond, time.Second, 2*time.Second, 10*time.Second)
	}
	r := round(w.a, w.now)
	for _, p := range r.Placed {
		w.holds = append(w.holds, p.Item.Hold)
		w.printf("placed %s of %s on %s %s", p.Item.Hold, p.Item.ID, p.Cell, p.Process)
	}
	for _, x := range r.Refused {
		w.printf("refused %s: %s", x.Item.ID, words(x.Refusal))
	}
	for _, x := range r.Expired {
		w.printf("expired %s", x.ID)
	}
	w.printf("round at %v: woken %v, more %v, %d wait", w.now, r.Woken, r.More, w.a.Waiting())
}
