package etcd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"golang.org/x/sys/unix"

	"cantina/store"
)

// Other programs may fill a disk within milliseconds. A write that etcd has begun must still
// succeed, because etcd ends the process at a disk error. Three measures ensure that: the free
// space is checked before each transaction; the blocks for the next commits of the database file
// are reserved; and etcd itself preallocates the files of its log, one ahead.
// (docs/decisions/0212-full-disk.md)

// setAside is how many bytes behind the end of the database file are its own.
const setAside = 16 << 20

// MinFree is the space in bytes that has to stay free below a member's directory.
const MinFree = 64 << 20

// reserve sets the blocks of the database file aside, those of its holes and some behind its
// end. A file system that cannot do so has to live with the minimum of free space.
func (m *Member) reserve() {
	db, err := os.OpenFile(filepath.Join(m.dir, "member", "snap", "db"), os.O_RDWR, 0)
	if err != nil {
		m.cfg.Log.Debug("database file", "error", err)
		return
	}
	defer db.Close()
	info, err := db.Stat()
	if err != nil {
		return
	}
	size := info.Size() + setAside
	if size <= m.reserved.Load() {
		return
	}
	if err := unix.Fallocate(int(db.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size); err != nil {
		if !errors.Is(err, unix.ENOSPC) {
			m.reserved.Store(1 << 62) // it cannot do so
		}
		m.cfg.Log.Debug("space of the database file is not set aside", "error", err)
		return
	}
	m.reserved.Store(size)
}

// room returns nil if writes may continue, or store.ErrFull with the numbers.
func (m *Member) room() error {
	m.checkSpace()
	if err := inodes(m.dir); errors.Is(err, store.ErrFull) {
		return err
	}
	if m.full.Load() {
		return fmt.Errorf("less than %d MiB free in %s: %w", m.cfg.MinFree>>20, m.dir, store.ErrFull)
	}
	return nil
}

// NoRoom returns nil when the store takes writes now, or store.ErrFull with the reason. Of a
// cluster nothing is known before a write.
func (b *Backend) NoRoom() error {
	if b.member == nil {
		return nil
	}
	return b.member.room()
}

// RoomToStart returns nil when the file system of a data directory has the room that the start
// of its member needs, or store.ErrFull with the reason: a new one sets two files of its
// log aside.
func RoomToStart(dir string) error {
	need := int64(MinFree)
	if _, err := os.Stat(filepath.Join(dir, "etcd", "member", "wal")); err != nil {
		need += 2 * wal.SegmentSizeBytes
	}
	free, err := freeSpace(dir)
	if err == nil && free < need {
		err = fmt.Errorf("%d MiB free in %s, and the store needs %d MiB to start: %w", free>>20, dir, need>>20, store.ErrFull)
	}
	if err == nil {
		err = inodes(dir)
	}
	return err
}

// inodesMin is how many free inodes a member needs for the files of its log, its snapshots and its
// database.
const inodesMin = 64

// inodes returns store.ErrFull when a file system has too few free inodes. Some have no limit, and
// report none.
func inodes(dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("statfs %s: %w", dir, err)
	}
	if st.Files > 0 && st.Ffree < inodesMin {
		return fmt.Errorf("%d inodes free in %s, and the store needs %d: remove files there: %w", st.Ffree, dir, inodesMin,
			store.ErrFull)
	}
	return nil
}
