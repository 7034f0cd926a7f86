package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"cantina/batch"
	"cantina/bench/gauge"
	"cantina/fence"
)

// board plants the nodes of a grove on a board of its own, and its jobs.
func (g grove) board() (*batch.Board, error) {
	spec := g.spec()
	spec.Sources = nil
	b, err := batch.NewBoard(spec)
	if err != nil {
		return nil, err
	}
	nodes := make([]batch.NodeSpec, 0, g.hosts*(g.databases+1))
	for h := range g.hosts {
		host := "host" + strconv.Itoa(h)
		nodes = append(nodes, batch.NodeSpec{Name: host, Level: "host"})
		for d := range g.databases {
			nodes = append(nodes, batch.NodeSpec{Name: host + ".db" + strconv.Itoa(d), Level: "db", Parent: host})
		}
	}
	for _, j := range g.named() {
		if problems := b.Put(j.Job); len(problems) > 0 {
			return nil, fmt.Errorf("job %s: %v", j.Job.Name, problems)
		}
	}
	b.Advance(time.Now().UnixMilli())
	return b, b.SetNodes(nodes)
}

// load measures how long it takes to plant the nodes and to decide all first starts.
func load(g grove) error {
	begin, spent := time.Now(), gauge.Spent()
	b, err := g.board()
	if err != nil {
		return err
	}
	planted := time.Since(begin)
	starts := len(b.Pick(1 << 30))
	fmt.Printf("load: %d nodes × %d jobs planted in %v, first full pass of %d starts with it %v, %v of processor time, "+
		"%d MB resident, load %s\n", g.hosts*g.databases, g.jobs, planted.Round(time.Millisecond), starts,
		time.Since(begin).Round(time.Millisecond), (gauge.Spent() - spent).Round(time.Millisecond),
		gauge.Resident(os.Getpid())>>20, gauge.Load())
	return nil
}

// visits ends one task after another, refills each slot at once, and prints how many pairs that visits.
func visits(g grove, slots int) error {
	b, err := g.board()
	if err != nil {
		return err
	}
	var running []batch.Start
	n := int64(0)
	take := func(most int) error {
		for _, s := range b.Pick(most) {
			n++
			if err := b.Started(s.Key, fence.Invocation{Term: fence.Term{Epoch: 1, Revision: 1}, Counter: n}, "c"); err != nil {
				return err
			}
			running = append(running, s)
		}
		return nil
	}
	if err := take(1 << 30); err != nil {
		return err
	}
	most, all, at := int64(0), b.Visits(), 0
	begin, spent := time.Now(), gauge.Spent()
	for ; at < min(slots, len(running)); at++ {
		before := b.Visits()
		inv, _, _ := b.Running(running[at].Key)
		b.Apply(b.End(running[at].Key, inv, batch.Report{Bits: batch.Done}, 0))
		if err := take(1); err != nil {
			return err
		}
		most = max(most, b.Visits()-before)
	}
	name := "each host has room for two"
	if g.root > 0 {
		name = fmt.Sprintf("all blocked on the root's limit of %d", g.root)
	}
	fmt.Printf("visits: %d pairs, %s: one freed slot visits %d of them, at most %d (bound %d), %v, %v of processor time, "+
		"load %s\n", g.hosts*g.databases*g.jobs, name, (b.Visits()-all)/int64(max(at, 1)), most, 64*(3+g.jobs),
		time.Since(begin)/time.Duration(max(at, 1)), (gauge.Spent()-spent)/time.Duration(max(at, 1)), gauge.Load())
	return nil
}
