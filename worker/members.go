package worker

import (
	"time"

	"cantina/workerset"
)

// members is the member list of the store: the rows of cell processes that may run work, which of
// their changes are durable, and the processes to be removed from it.
type members struct {
	*roster
	list      workerset.ID
	stored    workerset.ID // the newest durable list: the one that cells get
	committed int64        // of the newest durable Output
	writes    []write      // rows on their way
	deaths    []*process   // whose death is being reported
	// reportOutput is the Output of the newest report of a process. Before it is durable the board may
	// not have the containers in it.
	reportOutput int64
}

// boardHasReports reports whether the owners of rows have what every process has reported.
func (m *members) boardHasReports() bool { return m.reportOutput <= m.committed }

// write is a row of a process, or without one the row of the list.
type write struct {
	seq     int64
	proc    *process
	promise time.Duration
	list    workerset.ID
}

// putMember writes the newest row of p.
func (m *members) putMember(p *process) {
	p.member, p.unsaid = true, false
	m.rows = append(m.rows, PutMember{p.row})
	m.writes = append(m.writes, write{seq: m.seq + 1, proc: p, promise: p.row.Promise})
}

// putList moves the member list to its next version.
func (m *members) putList(h workerset.Hash) {
	m.list.Version++
	m.list.Hash = h
	m.rows = append(m.rows, PutList{m.list})
	m.writes = append(m.writes, write{seq: m.seq + 1, list: m.list})
}

// durable takes note of committed rows.
func (m *members) durable(seq int64) {
	m.committed = max(m.committed, seq)
	for len(m.writes) > 0 && m.writes[0].seq <= m.committed {
		w := m.writes[0]
		m.writes[0] = write{} // its data is deleted with it
		m.writes = m.writes[1:]
		if w.proc == nil {
			m.stored = w.list
			continue
		}
		w.proc.promised = w.promise
		if w.proc.durable {
			continue
		}
		w.proc.durable = true
		if w.proc.reported { // otherwise the report will contain it
			m.do(Eligible{w.proc.row.Cell, w.proc.row.Proc}, StartsChanged{})
		}
	}
	for len(m.deaths) > 0 && m.deaths[0].deathOutput <= m.committed {
		p := m.deaths[0]
		m.deaths[0] = nil
		m.deaths = m.deaths[1:]
		m.reap(p)
	}
}

// enlist writes p's member row, with the longest promise in force to the directory,
// and moves the list to its next version.
func (m *members) enlist(p *process, now time.Duration) {
	p.since = now
	p.row.Promise = max(p.row.Promise, m.ownPromise())
	for _, q := range m.predecessors(p.row.DirID, p.row.Started) {
		p.row.Promise = max(p.row.Promise, q.row.Promise)
	}
	m.putMember(p)
	m.putList(m.list.Hash.Add(string(p.row.Proc)))
}

// lower shortens the promise in p's row once p lives by the shorter one, and lengthens it before
// the longer one is sent. The possible promise of a row in a store that went back is written too,
// because no credit exceeds the store's promise.
func (m *members) lower(p *process, h Heartbeat) {
	own := m.ownPromise()
	switch {
	case p.dead:
	case !p.member:
		p.row.Promise = max(p.row.Promise, h.Promise)
	case p.unsaid || p.row.Promise < max(own, h.Promise):
		p.row.Promise = max(p.row.Promise, own, h.Promise)
		m.putMember(p)
	case p.row.Promise > own && h.Term == m.cfg.Term && h.Promise == own && p.credited:
		p.row.Promise = own
		m.putMember(p)
	}
}

// reap deletes p's row once none of its work is left in the model, and its death was reported to
// all parts: a leader that finds rows of services and tasks on a process without a row treats them
// as lost, and work that a successor has adopted is not.
func (m *members) reap(p *process) {
	if !p.dead || len(p.work) > 0 || m.committed < p.deathOutput {
		return
	}
	if p.member {
		m.rows = append(m.rows, DeleteMember{p.row.Proc})
		hash, _ := m.list.Hash.Remove(string(p.row.Proc)) // which has it
		m.putList(hash)
	}
	if m.holders[p.row.Cell] == p {
		delete(m.holders, p.row.Cell)
	}
	m.forget(p)
}
