package bbs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"cantina/fault"
	"cantina/lrp"
	"cantina/plan"
)

// Movable is an instance that may be moved to another cell.
type Movable struct {
	Key      lrp.Key
	Desired  *lrp.Desired
	Instance string
	Cell     string
}

// Movables lists the instances of services of which all run and serve, in one version; the reason why another service
// is left as it is; and how many instances are being moved. An instance that may have no second copy is never moved.
func (q *queries) Movables() (all []Movable, left map[lrp.ServiceKey]string, moving int) {
	v := q.view
	v.mu.RLock()
	defer v.mu.RUnlock()
	m := movables{now: q.now(), left: make(map[lrp.ServiceKey]string)}
	for k, s := range v.services {
		v.movable(k, s.row, &m)
	}
	return m.all, m.left, m.moving
}

// movables is the answer of Movables while it is collected.
type movables struct {
	now    time.Time
	all    []Movable
	left   map[lrp.ServiceKey]string
	moving int
}

func (v *view) movable(k lrp.ServiceKey, s *lrp.Service, m *movables) {
	left := m.left
	t := s.Target()
	switch {
	case t == nil || s.Removed || s.Instances == 0:
		return
	case t.Exclusive:
		left[k] = "exclusive: it is never moved"
	case t.StopFirst():
		left[k] = "strategy stop_first: it is never moved"
	case s.Phase != lrp.Steady || len(s.Versions) > 1:
		left[k] = "a rollout is in progress"
	}
	begin, young := len(m.all), 0
	for i := range s.Instances {
		x := v.indices[lrp.Key{Process: t.Process, Index: i}].row
		if e := x.Evacuating; e != nil && e.Moving {
			m.moving++
			left[k] = fmt.Sprintf("instance %d is being moved", i)
		}
		switch o := x.Ordinary; {
		case left[k] != "":
		case x.Evacuating != nil || x.Suspect != nil || !o.Serves():
			left[k] = fmt.Sprintf("instance %d does not serve", i)
		case !o.MayMove(m.now):
			young++
		default:
			m.all = append(m.all, Movable{Key: x.Key, Desired: &t.Desired, Instance: o.Instance, Cell: o.Cell})
		}
	}
	switch {
	case left[k] != "":
		m.all = m.all[:begin]
	case young == s.Instances:
		left[k] = fmt.Sprintf("its instances have run for less than %v", lrp.MoveAfter)
	}
}

const (
	// MaxRelocations is how many moves one call begins: they are one commit.
	MaxRelocations = chunkOps / 2
	// relocateTime is how long a move may wait for a cell that begins it.
	relocateTime = time.Minute
)

// Relocate begins the move of instances: each is placed again, and runs until the new one serves. An instance that is
// no longer the same, or does not serve now, stays. It returns the keys of those that are moved.
func (ap *applies) Relocate(ctx context.Context, all []Movable, request []byte, w plan.Write) (map[string]bool, error) {
	if len(all) > MaxRelocations {
		return nil, fmt.Errorf("%d moves at once, at most %d: %w", len(all), MaxRelocations, fault.ErrInvalid)
	}
	out, _, err := ap.writes.write(ctx, w, "rebalance", request, func(t *tx) (reply, error) {
		var begun []string
		for _, m := range all {
			o := ap.services.Index(m.Key).Ordinary
			if o == nil || o.Instance != m.Instance || ap.leftOut(IndexRow(m.Key)) {
				continue
			}
			err := t.step(m.Key, lrp.Relocate{By: o.Identity, Until: t.now.Add(relocateTime)})
			switch {
			case errors.Is(err, lrp.ErrCannotBeMoved) || errors.Is(err, fault.ErrQuarantined):
			case err != nil:
				return reply{}, err
			default:
				begun = append(begun, m.Key.String())
			}
		}
		return reply{"rebalance", []byte(strings.Join(begun, "\n"))}, nil
	})
	if err != nil {
		return nil, err
	}
	begun := make(map[string]bool)
	for k := range strings.SplitSeq(string(out.answer), "\n") {
		begun[k] = true
	}
	return begun, nil
}
