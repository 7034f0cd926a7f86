package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"cantina/internal/run"
	"cantina/store/head"
)

// errAgain reports a campaign that has to be started over with a fresh lease.
var errAgain = errors.New("campaign again")

// Campaign waits until this server is elected, on a lease made for this campaign alone. It then
// writes the head to a strictly greater term, and loads every row except those under DataPrefix,
// at or after that write. It retries forever while the store does not answer. It fails with ctx's
// error; with ErrCorrupt if the head cannot be read (a corrupt head is never treated as a new
// store); with ErrNoHead after an unfinished restore; with ErrFull or ErrBroken if the store
// cannot be written, ErrWentBack if it became another one; or with an error of Config.Memory. The
// caller must end every Leadership with Resign.
func (s *Store) Campaign(ctx context.Context, c Candidate) (*Leadership, error) {
	forgotten := false
	for wait := s.cfg.KeepAlive / 8; ; wait = min(2*wait, s.cfg.KeepAlive) {
		var r *Leadership
		var err error
		if !forgotten {
			err = s.forgetLease(ctx)
			forgotten = err == nil
		}
		if err == nil {
			r, err = s.campaignOnce(ctx, c)
		}
		switch {
		case err == nil:
			return r, nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("campaign of %s: %w", c.ID, ctx.Err())
		case hopeless(err):
			return nil, fmt.Errorf("campaign of %s: %w", c.ID, err)
		}
		s.cfg.Log.Warn("campaign failed, trying again", "server", c.ID, "error", err)
		if err := run.Pause(ctx, wait); err != nil {
			return nil, fmt.Errorf("campaign of %s: %w", c.ID, err)
		}
	}
}

// hopeless reports errors that a retry cannot resolve.
func hopeless(err error) bool {
	for _, e := range []error{ErrCorrupt, ErrNoHead, ErrFull, ErrBroken, ErrWentBack, errMemory} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// errMemory marks errors of Config.Memory.
var errMemory = errors.New("server memory")

// memo reads and changes the server's data beside the store.
type memo struct {
	memory Memory     // nil = nothing
	mu     sync.Mutex // held during a change
}

func (k *memo) load() (Memo, error) {
	if k.memory == nil {
		return Memo{}, nil
	}
	m, err := k.memory.Load()
	if err != nil {
		return Memo{}, fmt.Errorf("load memo: %w: %w", errMemory, err)
	}
	return m, nil
}

func (k *memo) change(to func(*Memo)) error {
	if k.memory == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	m, err := k.load()
	if err != nil {
		return err
	}
	to(&m)
	if err := k.memory.Save(m); err != nil {
		return fmt.Errorf("save memo: %w: %w", errMemory, err)
	}
	return nil
}

// forgetLease revokes the lease of an earlier process on this data directory: holding the
// directory's lock proves that process dead, so no candidate must wait for its TTL.
func (s *Store) forgetLease(ctx context.Context) error {
	if err := s.clearElectionKey(ctx); err != nil {
		return err
	}
	m, err := s.memo.load()
	if err != nil || m.Lease == 0 {
		return err
	}
	cluster, err := s.backend.Cluster(ctx)
	if err != nil {
		return fmt.Errorf("name of the store: %w", err)
	}
	if cluster != m.Cluster {
		return nil
	}
	if err := s.call(ctx, func(ctx context.Context) error { return s.backend.Revoke(ctx, m.Lease) }); err != nil {
		return fmt.Errorf("revoke lease %x of an earlier process: %w", m.Lease, err)
	}
	return nil
}

// clearElectionKey ends the lease of the election key, when this process alone has the store.
func (s *Store) clearElectionKey(ctx context.Context) error {
	if !s.cfg.Sole {
		return nil
	}
	e, _, err := s.read(ctx, s.electionKey())
	if err != nil || e == nil || e.Lease == 0 {
		return err
	}
	if err := s.call(ctx, func(ctx context.Context) error { return s.backend.Revoke(ctx, e.Lease) }); err != nil {
		return fmt.Errorf("revoke lease %x of an earlier process: %w", e.Lease, err)
	}
	return nil
}

// call limits one request by the commit timeout.
func (s *Store) call(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CommitTimeout)
	defer cancel()
	return f(ctx)
}

// campaignOnce waits until there is no leader and tries once, with a fresh lease.
func (s *Store) campaignOnce(ctx context.Context, c Candidate) (*Leadership, error) {
	if err := s.standBy(ctx, c); err != nil {
		return nil, err
	}
	cluster, err := s.backend.Cluster(ctx)
	if err != nil {
		return nil, fmt.Errorf("name of the store: %w", err)
	}
	candidacy := candidacy{sent: s.cfg.Clock.Boot(), candidate: c}
	err = s.call(ctx, func(ctx context.Context) (err error) {
		candidacy.lease, candidacy.ttl, err = s.backend.Grant(ctx, s.cfg.LeaseTTL)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("grant lease: %w", err)
	}
	if candidacy.created, err = s.takeElectionKey(ctx, cluster, candidacy); err != nil {
		s.revoke(ctx, candidacy.lease)
		return nil, err
	}
	r, leading := newLeadership(ctx, s, candidacy)
	won, isNew, err := r.begin(ctx, cluster)
	if err != nil {
		r.end(err)
		r.join()
		return nil, err
	}
	r.open(leading, won, isNew)
	s.cfg.Log.Info("term begun", "server", c.ID, "cluster", string(won.Cluster), "term", won.Term.String(),
		"rows", len(r.rows), "restored", won.Restored, "new_store", isNew)
	return r, nil
}

// yieldTime is how long a server waits for another candidate before it leads.
const yieldTime = 200 * time.Millisecond

// yields reports that another server should rather lead: this one's member orders the entries of the store. If both
// were lost with one process, the lease of its term would begin anew after the election of another member.
func (s *Store) yields() bool {
	b, ok := s.backend.(interface{ Yields() bool })
	return ok && b.Yields()
}

// standBy returns when there is no election key.
func (s *Store) standBy(ctx context.Context, c Candidate) error {
	yielded := false
	for reported := ""; ; {
		l, rev, err := s.leader(ctx)
		switch {
		case errors.Is(err, ErrNoLeader) && !yielded && s.yields():
			if err := run.Pause(ctx, yieldTime); err != nil {
				return err
			}
			yielded = true
			continue
		case errors.Is(err, ErrNoLeader):
			return nil
		case errors.Is(err, ErrCorrupt):
			// Its holder is unreadable, but it lives on a lease: wait for its end.
			s.cfg.Log.Warn("standing by for an unreadable election key", "error", err)
		case err != nil:
			return err
		case reported != l.ID:
			reported = l.ID
			s.cfg.Log.Info("standing by", "server", c.ID, "leader", l.ID, "term", l.Term.String())
		}
		if err := s.backend.Changed(ctx, s.electionKey(), rev); err != nil {
			return fmt.Errorf("watch election key: %w", err)
		}
	}
}

// candidacy is a lease and the election key on it.
type candidacy struct {
	candidate Candidate
	lease     LeaseID
	ttl       time.Duration
	sent      time.Duration // boot time before the lease was requested
	created   int64         // create revision of the election key
}

// takeElectionKey records the lease beside the store and puts the election key. It returns the
// key's create revision. A put with an unknown outcome is looked up once; the caller revokes the
// lease on any error, after which the put can never land.
func (s *Store) takeElectionKey(ctx context.Context, cluster string, t candidacy) (int64, error) {
	known := func(m *Memo) {
		m.Lease = t.lease
		if m.Cluster == "" {
			m.Cluster = cluster
		}
	}
	if err := s.memo.change(known); err != nil {
		return 0, err
	}
	key := s.electionKey()
	var a TxnAnswer
	err := s.call(ctx, func(ctx context.Context) (err error) {
		a, err = s.backend.Txn(ctx, Txn{
			If:   []Condition{{Key: key, Check: CreatedAt, Created: 0}},
			Then: []Write{{Key: key, Value: encodeElection(Leader{Candidate: t.candidate}), Lease: t.lease}},
			Else: []string{key},
		})
		return err
	})
	if err == nil && a.Done {
		return a.Revision, nil
	}
	found := a.Found
	if err != nil {
		e, _, rerr := s.read(ctx, key)
		if rerr != nil || e == nil {
			return 0, fmt.Errorf("put election key: %w", errors.Join(err, rerr))
		}
		found = []Entry{*e}
	}
	if len(found) == 1 && found[0].Lease == t.lease {
		return found[0].Created, nil
	}
	return 0, fmt.Errorf("another server was faster: %w", errAgain)
}

// revoke ends a lease if possible; otherwise the TTL does.
func (s *Store) revoke(ctx context.Context, id LeaseID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.KeepAlive)
	defer cancel()
	err := s.backend.Revoke(ctx, id)
	if err == nil {
		err = s.memo.change(func(m *Memo) { m.Lease = 0 })
	}
	if err != nil {
		s.cfg.Log.Warn("lease not revoked, it ends with its TTL", "error", err)
	}
}

// begin writes the head that begins the term and loads the rows. If the outcome of its transaction
// is unknown, the caller gives up the candidacy: either it landed, as the head of a term without
// changes, or it never can once the election key is gone. isNew: there was no head before.
func (r *Leadership) begin(ctx context.Context, cluster string) (won head.Head, isNew bool, err error) {
	s := r.store
	before, _, err := s.read(ctx, s.headKey())
	if err != nil {
		return won, false, fmt.Errorf("read head: %w", err)
	}
	won, err = s.win(before, cluster, r.candidacy.created)
	if err != nil {
		return won, false, err
	}
	if before == nil {
		p, err := s.backend.Range(ctx, Query{From: s.rowPrefix(), To: prefixEnd(s.rowPrefix()), Limit: 1})
		if err == nil && len(p.Entries) > 0 {
			err = ErrNoHead
		}
		if err != nil {
			return won, false, fmt.Errorf("look for rows: %w", err)
		}
	}
	is := Condition{Key: s.headKey(), Check: CreatedAt, Created: 0}
	if before != nil {
		is = Condition{Key: s.headKey(), Check: ValueIs, Value: before.Value}
	}
	leader := Leader{Candidate: r.candidacy.candidate, Term: won.Term, Cluster: won.Cluster}
	var a TxnAnswer
	err = s.call(ctx, func(ctx context.Context) (err error) {
		a, err = s.backend.Txn(ctx, Txn{
			If: []Condition{is, {Key: s.electionKey(), Check: CreatedAt, Created: r.candidacy.created}},
			Then: []Write{
				{Key: s.headKey(), Value: encodeHead(won)},
				{Key: s.electionKey(), Value: encodeElection(leader), Lease: r.candidacy.lease},
			},
		})
		return err
	})
	if err != nil {
		return won, false, fmt.Errorf("write head of term %s: %w", won.Term, err)
	}
	if !a.Done {
		return won, false, fmt.Errorf("write head of term %s: %w", won.Term, errAgain)
	}
	err = s.memo.change(func(m *Memo) { *m = Memo{Cluster: cluster, Seen: won.Term, Lease: r.candidacy.lease} })
	if err != nil {
		return won, false, err
	}
	r.rows, r.revision, err = s.load(ctx)
	return won, before == nil, err
}

// win gathers the evidence and lets package head decide.
func (s *Store) win(before *Entry, cluster string, elected int64) (head.Head, error) {
	memo, err := s.memo.load()
	if err != nil {
		return head.Head{}, err
	}
	e := head.Evidence{
		Exists: before != nil, Elected: elected, NewCluster: s.cfg.NewCluster, Unix: s.cfg.Clock.Wall().Unix(),
		Fresh: s.cfg.NewID(), Seen: memo.Seen, Moved: memo.Moved || (memo.Cluster != "" && memo.Cluster != cluster),
	}
	if before != nil {
		if e.Head, err = decodeHead(before.Value); err != nil {
			return head.Head{}, err
		}
	}
	s.mu.Lock()
	if e.Seen.Less(s.heard) {
		e.Seen = s.heard
	}
	s.mu.Unlock()
	if e.Exists && e.Head.Term.Less(e.Seen) {
		s.cfg.Log.Warn("store is older than its servers or cells have seen, as after a rollback; "+
			"raising the epoch and marking it as restored",
			"head", e.Head.Term.String(), "seen", e.Seen.String())
	}
	return head.Win(e)
}

const loadPage = 5000

// load reads all rows at one revision, page by page; it starts over when that
// revision was compacted meanwhile.
func (s *Store) load(ctx context.Context) ([]Row, int64, error) {
	prefix, data := s.rowPrefix(), s.rowKey(DataPrefix)
	for {
		var rows []Row
		revision, err := s.scan(ctx, []span{{prefix, data}, {prefixEnd(data), prefixEnd(prefix)}}, 0, func(row Row) error {
			rows = append(rows, row)
			return nil
		})
		if err == nil {
			return rows, revision, nil
		}
		if !errors.Is(err, ErrCompacted) {
			return nil, 0, fmt.Errorf("load rows: %w", err)
		}
	}
}

// span is a range of keys, from inclusive, to exclusive.
type span struct{ from, to string }

// scan passes the rows of the spans to take, in order, all as they were at one
// revision (0: the present one), which it returns.
func (s *Store) scan(ctx context.Context, spans []span, revision int64, take func(Row) error) (int64, error) {
	for _, part := range spans {
		for more := true; more; {
			p, err := s.backend.Range(ctx, Query{From: part.from, To: part.to, Limit: loadPage, Revision: revision})
			if err != nil {
				return 0, err
			}
			if revision == 0 {
				revision = p.Revision
			}
			for _, e := range p.Entries {
				if err := take(Row{Key: s.rowName(e.Key), Value: e.Value, Revision: e.Modified}); err != nil {
					return 0, err
				}
				part.from = e.Key + "\x00"
			}
			more = p.More
		}
	}
	return revision, nil
}

// prefixEnd returns the first key after all that begin with the prefix.
func prefixEnd(prefix string) string {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xff {
			b[i]++
			return string(b[:i+1])
		}
	}
	return "\x00" // not reached: every prefix here begins with the root
}
