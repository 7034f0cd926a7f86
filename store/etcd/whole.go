package etcd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"cantina/store"
)

// etcd reads its log up to the first incomplete frame and treats the rest as torn off by a crash.
// If a bit of a frame's length has changed, that rest was committed: etcd would start with a log
// that ends before its database, and skip every write until the log is as long again (decision
// 0213). An entry is in the log, durably, before it is in the database; so a log that ends earlier
// is damaged.

// checkLog returns an error if the member in dir has served and its log or its database is
// missing, or if its log ends before the last commit. Unreadable files are left to etcd, which
// refuses them.
func checkLog(dir string) error {
	if _, err := os.Stat(datadir.ToMemberDir(dir)); err != nil {
		return nil // a new one
	}
	l, logErr := readLog(datadir.ToWALDir(dir))
	if errors.Is(logErr, os.ErrNotExist) { // etcd would begin a new log, whose entries the database skips
		return fmt.Errorf("%w: the log is missing: there is no *.wal file in %s", store.ErrBroken, datadir.ToWALDir(dir))
	}
	database := filepath.Join(datadir.ToSnapDir(dir), "db")
	info, err := os.Stat(database)
	if errors.Is(err, os.ErrNotExist) || err == nil && info.Size() == 0 {
		return rebuildable(dir, database)
	}
	applied, err := appliedIn(database)
	if err != nil || applied == 0 || logErr != nil || l.last >= applied {
		return nil
	}
	return fmt.Errorf("%w: %s can be read up to byte %d, entry %d, and entries up to %d were committed: "+
		"the file is damaged there, or cut off",
		store.ErrBroken, l.file, l.end, l.last, applied)
}

// rebuildable returns nil if etcd can rebuild a missing database from the log: as long as the log
// has no snapshot, which replaces entries that only the database had.
func rebuildable(dir, database string) error {
	snapshots, err := wal.ValidSnapshotEntries(zap.NewNop(), datadir.ToWALDir(dir))
	if err != nil || len(snapshots) == 0 {
		return nil
	}
	if at := snapshots[len(snapshots)-1].GetIndex(); at > 0 {
		return fmt.Errorf("%w: the database is missing: %s does not exist or is empty, and entries up to %d were in it",
			store.ErrBroken, database, at)
	}
	return nil
}

// appliedIn is the index of the newest entry in a database file; 0 = it has none.
func appliedIn(path string) (index uint64, err error) {
	defer notRead(&err)
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return 0, err
	}
	defer db.Close()
	err = db.View(func(tx *bbolt.Tx) error {
		if b := tx.Bucket(schema.Meta.Name()); b != nil {
			if v := b.Get(schema.MetaConsistentIndexKeyName); len(v) == 8 {
				index = binary.BigEndian.Uint64(v)
			}
		}
		return nil
	})
	return index, err
}

// logEnd is where a log ends: the index of its last entry, and the end of the last whole frame.
type logEnd struct {
	file   string
	last   uint64
	end    int64
	member uint64 // whose log it is
	voted  bool   // it has a term
}

// readLog reads the newest file of a log.
func readLog(dir string) (l logEnd, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil || len(names) == 0 {
		return l, errors.Join(err, os.ErrNotExist)
	}
	slices.Sort(names)
	l.file = names[len(names)-1]
	var number, first uint64
	if _, err := fmt.Sscanf(filepath.Base(l.file), "%016x-%016x.wal", &number, &first); err != nil {
		return l, err
	}
	l.last = max(first, 1) - 1 // the name of the file has the index of its first entry
	f, err := os.Open(l.file)
	if err != nil {
		return l, err
	}
	defer f.Close()
	defer notRead(&err)
	d := wal.NewDecoder(fileutil.NewFileReader(f))
	rec := &walpb.Record{}
	for err = d.Decode(rec); err == nil; err = d.Decode(rec) {
		switch rec.GetType() {
		case wal.EntryType:
			l.last = wal.MustUnmarshalEntry(rec.GetData()).GetIndex()
		case wal.StateType:
			l.voted = l.voted || wal.MustUnmarshalState(rec.GetData()).GetTerm() > 0
		case wal.MetadataType:
			meta := &etcdserverpb.Metadata{}
			if err := proto.Unmarshal(rec.GetData(), meta); err != nil {
				return l, err
			}
			l.member = meta.GetNodeID()
		case wal.CrcType:
			d.UpdateCRC(rec.GetCrc())
		}
		l.end = d.LastOffset()
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return l, err
}

// notRead converts a panic over damaged data to an error.
func notRead(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("cannot be read: %v", p)
	}
}
