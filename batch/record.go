package batch

import (
	"cantina/fence"
)

// record is the status of one (job, node) in memory; 48 bytes.
type record struct {
	time    int64
	counter int64
	backoff int32
	saved   int32
	term    int32 // index into terms
	mark    uint32
	losses  uint16
	tries   uint16
	bits    Bits
	exit    int16
	signal  uint8
	running bool
	former  bool  // the running task belongs to a removed job of this name
	done    bool  // as published to dependent jobs
	hopeful bool  // the same: it may be done without a change
	ahead   bool  // its time was not yet: it is by another clock, which was wrong
	class   Class // as counted
	flags   uint8
}

// record returns the status of a node number, making room.
func (j *job) record(node int32) *record {
	for len(j.records) <= int(node) {
		j.records = append(j.records, record{})
	}
	return &j.records[node]
}

// Flags of a record, computed from the configuration.
const (
	flagAvoided  = 1 << iota // a filter of a level keeps it away
	flagDisabled             // it or an ancestor is disabled
	flagPlaced               // it is in the forest, at the job's level
)

// Class is the class of a batch task in a report.
type Class uint8

// The classes, first hit wins.
const (
	ClassAbsent   Class = iota // not in the forest: not counted
	ClassRunning               // an invocation may be running
	ClassAvoided               // a filter keeps it away
	ClassDisabled              // it or an ancestor is disabled
	ClassDone
	ClassFailed
	ClassBackoff  // waits for its time
	ClassBlocked  // waits for another job on the same node
	ClassStranded // another job will not be done on this node without a change
	ClassReady    // could start, or waits for room
	classes
)

// String returns the lower case word.
func (c Class) String() string {
	words := [...]string{"absent", "running", "avoided", "disabled", "done", "failed", "backoff", "blocked", "stranded",
		"ready"}
	if int(c) < len(words) {
		return words[c]
	}
	return "unknown class"
}

// terms numbers the terms that statuses name; there are few.
type terms struct {
	list  []fence.Term
	index map[fence.Term]int32
}

func (t *terms) intern(x fence.Term) int32 {
	if i, ok := t.index[x]; ok {
		return i
	}
	if t.index == nil {
		t.index = make(map[fence.Term]int32)
	}
	t.index[x] = int32(len(t.list))
	t.list = append(t.list, x)
	return int32(len(t.list) - 1)
}

func (t *terms) unpack(p *record) Status {
	s := Status{
		Bits: p.bits, Time: p.time, Backoff: int(p.backoff), Saved: int(p.saved), Attempts: int(p.tries),
		Losses:   int(p.losses),
		ExitCode: int(p.exit), Signal: int(p.signal),
	}
	if p.counter != 0 {
		s.Invocation = fence.Invocation{Term: t.list[p.term], Counter: p.counter}
	}
	return s
}

func (t *terms) pack(p *record, s Status) {
	p.bits, p.time, p.backoff, p.saved = s.Bits, s.Time, int32(s.Backoff), int32(s.Saved)
	p.tries, p.losses = uint16(min(s.Attempts, 1<<16-1)), uint16(min(s.Losses, 1<<16-1))
	p.exit, p.signal = int16(s.ExitCode), uint8(s.Signal)
	p.term, p.counter = t.intern(s.Invocation.Term), s.Invocation.Counter
}
