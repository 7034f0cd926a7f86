package batch

import (
	"cmp"
	"fmt"
	"slices"

	"cantina/fence"
)

// Scope is how far a refusal reaches.
type Scope int

// The scopes of a refusal.
const (
	ScopeJob  Scope = iota // no task of the job can start
	ScopeHost              // no task of the job below the pinned host can start
	ScopeNode              // this node cannot
)

// pickFrom starts the best node of a job, if one may start.
func (b *Board) pickFrom(j *job) (Start, bool) {
	if !b.able(j) {
		return Start{}, false
	}
	p := j.t.best()
	node := b.f.places[p].name
	x := j.record(node)
	r := &run{
		key: Key{j.Name, b.f.names[j.level].list[node]}, job: j, uid: j.UID, node: node, place: p, sown: b.f.sown,
		next: j.Backoff.Next(b.terms.unpack(x).configured()), since: b.clock.now, draws: b.f.drawsAt(j, p),
	}
	s := Start{Key: r.key, Next: r.next, Cell: j.cell, Host: j.Host, Hosts: j.hosts, Path: b.f.path(j.level, p)}
	if j.hostAt >= 0 && j.Host == "" {
		s.Host = s.Path[j.hostAt]
	}
	b.occupy(r)
	b.reservation.release(j) // it has its turn; without a start it has waited as long as before
	s.Draws = b.f.drawsOf(r)
	return s, true
}

// occupy makes a run count: its draws, and its node as running.
func (b *Board) occupy(r *run) {
	b.runs.byKey[r.key] = r
	r.draw(b, 1)
	if r.job != nil {
		r.mark(r.job.record(r.node))
		b.derived.changed(r.job, r.node)
	}
}

// draw takes the draws of a run (sign +1) or returns them (-1). All of them come before the tournaments, so that a
// node that becomes full does not first offer its next child.
func (r *run) draw(b *Board, sign int) {
	for _, d := range r.draws {
		b.f.take(d, sign)
	}
	for _, d := range r.draws {
		if b.reservation.kept == nil {
			b.jobs.redrawn(d, sign)
		} else {
			b.jobs.drawn(d.level, d.node)
		}
	}
}

// mark notes in the record of its node that it runs, by its job or by a removed one of the same name.
func (r *run) mark(x *record) {
	x.running, x.former = true, !r.inv.IsZero() && r.inv.Compare(r.job.Born) <= 0
}

// giveBack is the inverse of occupy, without the run's entry.
func (b *Board) giveBack(r *run) {
	r.draw(b, -1)
	r.draws = nil
	if r.job != nil {
		x := r.job.record(r.node)
		x.running, x.former = false, false
		b.derived.changed(r.job, r.node)
	}
}

// drawsOf returns the draws of a pick, from the root down.
func (f *forest) drawsOf(r *run) []Draw {
	out := make([]Draw, 0, len(r.draws))
	for _, d := range slices.Backward(r.draws) {
		out = append(out, Draw{Level: f.levels[d.level], Node: f.names[d.level].list[d.node], Amounts: r.job.takes[d.level]})
	}
	return out
}

// Started records that a picked batch task was given to a cell as an invocation. It returns
// ErrNotPicked.
func (b *Board) Started(k Key, inv fence.Invocation, cell string) error {
	r := b.runs.byKey[k]
	if r == nil || !r.inv.IsZero() {
		return fmt.Errorf("started %s on %s: %w", k.Job, k.Node, ErrNotPicked)
	}
	r.inv, r.cell, r.since = inv, cell, b.clock.now
	if r.job != nil {
		r.job.starved = 0
	}
	b.runs.live++
	b.orphans.began(r)
	b.watch(k.Job)
	return nil
}

// Unpick takes a pick back: nothing was started. It returns ErrNotPicked.
func (b *Board) Unpick(k Key) error {
	r := b.runs.byKey[k]
	if r == nil || !r.inv.IsZero() {
		return fmt.Errorf("unpick %s on %s: %w", k.Job, k.Node, ErrNotPicked)
	}
	b.runs.remove(r)
	b.giveBack(r)
	b.watch(k.Job)
	return nil
}

// Refuse withdraws a pick and keeps the job, the host or the node from being picked again until
// Unblock. If the nodes were read again since it was picked, or its job now runs on another level,
// it is only withdrawn: its host may have changed. It returns ErrNotPicked.
func (b *Board) Refuse(k Key, scope Scope, reason string) error {
	r := b.runs.byKey[k]
	if err := b.Unpick(k); err != nil {
		return err
	}
	j, p := r.job, r.place
	if r.sown != b.f.sown || b.f.levelOf(p) != j.level {
		return nil
	}
	if scope == ScopeJob || scope == ScopeHost && j.hostAt < 0 {
		j.blocked = cmp.Or(reason, "refused")
		return nil
	}
	if scope == ScopeHost {
		for level := j.level; level > j.hostAt; level-- {
			p = b.f.places[p].parent
		}
	}
	if j.shut == nil {
		j.shut = make(map[int32]string)
	}
	j.shut[p] = cmp.Or(reason, "refused")
	j.t.update(p)
	return nil
}

// Adopt adds a batch task that a cell reports as running, or that the leader's model holds. It
// draws the amounts that its job takes today: the cell does not report amounts. Work of an unknown
// job is only remembered. The same invocation again changes its cell. Without an invocation
// nothing runs, and nothing is added.
func (b *Board) Adopt(k Key, inv fence.Invocation, cell string) {
	if inv.IsZero() {
		return
	}
	b.watch(k.Job)
	if r := b.runs.byKey[k]; r != nil {
		if r.inv.IsZero() {
			b.runs.live++
		}
		if r.inv.Compare(inv) <= 0 {
			r.inv, r.cell = inv, cell
		}
		return
	}
	r := &run{key: k, place: -1, inv: inv, cell: cell, since: b.clock.now}
	b.runs.live++
	if j := b.jobs.named[k.Job]; j != nil {
		r.job, r.node = j, b.f.node(j.level, k.Node)
		r.next = j.Backoff.Next(b.terms.unpack(j.record(r.node)).configured())
		r.draws = b.f.drawsAt(j, b.f.first(j.level, r.node))
	}
	b.occupy(r)
	b.orphans.began(r)
}

// drawsAt is the amounts that a task of a job draws on a place and those above it; nothing at none (-1).
func (f *forest) drawsAt(j *job, p int32) (out []draw) {
	if p >= 0 {
		out = make([]draw, 0, j.level+1)
	}
	for q, level := p, j.level; q >= 0; q, level = f.places[q].parent, level-1 {
		if len(j.takes[level]) > 0 {
			out = append(out, draw{level, f.places[q].name, j.needs[level]})
		}
	}
	return out
}

// placeAdopted adds the draws of adopted work that had none so far: its job or its node was
// unknown when it was reported. No tournament is updated: they are rebuilt.
func (b *Board) placeAdopted() (drawn []draw) {
	var open []*run
	for _, r := range b.runs.byKey {
		if r.place < 0 && r.job != nil && len(r.draws) == 0 {
			open = append(open, r)
		}
	}
	slices.SortFunc(open, func(x, y *run) int { return x.key.Compare(y.key) })
	for _, r := range open {
		r.draws = b.f.drawsAt(r.job, b.f.first(r.job.level, r.node))
		for _, d := range r.draws {
			b.f.take(d, 1)
		}
		drawn = append(drawn, r.draws...)
	}
	return drawn
}

// Forget returns the draws of a running batch task and removes it: another board accounts for it.
func (b *Board) Forget(k Key) {
	r := b.runs.byKey[k]
	if r == nil {
		return
	}
	b.runs.remove(r)
	b.giveBack(r)
	b.watch(k.Job)
}
