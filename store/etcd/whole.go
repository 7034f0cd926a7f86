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
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"

	"cantina/store"
)

// etcd reads its log up to the first frame that is not whole and takes the rest for what a crash has
// torn off. When a bit of a frame's length has changed, that rest was committed: etcd would start with
// a log that ends before what its database has, and pass over every write until the log is as long
// again (decision 0213). An entry is in the log, durably, before it is in the database; so a log that
// ends earlier is damaged.

// checkLog returns an error when the log of the member in dir ends before what was committed. What
// it cannot read it leaves to etcd, which refuses it.
func checkLog(dir string) error {
	database := filepath.Join(datadir.ToSnapDir(dir), "db")
	applied, err := appliedIn(database)
	if err != nil || applied == 0 {
		return nil
	}
	l, err := readLog(datadir.ToWALDir(dir))
	if err != nil || l.last >= applied {
		return nil
	}
	return fmt.Errorf("%w: %s can be read up to byte %d, entry %d, and entries up to %d were committed: the file is damaged there, or cut off",
		store.ErrBroken, l.file, l.end, l.last, applied)
}

// appliedIn is the index of the newest entry in a database file; 0 = it has none.
func appliedIn(path string) (index uint64, err error) {
	if _, err := os.Stat(path); err != nil {
		return 0, err
	}
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
	file string
	last uint64
	end  int64
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

// notRead makes an error of a panic over what was read.
func notRead(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("cannot be read: %v", p)
	}
}
