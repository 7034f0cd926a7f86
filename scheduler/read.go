package scheduler

import (
	"context"
	"fmt"

	"cantina/batch"
)

// stored is one status as it stands in the store, with its data.
type stored struct {
	status batch.Status
	data   []byte
}

// readSegments reads segments of a job with their data: by number, then by node.
// A segment that is gone is left out.
func (s *Scheduler) readSegments(ctx context.Context, uid string, numbers []uint32) (map[uint32]map[string]stored, error) {
	out := make(map[uint32]map[string]stored, len(numbers))
	for _, n := range numbers {
		row, ok, err := s.cfg.Store.Get(ctx, segmentKey(uid, n))
		if err != nil {
			return nil, fmt.Errorf("read statuses: %w", err)
		}
		if !ok {
			continue
		}
		entries, err := decodeSegment(row.Value)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", row.Key, err)
		}
		var data map[int][]byte
		if row, ok, err = s.cfg.Store.Get(ctx, dataKey(uid, n)); err != nil {
			return nil, fmt.Errorf("read results: %w", err)
		}
		if ok {
			if data, err = decodeData(row.Value); err != nil {
				return nil, fmt.Errorf("read %s: %w", row.Key, err)
			}
		}
		m := make(map[string]stored, len(entries))
		for i, e := range entries {
			m[e.node] = stored{status: e.status, data: data[i]}
		}
		out[n] = m
	}
	return out, nil
}
