package scheduler

import (
	"fmt"
	"strconv"
	"strings"

	"cantina/batch"
	"cantina/fence"
	"cantina/scheduler/schedulerpb"
	"cantina/store"
)

// Row is the content of one row of the scheduler, for tools that read a store from outside. One
// field is set.
type Row struct {
	Job      *JobRecord
	Forest   *batch.ForestSpec
	Statuses []StatusRecord
	Kill     *KillRecord
}

// JobRecord is a job as it is stored. Of a deleted one only names, uid and birth are known.
type JobRecord struct {
	Name, UID, Forest string
	// Born is the newest invocation when this life of the name began: invocations that are not
	// younger are of an earlier one.
	Born    fence.Invocation
	Deleted bool
	Spec    batch.Job
}

// StatusRecord is one stored status of a batch task of the job with this uid, in the
// segment with this number: of several the one with the greatest holds.
type StatusRecord struct {
	UID, Node string
	Segment   uint32
	Status    batch.Status
}

// KillRecord is a stored intent to end a run of the job with this uid.
type KillRecord struct {
	UID, Node  string
	Invocation fence.Invocation
}

// ReadRow reads one row; ok is false if it belongs to another owner, or is data. The error wraps
// that of the record.
func ReadRow(key string, value []byte) (r Row, ok bool, err error) {
	switch {
	case strings.HasPrefix(key, jobPrefix):
		row, err := decodeJob(value)
		if err != nil {
			return Row{}, true, err
		}
		return Row{Job: &JobRecord{Name: row.name, UID: row.uid, Forest: row.spec.Forest, Born: row.born,
			Deleted: row.deleted, Spec: row.spec}}, true, nil
	case strings.HasPrefix(key, forestPrefix):
		r.Forest, err = decodeForest(value)
		return r, true, err
	case strings.HasPrefix(key, statusPrefix):
		r.Statuses, err = readStatuses(strings.TrimPrefix(key, statusPrefix), value)
		return r, true, err
	case strings.HasPrefix(key, killPrefix):
		var m schedulerpb.Kill
		if err := store.Open(value, kindKill, &m); err != nil {
			return Row{}, true, err
		}
		uid, _, _ := strings.Cut(strings.TrimPrefix(key, killPrefix), "/")
		return Row{Kill: &KillRecord{UID: uid, Node: string(m.Node), Invocation: toInvocation(m.Invocation)}}, true, nil
	}
	return Row{}, false, nil
}

func readStatuses(rest string, value []byte) ([]StatusRecord, error) {
	uid, number, _ := strings.Cut(rest, "/")
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("statuses %s: %w", rest, errRecord)
	}
	entries, err := decodeSegment(value)
	if err != nil {
		return nil, err
	}
	out := make([]StatusRecord, len(entries))
	for i, e := range entries {
		out[i] = StatusRecord{UID: uid, Node: e.node, Segment: uint32(n), Status: e.status}
	}
	return out, nil
}
