package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"cantina/worker"
)

// part is one flag of a cluster's shape: an argument of `cantina sim`, printed in a replay line.
type part struct {
	name, help string
	get        func(c *Config) string
	set        func(c *Config, value string) error
	// draw sets it from the seed.
	draw func(c *Config, rng *rand.Rand)
}

// parts returns the flags of the shape, in the order in which they are printed and drawn.
func parts() []part {
	return []part{
		amount("servers", "servers", 1, func(c *Config) *int { return &c.Servers }, []int{1, 2, 2, 2, 3}),
		amount("cells", "cells", 1, func(c *Config) *int { return &c.Cells }, []int{1, 2, 2, 3, 3, 4, 5, 6}),
		amount("jobs", "jobs", 1, func(c *Config) *int { return &c.Jobs }, []int{1, 2, 2, 3}),
		amount("nodes", "nodes of each job", 1, func(c *Config) *int { return &c.Nodes }, []int{1, 2, 2, 3, 5}),
		amount("schedules", "schedules of tasks, jobs and signals, in turn", 0, func(c *Config) *int { return &c.Schedules },
			[]int{0, 0, 0, 1, 2, 3, 6}),
		choice("load", "batch, mixed (with services and tasks) or both (by the seed)",
			func(c *Config) *Load { return &c.Load },
			map[string]Load{"batch": Batch, "mixed": Mixed, "both": Alternate}, []Load{Batch, Mixed}),
		choice("witness", "list or consensus", func(c *Config) *worker.Witness { return &c.Witness },
			map[string]worker.Witness{"list": worker.WitnessList, "consensus": worker.WitnessConsensus},
			[]worker.Witness{worker.WitnessList, worker.WitnessList, worker.WitnessList, worker.WitnessConsensus}),
		choice("alone", "the server and its one cell are one process, as in cantina dev",
			func(c *Config) *bool { return &c.Alone },
			map[string]bool{"true": true, "false": false}, []bool{false, false, false, false, false, false, true}),
		choice("late", "the leader is late at times: it reads what has arrived long after",
			func(c *Config) *bool { return &c.Late },
			map[string]bool{"true": true, "false": false}, []bool{false, false, false, true}),
		choice("moves", "instances of services are moved to other cells, as rebalance does",
			func(c *Config) *bool { return &c.Moves },
			map[string]bool{"true": true, "false": false}, []bool{false, true}),
		choice("preempt", "the cells are full, and instances of services are stopped for work of higher priority",
			func(c *Config) *bool { return &c.Preempt },
			map[string]bool{"true": true, "false": false}, []bool{false, false, true}),
	}
}

func amount(name, help string, least int, of func(*Config) *int, drawn []int) part {
	return part{
		name: name, help: help,
		get: func(c *Config) string { return strconv.Itoa(*of(c)) },
		set: func(c *Config, v string) error {
			n, err := strconv.Atoi(v)
			if err != nil || n < least {
				return fmt.Errorf("must be a number of at least %d", least)
			}
			*of(c) = n
			return nil
		},
		draw: func(c *Config, rng *rand.Rand) { *of(c) = drawn[rng.IntN(len(drawn))] },
	}
}

func choice[T comparable](name, help string, of func(*Config) *T, values map[string]T, drawn []T) part {
	return part{
		name: name, help: help,
		get: func(c *Config) string {
			for _, text := range slices.Sorted(maps.Keys(values)) {
				if values[text] == *of(c) {
					return text
				}
			}
			return ""
		},
		set: func(c *Config, v string) error {
			x, ok := values[v]
			if !ok {
				return fmt.Errorf("must be one of %s", strings.Join(slices.Sorted(maps.Keys(values)), ", "))
			}
			*of(c) = x
			return nil
		},
		draw: func(c *Config, rng *rand.Rand) { *of(c) = drawn[rng.IntN(len(drawn))] },
	}
}

// flags prints the shape and the faults as flags of `cantina sim`: all that differ from the
// defaults, and the load.
func (c *Config) flags() string {
	is, usual := c.withDefaults(), Config{Load: Alternate}
	usual.Seed = c.Seed
	usual = usual.withDefaults()
	var out []string
	for _, p := range parts() {
		if v := p.get(&is); p.name == "load" || v != p.get(&usual) {
			out = append(out, "--"+p.name+" "+v)
		}
	}
	if c.Faults != nil {
		out = append(out, "--faults "+formatFaults(c.Faults))
	}
	return strings.Join(out, " ")
}

// drawShape returns the run of a seed with its shape drawn from the seed, except the flags in
// fixed. A fixed flag does not change the others.
func (c Config) drawShape(fixed []string) Config {
	rng := rand.New(rand.NewPCG(c.Seed, 0x5a9e))
	for _, p := range parts() {
		drawn := c
		p.draw(&drawn, rng)
		if !slices.Contains(fixed, p.name) {
			c = drawn
		}
	}
	return c
}

// Shapes counts the shapes of many runs: by flag and its value.
type Shapes map[string]map[string]int

func (s Shapes) add(c *Config) {
	for _, p := range parts() {
		if s[p.name] == nil {
			s[p.name] = map[string]int{}
		}
		s[p.name][p.get(c)]++
	}
}

// String prints how many runs had each value of each flag.
func (s Shapes) String() string {
	var out []string
	for _, p := range parts() {
		var values []string
		for _, v := range slices.Sorted(maps.Keys(s[p.name])) {
			values = append(values, fmt.Sprintf("%s ×%d", v, s[p.name][v]))
		}
		out = append(out, p.name+" "+strings.Join(values, ", "))
	}
	return strings.Join(out, "; ")
}
