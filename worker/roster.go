package worker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cantina/fence"
)

// roster has every cell process that the leader knows, found by its id, the name of its cell, and its
// directory; and those of which nothing is left but that they are gone.
type roster struct {
	*term
	procs    map[Proc]*process
	order    []*process // in order of arrival
	holders  map[CellName]*process
	dirs     map[string][]*process
	silent   map[Proc]*process // the initial wait waits for a report of these
	gone     map[Proc]Verdict  // declared dead or displaced in this term, and what it is told
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
	unsaid    bool          // row.Promise is longer than what the store says
	health    Health        // times on the policy clock
	blocked   bool          // unhealthy for lack of consensus alone
	born      time.Duration // on the policy clock: when this leader came to know of it
	unheard   bool          // it was told that it is silent, and not HEALTHY yet
	connected bool          // has beaten in this term
	reported  bool
	alive     []string // containers of services and tasks that it reported
	remains   bool     // its newest heartbeat said that not all of its predecessors is gone
	displaced bool
	dead      bool // proven; its statuses are being committed
	// deathOutput is the Output that tells of the death. What follows from it is submitted
	// when that is durable; only after that the row goes.
	deathOutput int64
	period      time.Duration
	beat        int64         // newest heartbeat
	since       time.Duration // when its row was first written, or the term began
	credited    bool
	credit      time.Duration // receipt of the newest credited beat
	seq         int64         // notify sequence number
	unsure      unsureList
	open        []int64 // counters of RunTasks whose fate is open, ascending
	probe       probes
	kills       bool // some of its work is to be killed
	work        map[fence.Invocation]*entry
}

func (p *process) holds(r *roster) bool { return r.holders[p.row.Cell] == p }

func (r *roster) newProcess(m Member, now time.Duration) *process {
	p := &process{row: m, health: NewHealth(r.policy(now)), born: r.policy(now), work: map[fence.Invocation]*entry{}, period: r.t.Heartbeat}
	r.procs[m.Proc] = p
	r.order = append(r.order, p)
	r.dirs[m.DirID] = append(r.dirs[m.DirID], p)
	return p
}

// forget drops a process of which nothing is left to know.
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

// survived reports whether a later process of p's directory says that something of an earlier one
// is not gone, though it had to die by the deadline: it does not die by KILL. Nothing of p is
// taken for dead by time as long as that is said.
func (r *roster) survived(p *process) bool {
	return slices.ContainsFunc(r.dirs[p.row.DirID], func(q *process) bool {
		return q.row.Started > p.row.Started && q.row.Boot == p.row.Boot && q.remains && !q.dead && q.health.State != MustDie
	})
}

// reports reports whether a later process of p's directory has come and is about to say what it has of
// p's work, ends that p could not tell among it: nothing of p is judged before. It ends with the report,
// or when the later process is lost.
func (r *roster) reports(p *process) bool {
	return slices.ContainsFunc(r.dirs[p.row.DirID], func(q *process) bool {
		return q.row.Started > p.row.Started && q.connected && !q.reported && !q.dead && q.health.State != MustDie
	})
}

// reporting tells that a process has been heard of that has not said yet what it runs; when
// it never does it is lost. No time that passes ends the wait meanwhile, only an operator's
// word (Bistro: no worker is NEW).
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

// MayLive returns the processes of a cell that are not certainly dead, in order.
func (r *roster) MayLive(cell CellName) []Proc {
	var out []Proc
	for id, p := range r.procs {
		if p.row.Cell == cell && !p.dead {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// IsBack reports that a process has said in this term what it runs, and is HEALTHY.
func (r *roster) IsBack(proc Proc) bool {
	p := r.procs[proc]
	return p != nil && p.health.State == Healthy
}

// Alive names the containers of services and tasks that a process has reported, by instance
// and uid, as they were then.
func (r *roster) Alive(proc Proc) []string {
	if p := r.procs[proc]; p != nil {
		return p.alive
	}
	return nil
}
