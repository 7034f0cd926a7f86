package worker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cantina/fence"
)

// roster has every cell process that the leader knows, found by its id, the name of its cell, and
// its directory; and those of which only the fact that they are gone is left.
type roster struct {
	*term
	procs    map[Proc]*process
	order    []*process // in order of arrival
	holders  map[CellName]*process
	dirs     map[string][]*process
	silent   map[Proc]*process // the initial wait waits for a report of these
	gone     map[Proc]Verdict  // declared dead or displaced in this term, with the verdict that it gets
	goneList []Proc
}

func newRoster(t *term) *roster {
	return &roster{term: t, procs: map[Proc]*process{}, holders: map[CellName]*process{}, dirs: map[string][]*process{},
		silent: map[Proc]*process{}, gone: map[Proc]Verdict{}}
}

// goneBound is how many dead process ids a leader remembers.
const goneBound = 16384

// process is all a leader knows of one cell process.
type process struct {
	row    Member
	member bool // has a row, in the newest state
	// durable: the row is in the store; promised is the promise the store has.
	durable   bool
	promised  time.Duration
	unsaid    bool          // row.Promise is longer than the store's
	health    Health        // times on the policy clock
	blocked   bool          // unhealthy for lack of consensus alone
	born      time.Duration // on the policy clock: when this leader first knew it
	unheard   bool          // its silence was reported, and it is not HEALTHY yet
	connected bool          // has beaten in this term
	reported  bool
	alive     []Alive // containers of services and tasks that it reported
	remains   bool    // its newest heartbeat reported that not all work of its predecessors is gone
	displaced bool
	dead      bool // proven; its statuses are being committed
	// deathOutput is the Output that reports the death. Its consequences are submitted when that is
	// durable; the row is deleted only after that.
	deathOutput int64
	period      time.Duration
	beat        int64         // newest heartbeat
	since       time.Duration // when its row was first written, or the term began
	credited    bool
	credit      time.Duration // receipt of the newest credited heartbeat
	seq         int64         // notify sequence number
	unsure      unsureList
	open        []int64 // counters of RunTasks with unknown outcome, ascending
	probe       probes
	kills       bool // some of its work is to be killed
	work        map[fence.Invocation]*entry
}

func (p *process) holds(r *roster) bool { return r.holders[p.row.Cell] == p }

func (r *roster) newProcess(m Member, now time.Duration) *process {
	p := &process{row: m, health: NewHealth(r.policy(now)), born: r.policy(now), work: map[fence.Invocation]*entry{},
		period: r.t.Heartbeat}
	r.procs[m.Proc] = p
	r.order = append(r.order, p)
	r.dirs[m.DirID] = append(r.dirs[m.DirID], p)
	return p
}

// forget drops a process without remaining data.
func (r *roster) forget(p *process) {
	delete(r.procs, p.row.Proc)
	delete(r.silent, p.row.Proc)
	peers := slices.DeleteFunc(r.dirs[p.row.DirID], func(q *process) bool { return q == p })
	r.dirs[p.row.DirID] = peers
	if len(peers) == 0 {
		delete(r.dirs, p.row.DirID)
	}
	r.gone[p.row.Proc] = Die
	if p.displaced {
		r.gone[p.row.Proc] = DieAll
	}
	r.goneList = append(r.goneList, p.row.Proc)
	if len(r.goneList) > goneBound {
		delete(r.gone, r.goneList[0])
		r.goneList = r.goneList[1:]
	}
}

// predecessors returns the member processes of a directory that started earlier.
func (r *roster) predecessors(dirID string, started int64) []*process {
	var ps []*process
	for _, q := range r.dirs[dirID] {
		if q.member && !q.dead && q.row.Started < started {
			ps = append(ps, q)
		}
	}
	return ps
}

// successor returns the newest process on p's directory that came after p; nil = none.
func (r *roster) successor(p *process) (next *process) {
	for _, q := range r.dirs[p.row.DirID] {
		if !q.dead && q.row.Started > p.row.Started && (next == nil || q.row.Started > next.row.Started) {
			next = q
		}
	}
	return next
}

// survived reports whether a later process of p's directory reports work of an earlier one as not
// gone, although it had to die by the deadline: it survives KILL. No work of p is treated as dead
// by time as long as that is reported.
func (r *roster) survived(p *process) bool {
	return slices.ContainsFunc(r.dirs[p.row.DirID], func(q *process) bool {
		return q.row.Started > p.row.Started && q.row.Boot == p.row.Boot && q.remains && !q.dead && q.health.State != MustDie
	})
}

// reports reports whether a later process of p's directory has arrived and is about to report its
// part of p's work, including ends that p could not report: no work of p is judged before. It ends
// with the report, or when the later process is lost.
func (r *roster) reports(p *process) bool {
	return slices.ContainsFunc(r.dirs[p.row.DirID], func(q *process) bool {
		return q.row.Started > p.row.Started && q.connected && !q.reported && !q.dead && q.health.State != MustDie
	})
}

// reporting reports whether a process is in contact that has not reported its work yet; if it
// never does, it is lost. Meanwhile the wait does not end by time, only by an operator's decision
// (Bistro: no worker is NEW).
func (r *roster) reporting() bool {
	return slices.ContainsFunc(r.order, func(p *process) bool { return p.connected && p.health.State == New })
}

// unheard names the cells that the wait waited for when it was cut short, at most ten.
func (r *roster) unheard() string {
	var names []string
	for _, p := range r.silent {
		names = append(names, string(p.row.Cell))
	}
	slices.Sort(names)
	names = slices.Compact(names)
	switch more := len(names) - 10; {
	case len(names) == 0:
		return "every listed process has reported"
	case more > 0:
		return fmt.Sprintf("no report from: %s and %d more", strings.Join(names[:10], ", "), more)
	}
	return "no report from: " + strings.Join(names, ", ")
}

// Holds reports that a process has its cell's name.
func (r *roster) Holds(cell CellName, proc Proc) bool {
	p := r.holders[cell]
	return p != nil && p.row.Proc == proc
}

// MayLive returns the members of a cell that are not certainly dead, in order. joining is a process of the
// cell that may become a member; "" = none. Only the death of a member is reported (Dead).
func (r *roster) MayLive(cell CellName) (members []Proc, joining Proc) {
	for id, p := range r.procs {
		switch {
		case p.row.Cell != cell || p.dead:
		case p.member:
			members = append(members, id)
		case p.health.State != MustDie:
			joining = max(joining, id)
		}
	}
	slices.Sort(members)
	return members, joining
}

// IsBack reports whether a process has reported its work in this term, and is HEALTHY.
func (r *roster) IsBack(proc Proc) bool {
	p := r.procs[proc]
	return p != nil && p.health.State == Healthy
}

// Alive returns the containers of services and tasks that a process has reported, as they were
// then.
func (r *roster) Alive(proc Proc) []Alive {
	if p := r.procs[proc]; p != nil {
		return p.alive
	}
	return nil
}
