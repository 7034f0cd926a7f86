package batch

import (
	"fmt"
	"math"
)

// patience is how long a job may have nodes that are ready and start none for want of room
// on nodes, in milliseconds, before room is kept for it. It is what work waits for a cell
// before one is kept for it.
const patience = 30_000

// keep is room on the path of one node that is kept for its job: what other jobs draw on
// those nodes leaves it.
type keep struct {
	job   *job
	node  int32
	place int32
	draws []draw
}

// wanting notes whether a job that starts nothing waits for room on nodes.
func (b *Board) wanting(j *job) {
	switch {
	case j.counts[ClassReady] == 0:
		j.starved = 0
	case j.starved == 0:
		j.starved = max(b.now, 1)
	}
}

// reserve keeps room for the job that has waited longest, if any has for too long: else jobs
// of little need could keep one of great need from ever starting. One at a time.
func (b *Board) reserve() {
	if k := b.kept; k != nil {
		if b.wants(k) {
			return
		}
		b.unkeep()
	}
	var most *job
	for _, j := range b.order {
		if j.starved > 0 && b.now-j.starved >= patience && b.runnable(j) && j.blocked == "" && j.counts[ClassReady] > 0 && (most == nil || j.starved < most.starved) {
			most = j
		}
	}
	if most == nil {
		return
	}
	p := b.leastLack(most)
	if p < 0 {
		most.starved = b.now // no node could ever hold it: it is looked at again later
		return
	}
	k := &keep{job: most, node: b.f.places[p].name, place: p}
	for q, level := p, most.level; q >= 0; q, level = b.f.places[q].parent, level-1 {
		k.draws = append(k.draws, draw{level, b.f.places[q].name, most.needs[level]})
	}
	b.kept = k
	b.told(k)
}

// wants reports whether what is kept is still for something. A change of its job or of the
// nodes has given it back already.
func (b *Board) wants(k *keep) bool {
	j := k.job
	return j.blocked == "" && b.record(j, k.node).class == ClassReady && j.shut[k.place] == ""
}

// unkeep gives back what is kept.
func (b *Board) unkeep() {
	if k := b.kept; k != nil {
		b.kept = nil
		b.told(k)
	}
}

// told updates all tournaments that pass the nodes on which something is kept.
func (b *Board) told(k *keep) {
	for _, d := range k.draws {
		b.drawn(d.level, d.node)
	}
}

// leastLack returns the place of a job's ready node whose path lacks least, as shares of the
// limits, or -1 when no node could hold it.
func (b *Board) leastLack(j *job) int32 {
	best, least := int32(-1), math.Inf(1)
	for p := b.f.start[j.level]; p < b.f.start[j.level+1]; p++ {
		if !j.t.ready(p) || j.shut[p] != "" {
			continue
		}
		lack := 0.0
		for q, level := p, j.level; q >= 0; q, level = b.f.places[q].parent, level-1 {
			lack += b.f.lack(level, b.f.places[q].name, j.needs[level])
		}
		if lack < least || lack == least && best >= 0 && b.f.places[p].rank < b.f.places[best].rank {
			best, least = p, lack
		}
	}
	return best
}

// lack is how much of what is needed a node is short of, as shares of its limits; infinite
// when its limits are less than what is needed.
func (f *forest) lack(level int, node int32, need []int) (sum float64) {
	at := int(node) * len(need)
	for i, x := range need {
		limit := f.limits[level][i]
		switch short := f.used[level][at+i] + x - limit; {
		case x == 0:
		case x > limit:
			return math.Inf(1)
		case short > 0:
			sum += float64(short) / float64(limit)
		}
	}
	return sum
}

// leaves reports whether a task of a job leaves on a node what is kept there for another.
func (b *Board) leaves(j *job, level int, node int32) bool {
	if b.kept == nil || b.kept.job == j {
		return true
	}
	need := j.needs[level]
	for _, d := range b.kept.draws {
		if d.level != level || d.node != node {
			continue
		}
		at := int(node) * len(need)
		for i, x := range need {
			if x > 0 && b.f.used[level][at+i]+x+d.need[i] > b.f.limits[level][i] {
				return false
			}
		}
	}
	return true
}

// explainKept says whose room on a node stands in the way, when what is drawn does not.
func (b *Board) explainKept(j *job, level int, node int32, say func(Why)) {
	if b.leaves(j, level, node) || !b.f.room(level, node, j.needs[level]) {
		return
	}
	name, k := b.f.names[level].list[node], b.kept
	say(Why{Level: b.f.levels[level], Node: name, Text: fmt.Sprintf("%s %s: room is reserved for %s/%s, which has waited longer",
		b.f.levels[level], name, k.job.Name, b.f.names[k.job.level].list[k.node])})
}
