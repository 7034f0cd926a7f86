package etcd

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cantina/store"
)

// Upkeep sets when to compact and defragment. Zero fields take the default in brackets.
type Upkeep struct {
	// CompactEvery is the longest time between two compactions [5 min]. History is
	// kept for one such time at least, unless CompactWrites come sooner. A negative
	// value never compacts.
	CompactEvery time.Duration
	// CompactWrites is the number of writes of this process after which to compact
	// [100,000].
	CompactWrites int64
	// DefragSlack is the number of unused bytes in the database file from which on
	// it is defragmented [64 MiB], if it is half empty too. A negative value never
	// defragments.
	DefragSlack int64
	// DefragMost is the largest content in bytes to defragment while serving, because the store is
	// blocked meanwhile [128 MiB]; larger ones wait for the next start.
	DefragMost int64
}

func (u Upkeep) withDefaults() Upkeep {
	u.CompactEvery = cmp.Or(u.CompactEvery, 5*time.Minute)
	u.CompactWrites = cmp.Or(u.CompactWrites, 100_000)
	u.DefragSlack = cmp.Or(u.DefragSlack, 64<<20)
	u.DefragMost = cmp.Or(u.DefragMost, 128<<20)
	return u
}

// run compacts and defragments until ctx is done.
func (u Upkeep) run(ctx context.Context, b *Backend, log *slog.Logger) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last, written := time.Now(), b.written.Load()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		w := b.written.Load()
		if b.readers.Load() > 0 || b.NoRoom() != nil {
			continue
		}
		if u.CompactEvery < 0 || w == written || w-written < u.CompactWrites && time.Since(last) < u.CompactEvery {
			continue
		}
		last, written = time.Now(), w
		if err := u.once(ctx, b, log); err != nil && ctx.Err() == nil {
			log.Warn("upkeep of the store failed", "error", err)
		}
	}
}

// once compacts to the present revision and defragments where it pays.
func (u Upkeep) once(ctx context.Context, b *Backend, log *slog.Logger) error {
	p, err := b.Range(ctx, store.Query{From: "\x00", To: "\x01", Limit: 1})
	if err != nil {
		return err
	}
	start := time.Now()
	_, err = do(ctx, b, func(ctx context.Context) (*clientv3.CompactResponse, error) {
		return b.client.Compact(ctx, p.Revision, clientv3.WithCompactPhysical())
	})
	if err != nil {
		return fmt.Errorf("compact to %d: %w", p.Revision, err)
	}
	log.Debug("store compacted", "revision", p.Revision, "took", time.Since(start))
	for _, endpoint := range b.client.Endpoints() {
		if err := u.defragment(ctx, clusterMember{b, endpoint}, log); err != nil {
			return err
		}
	}
	switch {
	case b.member == nil:
		return nil
	case b.member.cfg.Membership != nil: // each of several members does it when it has no duties
		return b.member.disarm(ctx)
	}
	if err := u.defragment(ctx, ownMember{b.member}, log); err != nil {
		return err
	}
	return b.member.disarm(ctx)
}

// host is one member's database file.
type host interface {
	// size returns the bytes of the file, and those in use.
	size(ctx context.Context) (file, used int64, err error)
	defragment(ctx context.Context) error
}

// clusterMember is a member of an operator's cluster.
type clusterMember struct {
	b        *Backend
	endpoint string
}

func (h clusterMember) size(ctx context.Context) (file, used int64, err error) {
	s, err := h.b.client.Status(ctx, h.endpoint)
	if err != nil {
		return 0, 0, fmt.Errorf("status of %s: %w", h.endpoint, err)
	}
	return s.DbSize, s.DbSizeInUse, nil
}

func (h clusterMember) defragment(ctx context.Context) error {
	if _, err := h.b.client.Defragment(ctx, h.endpoint); err != nil {
		return fmt.Errorf("defragment %s: %w", h.endpoint, err)
	}
	return nil
}

// ownMember is the embedded member.
type ownMember struct{ m *Member }

func (h ownMember) size(ctx context.Context) (file, used int64, err error) {
	sizes, err := do(ctx, h.m.backend, func(context.Context) ([2]int64, error) {
		be := h.m.server.Server.Backend()
		return [2]int64{be.Size(), be.SizeInUse()}, nil
	})
	return sizes[0], sizes[1], err
}

func (h ownMember) defragment(ctx context.Context) error {
	_, err := do(ctx, h.m.backend, func(context.Context) (struct{}, error) {
		return struct{}{}, h.m.server.Server.Defragment()
	})
	return err
}

// defragment rewrites a database file that is mostly empty.
func (u Upkeep) defragment(ctx context.Context, h host, log *slog.Logger) error {
	file, used, err := h.size(ctx)
	if err != nil {
		return err
	}
	slack := file - used
	if u.DefragSlack < 0 || slack < u.DefragSlack || slack < used || used > u.DefragMost {
		return nil
	}
	start := time.Now()
	if err := h.defragment(ctx); err != nil {
		return err
	}
	log.Info("store defragmented", "before_bytes", file, "content_bytes", used, "took", time.Since(start))
	return nil
}

// disarm clears the alarm of a full quota if a tenth of it is free again, or it was raised. Alarms
// of other kinds stay.
func (m *Member) disarm(ctx context.Context) error {
	size, _, err := ownMember{m}.size(ctx)
	if err != nil || size > m.cfg.Quota-m.cfg.Quota/10 {
		return err
	}
	_, err = do(ctx, m.backend, func(ctx context.Context) (struct{}, error) {
		for _, a := range m.server.Server.Alarms() {
			if a.Alarm != etcdserverpb.AlarmType_NOSPACE {
				continue
			}
			if _, err := m.client.AlarmDisarm(ctx, (*clientv3.AlarmMember)(a)); err != nil {
				return struct{}{}, err
			}
			m.cfg.Log.Info("store has room again", "bytes", size, "quota_bytes", m.cfg.Quota)
		}
		return struct{}{}, nil
	})
	if err != nil {
		return fmt.Errorf("disarm alarm: %w", err)
	}
	return nil
}
