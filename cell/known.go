package cell

import (
	"sync"

	"cantina/lrp"
	"cantina/task"
)

// known remembers the last seen rows of work here: from the last poll, or as this cell's own calls
// left them. It speeds up the handling of events; every poll corrects it.
type known struct {
	mu    sync.Mutex
	clock uint64 // grows with every own call
	lrps  map[lrp.Key]knownLRP
	tasks map[string]knownTask
}

type knownLRP struct {
	index       lrp.Index
	quarantined bool
	at          uint64
}

type knownTask struct {
	row         *task.Task // nil = there is no row
	quarantined bool
	at          uint64
}

func newKnown() *known {
	return &known{lrps: map[lrp.Key]knownLRP{}, tasks: map[string]knownTask{}}
}

func (k *known) lrp(key lrp.Key) (knownLRP, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, ok := k.lrps[key]
	return v, ok
}

func (k *known) task(guid string) (knownTask, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, ok := k.tasks[guid]
	return v, ok
}

// setOrdinary stores the ordinary row after an own call.
func (k *known) setOrdinary(key lrp.Key, row *lrp.Actual) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.clock++
	v := k.lrps[key]
	v.index.Key, v.index.Ordinary, v.at = key, row, k.clock
	k.lrps[key] = v
}

// forget removes the data of an index: the next check reads it.
func (k *known) forget(key lrp.Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.clock++
	delete(k.lrps, key)
}

// setTask stores a task's row after an own call.
func (k *known) setTask(guid string, row *task.Task) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.clock++
	k.tasks[guid] = knownTask{row: row, at: k.clock}
}

func (k *known) forgetTask(guid string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.clock++
	delete(k.tasks, guid)
}

// now is the moment from which a read is newer than all calls before it.
func (k *known) now() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.clock
}

// read stores the result of a read begun at since. Rows that an own call has changed meanwhile
// stay. With all set the read covered every row of this cell; other rows are removed unless they
// were requested.
func (k *known) read(since uint64, q RowsQuery, got Rows) {
	k.mu.Lock()
	defer k.mu.Unlock()
	lrps, tasks := index(q, got)
	if !q.Only {
		for key, v := range k.lrps {
			if _, ok := lrps[key]; !ok && v.at <= since {
				delete(k.lrps, key)
			}
		}
		for guid, v := range k.tasks {
			if _, ok := tasks[guid]; !ok && v.at <= since {
				delete(k.tasks, guid)
			}
		}
	}
	for key, v := range lrps {
		if k.lrps[key].at <= since {
			v.at = since
			k.lrps[key] = v
		}
	}
	for guid, v := range tasks {
		if k.tasks[guid].at <= since {
			v.at = since
			k.tasks[guid] = v
		}
	}
}

// index arranges a response by key; a requested key that is missing has no row.
func index(q RowsQuery, got Rows) (map[lrp.Key]knownLRP, map[string]knownTask) {
	lrps, tasks := map[lrp.Key]knownLRP{}, map[string]knownTask{}
	for _, key := range q.LRPs {
		lrps[key] = knownLRP{index: lrp.Index{Key: key}}
	}
	for _, guid := range q.Tasks {
		tasks[guid] = knownTask{}
	}
	for _, x := range got.LRPs {
		lrps[x.Key] = knownLRP{index: x}
	}
	for _, t := range got.Tasks {
		tasks[t.GUID] = knownTask{row: t}
	}
	for _, key := range got.QuarantinedLRPs {
		lrps[key] = knownLRP{index: lrp.Index{Key: key}, quarantined: true}
	}
	for _, guid := range got.QuarantinedTasks {
		tasks[guid] = knownTask{quarantined: true}
	}
	return lrps, tasks
}
