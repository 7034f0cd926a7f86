package batch

import (
	"cmp"
	"slices"
)

// maxPriority bounds a priority, so that sums stay exact enough to draw by.
const maxPriority = 1e9

// Seed sets the beginning of the draws of RandomizedPriority: the same seed, the same draws.
func (b *Board) Seed(seed string) { b.dice.Seed(fractionHash(b.f.spec.Name, seed), 0) }

// Pick decides which tasks start next, at most max, by the policy of the forest, and draws their
// amounts from the nodes. Every start is answered by Started, Refuse or Unpick. The cost is a path
// per start and job, independent of other waiting tasks.
func (b *Board) Pick(max int) []Start {
	var out []Start
	b.reservation.reserve()
	switch b.f.spec.Policy {
	case RoundRobin:
		b.roundRobin(max, &out)
	case RankedPriority, LongTail:
		b.inOrder(max, &out)
	case RandomizedPriority:
		b.drawn(max, &out)
	}
	return out
}

// roundRobin walks over the jobs, one start per job and round, beginning after the
// job that started last.
func (b *Board) roundRobin(max int, out *[]Start) {
	at := 0
	for i, j := range b.jobs.order {
		if j.Name <= b.turn {
			at = i + 1
		}
	}
	for idle := 0; idle < len(b.jobs.order) && len(*out) < max; at++ {
		j := b.jobs.order[at%len(b.jobs.order)]
		s, ok := b.pickFrom(j)
		if !ok {
			idle++
			continue
		}
		idle = 0
		b.turn = j.Name
		*out = append(*out, s)
	}
}

// inOrder starts all that one job can before the next has its turn.
func (b *Board) inOrder(max int, out *[]Start) {
	for _, j := range b.jobs.ranked() {
		for len(*out) < max {
			s, ok := b.pickFrom(j)
			if !ok {
				break
			}
			*out = append(*out, s)
		}
	}
}

// ranked returns the jobs in the order of the policy. The ready nodes are counted now: those of a
// job fall while it starts, so it stays the first in the next part of the same pass.
func (js *jobs) ranked() []*job {
	out := slices.Clone(js.order)
	slices.SortStableFunc(out, js.before)
	return out
}

// before compares two jobs by the policy; 0 = it does not distinguish them.
func (js *jobs) before(x, y *job) int {
	switch js.f.spec.Policy {
	case RankedPriority:
		return cmp.Compare(y.Priority, x.Priority)
	case LongTail:
		return cmp.Compare(x.counts[ClassReady], y.counts[ClassReady])
	}
	return 0
}

// drawn draws the job of each start.
func (b *Board) drawn(max int, out *[]Start) {
	for len(*out) < max {
		j := b.drawJob()
		if j == nil {
			return
		}
		s, _ := b.pickFrom(j)
		*out = append(*out, s)
	}
}

// drawJob draws one of the jobs that can start a task, in proportion to their priorities; all alike
// if none of them has one above 0. nil = no job can.
func (b *Board) drawJob() *job {
	var able []*job
	sum := 0.0
	for _, j := range b.jobs.order {
		if b.able(j) {
			able = append(able, j)
			sum += max(j.Priority, 0)
		}
	}
	if len(able) == 0 {
		return nil
	}
	at := float64(b.dice.Uint64()>>11) / (1 << 53) // in [0, 1)
	if sum == 0 {
		return able[int(at*float64(len(able)))]
	}
	at *= sum
	last := able[0]
	for _, j := range able {
		if j.Priority <= 0 {
			continue
		}
		if last = j; at < j.Priority {
			break
		}
		at -= j.Priority
	}
	return last
}

// able reports whether a job can start a task; if it lacks only room, its wait is noted.
func (b *Board) able(j *job) bool {
	if j.blocked != "" || !b.jobs.runnable(j) {
		return false
	}
	b.f.visits++
	if j.t.key() == none {
		b.reservation.wanting(j)
		return false
	}
	return true
}

// entitled reports whether room may be reserved for a job that has waited long. In an order of
// jobs it is only for the first: the others get what is left over. Where each start is drawn, it is
// only for one that another job of less need can overtake for ever: else its turn comes.
func (js *jobs) entitled(j *job) bool {
	other := func(is func(*job) bool) bool {
		return slices.ContainsFunc(js.order, func(x *job) bool {
			return x != j && x.counts[ClassReady] > 0 && x.blocked == "" && js.runnable(x) && is(x)
		})
	}
	switch js.f.spec.Policy {
	case RankedPriority, LongTail:
		return !other(func(x *job) bool { return js.before(x, j) < 0 })
	case RandomizedPriority:
		return other(j.needsMore)
	}
	return true
}

// needsMore reports whether a task of the job takes more of anything than one of another job.
func (j *job) needsMore(other *job) bool {
	for level := range min(j.level, other.level) + 1 {
		for i, x := range j.needs[level] {
			if x > other.needs[level][i] {
				return true
			}
		}
	}
	return j.level > other.level
}
