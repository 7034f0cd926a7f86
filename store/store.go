// Package store keeps all durable state of the leader: rows in etcd (embedded, or an operator's
// cluster) or in the in-memory backend, one leader that writes them, and a fence on every write.
//
// A Store is one server's view of a backend. Campaign waits until this server is elected and
// returns a Leadership, one won term: the load of all rows, and Submit, which commits transitions.
// Many transitions share one transaction; one transaction is in flight; none is ever split. Every
// transaction compares the head record and the server's own election key, and puts the next head.
// Package head resolves a transaction with an unknown outcome before anything else happens; one
// that cannot be resolved ends the term.
//
//	candidate ── election key created on a fresh lease ──▶ elected
//	elected ── head written to a greater term, rows loaded ──▶ leading
//	leading ── displaced, lease gone, store broken, Resign ──▶ over
//
// Only the owners of rows in the leader (bbs, scheduler, registry) submit; package node wires
// backends; the simulator uses package head and mem. Source: docs/design/safety.md, Terms and
// Commits; docs/design/store.md.
package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"cantina/fault"
	"cantina/fence"
	"cantina/internal/run"
	"cantina/store/head"
)

// Errors of the store.
var (
	// ErrTooLarge reports a transition that does not fit in one transaction. No part of it was sent.
	ErrTooLarge = fault.New(fault.ErrTooLarge, "transition too large")
	// ErrBadKey reports an empty key.
	ErrBadKey = errors.New("bad key")
	// ErrQuarantined reports a transition that touches a quarantined row.
	ErrQuarantined = fault.New(fault.ErrConflict, "row is quarantined")
	// ErrNotQuarantined reports a quarantine operation on a row that is not.
	ErrNotQuarantined = fault.New(fault.ErrNotFound, "row is not quarantined")
	// ErrBadManifest reports a manifest without steps, or one already begun.
	ErrBadManifest = errors.New("bad manifest")
	// ErrBadBackup reports a backup that is torn, damaged or none.
	ErrBadBackup = errors.New("bad backup")
	// ErrNotEmpty reports a restore into a store that holds something.
	ErrNotEmpty = errors.New("store is not empty")
	// ErrNoHead reports a store with rows but without a head: a restore that did
	// not end. Restoring again repairs it.
	ErrNoHead = errors.New("a restore of this store did not finish: restore the backup again")
	// ErrCorrupt reports a value that is no intact record.
	ErrCorrupt = errors.New("corrupt record")
	// ErrDisplaced reports that another server leads, or may soon.
	ErrDisplaced = head.ErrDisplaced
	// ErrWentBack reports a store that is older than it was: restored or replaced
	// under a running leader.
	ErrWentBack = head.ErrWentBack
	// ErrLeaseGone reports that the store has ended the lease.
	ErrLeaseGone = fault.New(fault.ErrTermOver, "lease gone")
	// ErrLeaseNotProven reports a read without proof that this server still leads.
	ErrLeaseNotProven = fault.New(fault.ErrTermOver, "lease not proven")
	// ErrUnresolved reports a commit whose outcome stayed unknown until the term had to end. It may
	// or may not be in the store.
	ErrUnresolved = fault.New(fault.ErrUnknownOutcome, "commit outcome unknown")
	// ErrFull reports a store that takes no more data: disk or quota.
	ErrFull = fault.New(fault.ErrFull, "store is full")
	// ErrStalled reports a store that gives no outcome of a commit, while the lease is held.
	ErrStalled = fault.New(fault.ErrBusy, "the store commits nothing")
	// ErrBroken reports a store that has failed permanently; only a restart helps.
	ErrBroken = errors.New("store is broken")
	// ErrCompacted reports a read of a revision that is gone.
	ErrCompacted = errors.New("revision compacted")
	// ErrResigned is the end of a term by Resign.
	ErrResigned = fault.New(fault.ErrTermOver, "resigned")
	// ErrNoLeader reports that there is no leader.
	ErrNoLeader = errors.New("no leader")
)

// Op is one change of one row. A nil Value deletes the row; an empty one does not.
// Keys are slash paths: "lrp/desired/GUID". Keys under DataPrefix are not loaded
// at the start of a term.
type Op struct {
	Key   string
	Value []byte
}

// Transition is a set of writes that become durable at once. Without Ops it is a barrier, which
// only queues behind the current commit.
type Transition struct{ Ops []Op }

// Row is one row as it is in the store; Revision is that of its last change.
type Row struct {
	Key      string
	Value    []byte
	Revision int64
}

// DataPrefix begins the keys of rows that are never loaded, only read: the result
// data of batch tasks.
const DataPrefix = "data/"

// Candidate is how others reach a server; it is the value of the election key.
type Candidate struct {
	ID        string
	Addresses []string
}

// Leader is the server that leads. Term is zero, and Cluster empty, while it is elected
// but its term has not begun.
type Leader struct {
	Candidate
	Term    fence.Term
	Cluster fence.Cluster
}

// Memo is a server's record about its store, beside it.
type Memo struct {
	// Cluster names the store last used.
	Cluster string
	// Seen is the highest term seen in it.
	Seen fence.Term
	// Lease is the lease granted last; 0 when it was revoked.
	Lease LeaseID
	// Moved reports that the directory is not where the memo was written (copied, restored from a
	// backup); it stays until a term has begun.
	Moved bool
}

// Memory keeps the Memo in the server's data directory. Save is durable when it
// returns. A nil Memory remembers nothing.
type Memory interface {
	Load() (Memo, error)
	Save(m Memo) error
}

// Config has the parts of a Store. Zero fields take the default in brackets.
type Config struct {
	// Root begins all keys in the backend ["cantina/"].
	Root string
	// LeaseTTL is the life of the election lease without keep-alive [5 s]. etcd
	// takes whole seconds and no less than 2.
	LeaseTTL time.Duration
	// KeepAlive is the time between two keep-alives [1 s].
	KeepAlive time.Duration
	// Drift is taken off the TTL when this server judges its own lease [0.5 s].
	Drift time.Duration
	// CommitTimeout bounds one request to the store; afterwards its outcome is
	// unknown [LeaseTTL].
	CommitTimeout time.Duration
	// StallTimeout is the time without an outcome of a commit after which requests for a change are
	// refused with the reason [LeaseTTL]. The term continues while its lease is held.
	StallTimeout time.Duration
	// QueueBound is the number of waiting transitions from which on Full is true
	// [20,000].
	QueueBound int
	// NewCluster is the operator's declaration that no cell of an older store is alive: a store that
	// is created now is not marked Restored.
	NewCluster bool
	// Memory is the server's storage beside the store [none].
	Memory Memory
	// Sole: no other process can access the store, because this process holds the lock of its
	// directory: an earlier leader is dead, and its lease is not waited for.
	Sole bool
	// Clock is required: leases run by Boot, new epochs are named by Wall.
	Clock run.Clock
	// Committed, if set, gets the measurements of each commit: the time it took, the time that its
	// oldest transition had waited, and its size. It must not wait.
	Committed func(took, waited time.Duration, transitions, bytes int)
	// NewID makes the identity of a store that has none [random].
	NewID func() fence.Cluster
	// Log receives messages for operators [discarded].
	Log *slog.Logger
}

// newCluster returns 8 random bytes in hexadecimal: people compare two of them.
func newCluster() fence.Cluster {
	var b [8]byte
	rand.Read(b[:])
	return fence.Cluster(hex.EncodeToString(b[:]))
}

func (c Config) withDefaults() Config {
	c.Root = cmp.Or(c.Root, "cantina/")
	c.LeaseTTL = cmp.Or(c.LeaseTTL, 5*time.Second)
	c.KeepAlive = cmp.Or(c.KeepAlive, time.Second)
	c.Drift = cmp.Or(c.Drift, 500*time.Millisecond)
	c.CommitTimeout = cmp.Or(c.CommitTimeout, c.LeaseTTL)
	c.StallTimeout = cmp.Or(c.StallTimeout, c.LeaseTTL)
	c.QueueBound = cmp.Or(c.QueueBound, 20000)
	if c.NewID == nil {
		c.NewID = newCluster
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Store is one server's view of a backend. It may be used from many goroutines;
// one Campaign or Leadership at a time.
type Store struct {
	backend Backend
	cfg     Config

	mu    sync.Mutex
	heard fence.Term // the highest that Heard received

	memo memo
}

// Heard handles a term that a cell of this cluster has seen and that is higher than any this
// server knows. If the store does not contain it either when this server wins next, the store went
// back: the epoch is raised beyond it and the store marked Restored, as by MarkRestored. It is
// stored durably if possible.
func (s *Store) Heard(t fence.Term) {
	s.mu.Lock()
	if s.heard.Less(t) {
		s.heard = t
	}
	s.mu.Unlock()
	err := s.memo.change(func(m *Memo) {
		if m.Seen.Less(t) {
			m.Seen = t
		}
	})
	if err != nil {
		s.cfg.Log.Warn("the term that a cell has seen is not saved", "term", t.String(), "error", err)
	}
}

// New returns the store of one server on a backend. It starts nothing. The error
// names a missing clock or a combination of times that cannot work.
func New(b Backend, c Config) (*Store, error) {
	c = c.withDefaults()
	if c.Clock.Boot == nil || c.Clock.Wall == nil {
		return nil, errors.New("store config: no clock")
	}
	if c.KeepAlive+c.Drift >= c.LeaseTTL {
		return nil, fmt.Errorf("keep-alive %s + drift %s must be shorter than lease TTL %s", c.KeepAlive, c.Drift, c.LeaseTTL)
	}
	return &Store{backend: b, cfg: c, memo: memo{memory: c.Memory}}, nil
}

func (s *Store) headKey() string           { return s.cfg.Root + "head" }
func (s *Store) electionKey() string       { return s.cfg.Root + "election" }
func (s *Store) rowPrefix() string         { return s.cfg.Root + "row/" }
func (s *Store) rowKey(key string) string  { return s.rowPrefix() + key }
func (s *Store) rowName(key string) string { return key[len(s.rowPrefix()):] }

// Leader reads the present leader: the value of the election key. ErrNoLeader if there is none.
func (s *Store) Leader(ctx context.Context) (Leader, error) {
	l, _, err := s.leader(ctx)
	return l, err
}

func (s *Store) leader(ctx context.Context) (Leader, int64, error) {
	e, rev, err := s.read(ctx, s.electionKey())
	if err != nil {
		return Leader{}, 0, fmt.Errorf("read leader: %w", err)
	}
	if e == nil {
		return Leader{}, rev, ErrNoLeader
	}
	l, err := decodeElection(e.Value)
	return l, rev, err
}

// read returns one key (nil when absent) and the revision of the read.
func (s *Store) read(ctx context.Context, key string) (*Entry, int64, error) {
	p, err := s.backend.Range(ctx, Query{From: key, To: key + "\x00"})
	if err != nil {
		return nil, 0, err
	}
	if len(p.Entries) == 0 {
		return nil, p.Revision, nil
	}
	return &p.Entries[0], p.Revision, nil
}

// WatchLeader calls report with the present leader and after each change (the zero Leader if there
// is none), until ctx is done; it returns ctx's error. It retries forever while the store does not
// answer. report is called by the goroutine that calls WatchLeader.
func (s *Store) WatchLeader(ctx context.Context, report func(Leader)) error {
	for first, last := true, (Leader{}); ; {
		l, rev, err := s.leader(ctx)
		if err == nil || errors.Is(err, ErrNoLeader) {
			if first || l.ID != last.ID || l.Term != last.Term {
				report(l)
			}
			first, last = false, l
			err = s.backend.Changed(ctx, s.electionKey(), rev)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			s.cfg.Log.Debug("watch leader", "error", err)
			if err := run.Pause(ctx, s.cfg.KeepAlive/2); err != nil {
				return err
			}
		}
	}
}

// Part is the rows of one owner that become durable in a commit of another owner.
type Part struct {
	Ops []Op
	// Done is called after the commit, in order of commit, with its outcome; may be nil.
	Done func(revision int64, err error)
	// Undo undoes the owner's changes in memory: the transition is not made; may be nil.
	Undo func()
}
