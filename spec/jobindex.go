package spec

import "slices"

// jobIndex finds the jobs of a file by name, and the circles of their
// dependencies.
type jobIndex struct {
	byName map[string]job
	names  []string
	// circle numbers the groups of jobs that depend on one another, from 1.
	circle map[string]int
}

func indexJobs(jobs named[job]) jobIndex {
	x := jobIndex{byName: make(map[string]job, len(jobs)), circle: map[string]int{}}
	for _, e := range jobs {
		x.byName[e.key] = e.value
		x.names = append(x.names, e.key)
	}
	c := &circles{jobIndex: x, order: map[string]int{}, low: map[string]int{}, open: map[string]bool{}}
	for _, name := range x.names {
		if c.order[name] == 0 {
			c.visit(name)
		}
	}
	return x
}

// circles finds groups of jobs that reach one another, in one walk over all
// dependencies (Tarjan).
type circles struct {
	jobIndex
	order, low map[string]int
	open       map[string]bool
	stack      []string
	groups     int
}

func (c *circles) visit(name string) {
	n := len(c.order) + 1
	c.order[name], c.low[name] = n, n
	c.stack = append(c.stack, name)
	c.open[name] = true
	itself := false
	one := c.byName[name]
	for _, dep := range slices.Concat(one.DependsOn, one.After) {
		itself = itself || dep == name
		if _, ok := c.byName[dep]; !ok {
			continue
		}
		if c.order[dep] == 0 {
			c.visit(dep)
			c.low[name] = min(c.low[name], c.low[dep])
		} else if c.open[dep] {
			c.low[name] = min(c.low[name], c.order[dep])
		}
	}
	if c.low[name] != c.order[name] {
		return
	}
	at := len(c.stack) - 1
	for c.stack[at] != name {
		at--
	}
	if group := c.stack[at:]; len(group) > 1 || itself {
		c.groups++
		for _, g := range group {
			c.circle[g] = c.groups
		}
	}
	for _, g := range c.stack[at:] {
		c.open[g] = false
	}
	c.stack = c.stack[:at]
}
