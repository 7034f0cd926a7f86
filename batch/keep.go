package batch

import (
	"fmt"
	"math"
)

// patience is how long a job may have ready nodes and start none for lack of room on nodes, in
// milliseconds, before room is reserved for it. It equals the wait before a cell is reserved.
const patience = 30_000

// keep is room on the path of one node that is reserved for its job: the draws of other jobs on
// those nodes leave it free.
type keep struct {
	job   *job
	node  int32
	place int32
	draws []draw
}

// reservation is the room that is reserved, for one job at a time.
type reservation struct {
	f     *forest
	jobs  *jobs
	clock *clock
	kept  *keep // nil = none
}

// wanting notes whether a job that starts nothing waits for room on nodes.
func (v *reservation) wanting(j *job) {
	switch {
	case j.counts[ClassReady] == 0:
		j.starved = 0
	case j.starved == 0:
		j.starved = max(v.clock.now, 1)
	}
}

// reserve keeps room for the job that has waited longest, if any has for too long: else jobs
// of little need could keep one of great need from ever starting. One at a time.
func (v *reservation) reserve() {
	if k := v.kept; k != nil {
		if v.wants(k) {
			return
		}
		v.unkeep()
	}
	var most *job
	for _, j := range v.jobs.order {
		if j.starved > 0 && v.clock.now-j.starved >= patience && v.jobs.runnable(j) && j.blocked == "" &&
			j.counts[ClassReady] > 0 && v.jobs.entitled(j) && (most == nil || j.starved < most.starved) {
			most = j
		}
	}
	if most == nil {
		return
	}
	p := v.f.leastLack(most)
	if p < 0 {
		most.starved = v.clock.now // no node could ever hold it: it is looked at again later
		return
	}
	k := &keep{job: most, node: v.f.places[p].name, place: p}
	for q, level := p, most.level; q >= 0; q, level = v.f.places[q].parent, level-1 {
		k.draws = append(k.draws, draw{level, v.f.places[q].name, most.needs[level]})
	}
	v.kept = k
	v.refresh(k)
}

// wants reports whether the reservation is still needed. A change of its job or of the nodes has
// already released it.
func (v *reservation) wants(k *keep) bool {
	j := k.job
	return j.blocked == "" && j.record(k.node).class == ClassReady && j.shut[k.place] == "" && v.jobs.entitled(j)
}

// unkeep releases the reservation.
func (v *reservation) unkeep() {
	if k := v.kept; k != nil {
		v.kept = nil
		v.refresh(k)
	}
}

// release releases the reservation if it is that of a job.
func (v *reservation) release(j *job) {
	if v.kept != nil && v.kept.job == j {
		v.unkeep()
	}
}

// refresh updates all tournaments that pass the nodes with a reservation.
func (v *reservation) refresh(k *keep) {
	for _, d := range k.draws {
		v.jobs.drawn(d.level, d.node)
	}
}

// leastLack returns the place of a job's ready node whose path lacks the least, as shares of the
// limits, or -1 if no node could hold it.
func (f *forest) leastLack(j *job) int32 {
	best, least := int32(-1), math.Inf(1)
	for p := f.start[j.level]; p < f.start[j.level+1]; p++ {
		if !j.t.ready(p) || j.shut[p] != "" {
			continue
		}
		lack := 0.0
		for q, level := p, j.level; q >= 0; q, level = f.places[q].parent, level-1 {
			lack += f.lack(level, f.places[q].name, j.needs[level])
		}
		if lack < least || lack == least && best >= 0 && f.places[p].rank < f.places[best].rank {
			best, least = p, lack
		}
	}
	return best
}

// lack is how much of the needed amount a node lacks, as shares of its limits; infinite if its
// limits are less than the needed amount.
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

// leaves reports whether a task of a job leaves the room on a node that is reserved for another.
func (v *reservation) leaves(j *job, level int, node int32) bool {
	if v.kept == nil || v.kept.job == j {
		return true
	}
	need := j.needs[level]
	for _, d := range v.kept.draws {
		if d.level != level || d.node != node {
			continue
		}
		at := int(node) * len(need)
		for i, x := range need {
			if x > 0 && v.f.used[level][at+i]+x+d.need[i] > v.f.limits[level][i] {
				return false
			}
		}
	}
	return true
}

// explainKept names the job whose reservation on a node blocks a task, if the draws do not.
func (v *reservation) explainKept(j *job, level int, node int32, say func(Why)) {
	if v.leaves(j, level, node) || !v.f.room(level, node, j.needs[level]) {
		return
	}
	name, k := v.f.names[level].list[node], v.kept
	say(Why{Level: v.f.levels[level], Node: name,
		Text: fmt.Sprintf("%s %s: room is reserved for %s/%s, which has waited longer",
			v.f.levels[level], name, k.job.Name, v.f.names[k.job.level].list[k.node])})
}
