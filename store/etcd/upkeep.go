package etcd

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cantina/store"
)

// Upkeep says when to compact and defragment. Zero fields take the default in
// brackets.
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
	// DefragMost is the largest content in bytes to defragment while serving, for
	// the store stands still meanwhile [128 MiB]; larger ones wait for the next
	// start.
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
func (u Upkeep) run(ctx context.Context, b *Backend, log *slog.Logger, quota int64) error {
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
		if u.CompactEvery < 0 || w == written || w-written < u.CompactWrites && time.Since(last) < u.CompactEvery {
			continue
		}
		last, written = time.Now(), w
		if err := u.once(ctx, b, log, quota); err != nil && ctx.Err() == nil {
			log.Warn("upkeep of the store failed", "error", err)
		}
	}
}

// once compacts to the present revision and defragments where it pays.
func (u Upkeep) once(ctx context.Context, b *Backend, log *slog.Logger, quota int64) error {
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
	for _, endpoint := range b.endpoints() {
		if err := u.defragment(ctx, b, log, quota, endpoint); err != nil {
			return err
		}
	}
	return nil
}

// endpoints are those to defragment: the member in the process, or each one given.
func (b *Backend) endpoints() []string {
	if e := b.client.Endpoints(); len(e) > 0 {
		return e
	}
	return []string{""}
}

func (u Upkeep) defragment(ctx context.Context, b *Backend, log *slog.Logger, quota int64, endpoint string) error {
	status := func() (*clientv3.StatusResponse, error) {
		return do(ctx, b, func(ctx context.Context) (*clientv3.StatusResponse, error) { return b.client.Status(ctx, endpoint) })
	}
	s, err := status()
	if err != nil {
		return fmt.Errorf("status of %q: %w", endpoint, err)
	}
	slack := s.DbSize - s.DbSizeInUse
	if u.DefragSlack < 0 || slack < u.DefragSlack || slack < s.DbSizeInUse || s.DbSizeInUse > u.DefragMost {
		return u.disarm(ctx, b, log, quota, s)
	}
	start := time.Now()
	_, err = do(ctx, b, func(ctx context.Context) (*clientv3.DefragmentResponse, error) {
		return b.client.Defragment(ctx, endpoint)
	})
	if err != nil {
		return fmt.Errorf("defragment %q: %w", endpoint, err)
	}
	log.Info("store defragmented", "endpoint", endpoint, "before_bytes", s.DbSize, "content_bytes", s.DbSizeInUse, "took", time.Since(start))
	if s, err = status(); err != nil {
		return fmt.Errorf("status of %q: %w", endpoint, err)
	}
	return u.disarm(ctx, b, log, quota, s)
}

// disarm takes back the alarm of a full quota of our own member when a tenth of it
// is free again. An operator's alarms are the operator's.
func (u Upkeep) disarm(ctx context.Context, b *Backend, log *slog.Logger, quota int64, s *clientv3.StatusResponse) error {
	if quota <= 0 || s.DbSize > quota-quota/10 || len(s.Errors) == 0 {
		return nil
	}
	_, err := do(ctx, b, func(ctx context.Context) (*clientv3.AlarmResponse, error) {
		return b.client.AlarmDisarm(ctx, &clientv3.AlarmMember{})
	})
	if err != nil {
		return fmt.Errorf("disarm alarm: %w", err)
	}
	log.Info("store has room again", "bytes", s.DbSize, "quota_bytes", quota)
	return nil
}
