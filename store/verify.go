package store

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"cantina/fence"
	"cantina/store/storepb"
)

// BackupInfo describes a backup that was read to its end.
type BackupInfo struct {
	// Cluster is the identity of the store, Term its newest term then, Revision the one
	// all rows were read at.
	Cluster  fence.Cluster
	Term     fence.Term
	Revision int64
	Taken    time.Time
	Rows     int64
	// Unreadable are the keys of rows that are not intact, or that check refuses. They were so
	// in the store, where they are quarantined.
	Unreadable []string
}

// VerifyBackup reads a backup to its end and restores nothing: the format, the number of rows and
// the checksum over all of them must be right, and each row must be an intact record; check, if
// not nil, tests its content. ErrBadBackup if the backup is damaged or torn.
func VerifyBackup(r io.Reader, check func(Row) error) (BackupInfo, error) {
	in := bufio.NewReaderSize(r, 1<<16)
	info, err := openBackup(in)
	if err != nil {
		return info, err
	}
	sum := newBackupSum()
	for {
		b, err := nextFrame(in)
		if err != nil {
			return info, err
		}
		if end := b.GetEnd(); end != nil {
			info.Rows = sum.rows
			if want := sum.end(); end.Rows != want.Rows || end.Crc != want.Crc {
				return info, fmt.Errorf("%d rows, sum %08x, want %d, %08x: %w", want.Rows, want.Crc, end.Rows, end.Crc,
					ErrBadBackup)
			}
			if _, err := in.ReadByte(); err != io.EOF {
				return info, fmt.Errorf("it goes on behind its end: %w", ErrBadBackup)
			}
			return info, nil
		}
		row := b.GetRow()
		if row.GetKey() == "" {
			return info, fmt.Errorf("row %d has no key: %w", sum.rows+1, ErrBadBackup)
		}
		sum.add(row.Key, row.Value)
		if !readable(Row{Key: row.Key, Value: row.Value}, check) {
			info.Unreadable = append(info.Unreadable, row.Key)
		}
	}
}

func readable(r Row, check func(Row) error) bool {
	if strings.HasPrefix(r.Key, DataPrefix) {
		return true // any bytes of the user
	}
	if _, _, _, err := Decode(r.Value); err != nil {
		return false
	}
	return check == nil || check(r) == nil
}

// openBackup reads the first frame.
func openBackup(in *bufio.Reader) (BackupInfo, error) {
	first, err := nextFrame(in)
	if err != nil {
		return BackupInfo{}, err
	}
	h := first.GetHead()
	if h.GetVersion() != backupVersion || h.GetHead() == nil {
		return BackupInfo{}, fmt.Errorf("version %d, want %d: %w", h.GetVersion(), backupVersion, ErrBadBackup)
	}
	return infoOf(h), nil
}

func infoOf(h *storepb.BackupHead) BackupInfo {
	head := headOf(h.Head)
	return BackupInfo{Cluster: head.Cluster, Term: head.Term, Revision: h.GetRevision(), Taken: time.Unix(h.GetUnix(), 0)}
}
