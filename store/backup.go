package store

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"

	"google.golang.org/protobuf/encoding/protodelim"

	"cantina/fence"
	"cantina/store/head"
	"cantina/store/storepb"
)

const backupVersion = 1

// Backup writes all rows, those under DataPrefix included, as they were at one
// revision, in a form that any backend can restore. It needs no leader and disturbs
// none. ErrCompacted when that revision was compacted meanwhile: begin again, with
// another writer. It returns the number of rows and the revision.
func (s *Store) Backup(ctx context.Context, w io.Writer) (rows int64, revision int64, err error) {
	if k, ok := s.backend.(interface{ KeepHistory() func() }); ok {
		defer k.KeepHistory()()
	}
	e, revision, err := s.read(ctx, s.headKey())
	if err == nil && e == nil {
		err = ErrNoHead
	}
	if err != nil {
		return 0, 0, fmt.Errorf("back up: %w", err)
	}
	h, err := decodeHead(e.Value)
	if err != nil {
		return 0, 0, fmt.Errorf("back up: %w", err)
	}
	out := bufio.NewWriterSize(w, 1<<16)
	put := func(b *storepb.Backup) error {
		_, err := protodelim.MarshalTo(out, b)
		return err
	}
	err = put(&storepb.Backup{Frame: &storepb.Backup_Head{Head: &storepb.BackupHead{
		Version: backupVersion, Revision: revision, Unix: s.cfg.Clock.Wall().Unix(), Head: protoHead(h),
	}}})
	if err != nil {
		return 0, 0, fmt.Errorf("back up: %w", err)
	}
	sum := newBackupSum()
	all := span{s.rowPrefix(), prefixEnd(s.rowPrefix())}
	_, err = s.scan(ctx, []span{all}, revision, func(r Row) error {
		sum.add(r.Key, r.Value)
		return put(&storepb.Backup{Frame: &storepb.Backup_Row{Row: &storepb.BackupRow{Key: r.Key, Value: r.Value}}})
	})
	if err == nil {
		err = put(&storepb.Backup{Frame: &storepb.Backup_End{End: sum.end()}})
	}
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return 0, 0, fmt.Errorf("back up at revision %d: %w", revision, err)
	}
	return sum.rows, revision, nil
}

// backupSum sums up the rows of a backup.
type backupSum struct {
	rows int64
	crc  hash.Hash32
}

func newBackupSum() *backupSum {
	return &backupSum{crc: crc32.New(crc32.MakeTable(crc32.Castagnoli))}
}

func (b *backupSum) add(key string, value []byte) {
	b.rows++
	for _, part := range [][]byte{[]byte(key), value} {
		_ = binary.Write(b.crc, binary.BigEndian, uint32(len(part))) // a hash never fails
		b.crc.Write(part)
	}
}

func (b *backupSum) end() *storepb.BackupEnd {
	return &storepb.BackupEnd{Rows: b.rows, Crc: b.crc.Sum32()}
}

// LoadBackup puts the rows of a backup into an empty store and marks it restored:
// the next term is of a greater epoch, and Restored. The head is written last, so a
// restore that did not end is seen by Campaign (ErrNoHead) and can be begun again.
// ErrBadBackup when the backup is damaged; ErrNotEmpty when the store has a head;
// ErrDisplaced when a server campaigns on it. It returns the number of rows.
func (s *Store) LoadBackup(ctx context.Context, r io.Reader) (rows int64, err error) {
	return s.loadBackup(ctx, r, "")
}

// LoadBackupAsNew is LoadBackup into a new cluster: cells of the cluster in the backup do not
// belong to it. It returns the number of rows.
func (s *Store) LoadBackupAsNew(ctx context.Context, r io.Reader) (rows int64, err error) {
	return s.loadBackup(ctx, r, s.cfg.NewID())
}

func (s *Store) loadBackup(ctx context.Context, r io.Reader, cluster fence.Cluster) (rows int64, err error) {
	e, _, err := s.read(ctx, s.headKey())
	if err == nil && e != nil {
		err = ErrNotEmpty
	}
	if err != nil {
		return 0, fmt.Errorf("restore: %w", err)
	}
	in := bufio.NewReaderSize(r, 1<<16)
	first, err := nextFrame(in)
	if err != nil {
		return 0, fmt.Errorf("restore: %w", err)
	}
	h := first.GetHead()
	if h.GetVersion() != backupVersion || h.GetHead() == nil {
		return 0, fmt.Errorf("restore: version %d, want %d: %w", h.GetVersion(), backupVersion, ErrBadBackup)
	}
	if cluster == "" {
		cluster = fence.Cluster(h.Head.GetCluster())
	}
	if err := s.clearRows(ctx); err != nil {
		return 0, fmt.Errorf("restore: %w", err)
	}
	rows, err = s.loadRows(ctx, in)
	if err != nil {
		return 0, fmt.Errorf("restore: %w", err)
	}
	marked := head.Restore(headOf(h.Head), s.cfg.Clock.Wall().Unix())
	marked.Cluster = cluster
	if err := s.putUnled(ctx, []Write{{Key: s.headKey(), Value: encodeHead(marked)}}); err != nil {
		return 0, fmt.Errorf("restore: %w", err)
	}
	return rows, nil
}

func nextFrame(in *bufio.Reader) (*storepb.Backup, error) {
	var b storepb.Backup
	if err := (protodelim.UnmarshalOptions{MaxSize: 64 << 20}).UnmarshalFrom(in, &b); err != nil {
		var unread *fs.PathError
		switch {
		case errors.As(err, &unread):
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			err = errors.New("it ends too early, or is no backup at all")
		default:
			err = errors.New("it is damaged, or no backup at all")
		}
		return nil, fmt.Errorf("%w: %w", ErrBadBackup, err)
	}
	return &b, nil
}

// loadRows puts the rows up to the end frame.
func (s *Store) loadRows(ctx context.Context, in *bufio.Reader) (int64, error) {
	sum := newBackupSum()
	var q queue
	limits := s.backend.Limits()
	limits.Bytes -= txnOverhead
	waiting := 0 // bytes in q
	flush := func() error {
		waiting = 0
		for q.len() > 0 {
			b := q.cut(limits)
			writes := make([]Write, len(b.ops))
			for i, op := range b.ops {
				writes[i] = Write{Key: s.rowKey(op.Key), Value: op.Value}
			}
			if err := s.putUnled(ctx, writes); err != nil {
				return err
			}
		}
		return nil
	}
	for {
		b, err := nextFrame(in)
		if err != nil {
			return 0, err
		}
		if end := b.GetEnd(); end != nil {
			if want := sum.end(); end.Rows != want.Rows || end.Crc != want.Crc {
				return 0, fmt.Errorf("%d rows, sum %08x, want %d, %08x: %w", want.Rows, want.Crc, end.Rows, end.Crc, ErrBadBackup)
			}
			return sum.rows, flush()
		}
		row := b.GetRow()
		if row.GetKey() == "" {
			return 0, fmt.Errorf("row %d has no key: %w", sum.rows+1, ErrBadBackup)
		}
		value := append([]byte{}, row.Value...)
		sum.add(row.Key, value)
		i := item{ops: []Op{{Key: row.Key, Value: value}}, bytes: len(row.Key) + len(value) + opOverhead}
		q.push(i)
		if waiting += i.bytes; q.len() >= limits.Ops || waiting >= limits.Bytes {
			if err := flush(); err != nil {
				return 0, err
			}
		}
	}
}

// clearRows deletes the rows of an unfinished restore.
func (s *Store) clearRows(ctx context.Context) error {
	for {
		p, err := s.backend.Range(ctx, Query{From: s.rowPrefix(), To: prefixEnd(s.rowPrefix()),
			Limit: s.backend.Limits().Ops})
		if err != nil || len(p.Entries) == 0 {
			return err
		}
		writes := make([]Write, len(p.Entries))
		for i, e := range p.Entries {
			writes[i] = Write{Key: e.Key}
		}
		if err := s.putUnled(ctx, writes); err != nil {
			return err
		}
	}
}

// putUnled writes to a store without head and leader.
func (s *Store) putUnled(ctx context.Context, writes []Write) error {
	a, err := s.backend.Txn(ctx, Txn{
		If: []Condition{
			{Key: s.headKey(), Check: CreatedAt, Created: 0},
			{Key: s.electionKey(), Check: CreatedAt, Created: 0},
		},
		Then: writes,
	})
	if err == nil && !a.Done {
		err = ErrDisplaced
	}
	return err
}

// MarkRestored marks a store that was rolled back or moved by other means than
// LoadBackup, before any server campaigns on it: it raises the epoch, so that the
// next term is greater than any cell has seen, and sets Restored. It returns the
// epoch it has written, as a term without revision. ErrDisplaced while a server
// leads; ErrNoHead when there is nothing to mark.
func (s *Store) MarkRestored(ctx context.Context) (fence.Term, error) {
	if err := s.clearElectionKey(ctx); err != nil {
		return fence.Term{}, fmt.Errorf("mark restored: %w", err)
	}
	e, _, err := s.read(ctx, s.headKey())
	if err == nil && e == nil {
		err = ErrNoHead
	}
	if err != nil {
		return fence.Term{}, fmt.Errorf("mark restored: %w", err)
	}
	old, err := decodeHead(e.Value)
	if err != nil {
		return fence.Term{}, fmt.Errorf("mark restored: %w", err)
	}
	h := head.Restore(old, s.cfg.Clock.Wall().Unix())
	a, err := s.backend.Txn(ctx, Txn{
		If: []Condition{
			{Key: s.headKey(), Check: ValueIs, Value: e.Value},
			{Key: s.electionKey(), Check: CreatedAt, Created: 0},
		},
		Then: []Write{{Key: s.headKey(), Value: encodeHead(h)}},
	})
	if err == nil && !a.Done {
		err = errors.Join(ErrDisplaced, errors.New("a server leads"))
	}
	if err != nil {
		return fence.Term{}, fmt.Errorf("mark restored: %w", err)
	}
	return h.Term, nil
}
