package registry

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"cantina/fence"
	"cantina/registry/registrypb"
	"cantina/store"
	"cantina/wire"
	"cantina/worker"
	"cantina/workerset"
)

// Keys and kinds of the registry's rows; schema 1.
const (
	memberPrefix = "member/"
	drainPrefix  = "drain/"
	listKey      = "listver"
	kindMember   = "member"
	kindList     = "listver"
	aloneKey     = "alone"
	kindAlone    = "alone"
	kindDrain    = "drain"
)

func encode(kind string, m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		// Only text that is not UTF-8 fails; every text of a row was checked where it came in.
		panic(fmt.Sprintf("encode %s: %v", kind, err))
	}
	return store.Encode(1, kind, b)
}

func memberOp(m worker.Member) store.Op {
	return store.Op{Key: memberPrefix + string(m.Proc), Value: encode(kindMember, &registrypb.Member{
		Proc: string(m.Proc), Cell: string(m.Cell), DirId: m.DirID, Started: m.Started, Boot: m.Boot,
		Promise: wire.FromDuration(m.Promise), Displaced: m.Displaced,
	})}
}

// MemberRow is the key of a process.
func MemberRow(proc worker.Proc) string { return memberPrefix + string(proc) }

// ListRow is the key of the version of the members' list.
const ListRow = listKey

// Decode reads a row of the registry: a worker.Member, the workerset.ID of their
// list, or Alone; nil for any other row.
func Decode(row store.Row) (any, error) {
	switch {
	case row.Key == listKey:
		m := &registrypb.List{}
		err := store.Open(row.Value, kindList, m)
		return wire.ToSet(m.GetId()), err
	case row.Key == aloneKey:
		m := &registrypb.Alone{}
		err := store.Open(row.Value, kindAlone, m)
		return Alone{fence.Cluster(m.GetCluster())}, err
	case strings.HasPrefix(row.Key, memberPrefix):
		return memberOf(row)
	}
	return nil, nil
}

// Alone is the row of a cluster that is alone (worker.Config).
type Alone struct{ Cluster fence.Cluster }

// opsOf are the writes of one output; restored: the head's mark is removed too.
func opsOf(cluster fence.Cluster, rows []worker.Row) (ops []store.Op, restored bool) {
	for _, r := range rows {
		switch r := r.(type) {
		case worker.PutAlone:
			ops = append(ops, store.Op{Key: aloneKey, Value: encode(kindAlone, &registrypb.Alone{Cluster: string(cluster)})})
		case worker.PutMember:
			ops = append(ops, memberOp(r.Member))
		case worker.DeleteMember:
			ops = append(ops, store.Op{Key: memberPrefix + string(r.Proc)})
		case worker.PutList:
			ops = append(ops, store.Op{Key: listKey, Value: encode(kindList, &registrypb.List{Id: wire.FromSet(r.ID)})})
		case worker.ClearRestored:
			restored = true
		}
	}
	return ops, restored
}

// isAlone reports whether the rows mark a lone cluster. A row of another cluster came from a
// backup with a new identity: that cluster may have any cells.
func isAlone(cluster fence.Cluster, rows []store.Row) bool {
	for _, r := range rows {
		if x, err := Decode(r); r.Key == aloneKey && err == nil {
			return x == Alone{cluster}
		}
	}
	return false
}

// load reads the members and the version of their list. A member row that cannot
// be read counts as a process that was promised the most: it is waited for, and
// its list is not trusted.
func load(rows []store.Row, t worker.Timeouts) (members []worker.Member, list workerset.ID, bad []string) {
	for _, r := range rows {
		switch {
		case r.Key == listKey:
			m := &registrypb.List{}
			if err := store.Open(r.Value, kindList, m); err != nil {
				bad = append(bad, fmt.Sprintf("%s: %v", r.Key, err))
				continue
			}
			list = wire.ToSet(m.GetId())
		case strings.HasPrefix(r.Key, memberPrefix):
			m, err := memberOf(r)
			if err != nil {
				bad = append(bad, fmt.Sprintf("%s: %v", r.Key, err))
				m = worker.Member{Proc: worker.Proc(strings.TrimPrefix(r.Key, memberPrefix)), Promise: t.MaxDiesWithin,
					Displaced: true}
			}
			members = append(members, m)
		}
	}
	return members, list, bad
}

func memberOf(r store.Row) (worker.Member, error) {
	m := &registrypb.Member{}
	if err := store.Open(r.Value, kindMember, m); err != nil {
		return worker.Member{}, err
	}
	promise, err := wire.ToDuration(m.GetPromise())
	if err != nil {
		return worker.Member{}, err
	}
	if memberPrefix+m.GetProc() != r.Key {
		return worker.Member{}, fmt.Errorf("names process %q: %w", m.GetProc(), store.ErrCorrupt)
	}
	w := worker.Member{Proc: worker.Proc(m.GetProc()), Cell: worker.CellName(m.GetCell()), DirID: m.GetDirId(),
		Started: m.GetStarted(), Boot: m.GetBoot(), Promise: promise, Displaced: m.GetDisplaced()}
	if !w.Possible() {
		return worker.Member{}, fmt.Errorf("promise %v: %w", promise, store.ErrCorrupt)
	}
	return w, nil
}
