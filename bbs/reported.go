package bbs

import (
	"fmt"
	"strings"

	"cantina/bbs/bbspb"
	"cantina/internal/text"
	"cantina/lrp"
	"cantina/store"
	"cantina/task"
)

// reportedTask and reportedIndex are the contents of a row of containers without a row of their own.
type (
	reportedTask struct {
		guid string
		by   task.Found
	}
	reportedIndex struct {
		key lrp.Key
		all []lrp.Identity
	}
)

func reportedTaskRow(guid string) string { return prefixReportedTask + guid }

func reportedIndexRow(k lrp.Key) string {
	return prefixReportedIndex + strings.TrimPrefix(IndexRow(k), prefixIndex)
}

// reportedUnits are the rows of reported containers that changed: first those to be written, and
// those that are over, which are deleted after whatever replaces them.
func (b *rows) reportedUnits() (written, deleted []unit) {
	add := func(key string, all []*bbspb.Reported_Container) {
		u := unit{op: store.Op{Key: key}, show: func(*view, int64) {}}
		if len(all) == 0 {
			deleted = append(deleted, u)
			return
		}
		u.op.Value = encode(kindReported, &bbspb.Reported{Containers: all})
		written = append(written, u)
	}
	for _, guid := range b.tasks.Reported.Changed() {
		var all []*bbspb.Reported_Container
		if f, ok := b.tasks.Reported.Get(guid); ok {
			all = append(all, &bbspb.Reported_Container{Id: text.Clean(f.UID), Cell: text.Clean(f.By.Cell),
				Proc: text.Clean(f.By.Proc), Bound: f.Bound})
		}
		add(reportedTaskRow(guid), all)
	}
	for _, k := range b.services.Reported.Changed() {
		var all []*bbspb.Reported_Container
		for _, by := range b.services.Reported.Get(k) {
			all = append(all, &bbspb.Reported_Container{Id: text.Clean(by.Instance), Cell: text.Clean(by.Cell),
				Proc: text.Clean(by.Proc)})
		}
		add(reportedIndexRow(k), all)
	}
	return written, deleted
}

// decodeReported reads a row of reported containers: a reportedTask or a reportedIndex.
func decodeReported(row store.Row) (any, error) {
	var m bbspb.Reported
	if err := decodeRecord(row.Value, kindReported, &m); err != nil {
		return nil, err
	}
	for _, c := range m.Containers {
		if c.GetId() == "" || c.GetCell() == "" || c.GetProc() == "" {
			return nil, fmt.Errorf("a container without id, cell or process: %w", errRecord)
		}
	}
	if guid, ok := strings.CutPrefix(row.Key, prefixReportedTask); ok && len(m.Containers) == 1 {
		c := m.Containers[0]
		return reportedTask{guid, task.Found{UID: c.Id, By: task.Holder{Cell: c.Cell, Proc: c.Proc}, Bound: c.Bound}}, nil
	}
	k, ok := reportedIndexOfRow(row.Key)
	if !ok || len(m.Containers) == 0 {
		return nil, errRecord
	}
	r := reportedIndex{key: k}
	for _, c := range m.Containers {
		r.all = append(r.all, lrp.Identity{Instance: c.Id, Cell: c.Cell, Proc: c.Proc})
	}
	return r, nil
}

// reportedIndexOfRow reads a key back; ok is false for any other key.
func reportedIndexOfRow(key string) (lrp.Key, bool) {
	rest, ok := strings.CutPrefix(key, prefixReportedIndex)
	if !ok {
		return lrp.Key{}, false
	}
	return indexOfRow(prefixIndex + rest)
}

// readReported reads a row of reported containers. Those that have a row are left out when all rows
// are read.
func (ld *loader) readReported(row store.Row) (func(), error) {
	v, err := decodeReported(row)
	if err != nil {
		return nil, err
	}
	return func() {
		switch v := v.(type) {
		case reportedTask:
			ld.tasks.Reported.Load(v.guid, v.by)
		case reportedIndex:
			ld.services.Reported.Set(v.key, v.all)
		}
	}, nil
}

// settleReported leaves out reported containers that have a row.
func (ld *loader) settleReported() {
	ld.tasks.Reported.Settle(ld.tasks.Get)
	ld.services.Reported.Settle(ld.services.Index)
}
