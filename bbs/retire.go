package bbs

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"cantina/lrp"
	"cantina/plan"
)

// stepRetired is how many instances one step of a manifest retires: with its other rows it fits into a transaction.
const stepRetired = chunkOps / 2

// retired is one index to stop and start again, with its instance at the time of the request: another one has started
// since, and is left alone.
type retired struct {
	key      lrp.Key
	instance string
}

// RetireInstances stops and restarts the given indices of a service (nil = all) at once, in any
// version. It returns their number. All are retired in one commit, or, if that is too large, by a manifest that a new
// leader rolls forward.
func (ap *applies) RetireInstances(ctx context.Context, k lrp.ServiceKey, indices []int, w plan.Write) (int, error) {
	request := []byte(fmt.Sprint(k, indices))
	out, _, err := ap.writes.write(ctx, w, "retire", request, func(t *tx) (reply, error) {
		s, err := ap.writes.service(k, w)
		if err != nil {
			return reply{}, err
		}
		all := ap.retirable(s, indices)
		for _, x := range all {
			if err := t.step(x.key, lrp.Retire{}); err != nil {
				return reply{}, err
			}
		}
		return retireReply(k, all), nil
	})
	answer := out.answer
	if tooLarge(err) {
		answer, err = ap.retireLarge(ctx, k, indices, w, request)
	}
	if err != nil {
		return 0, err
	}
	n, _ := binary.Varint(answer)
	return int(n), nil
}

func retireReply(k lrp.ServiceKey, all []retired) reply {
	return reply{k.String(), binary.AppendVarint(nil, int64(len(all)))}
}

// retireLarge retires more instances than fit into one transaction.
func (ap *applies) retireLarge(ctx context.Context, k lrp.ServiceKey, indices []int, w plan.Write,
	request []byte) ([]byte, error) {
	ticket := ap.newTicket()
	sum := sha256.Sum256(request)
	answer, earlier, err := ap.retireLargeLocked(k, indices, w, string(sum[:]), ticket)
	if err != nil {
		return nil, err
	}
	_, err = ap.writes.wait(ctx, ticket, earlier)
	return answer, err
}

func (ap *applies) retireLargeLocked(k lrp.ServiceKey, indices []int, w plan.Write, request string,
	done *ticket) ([]byte, *idemEntry, error) {
	ap.mu.Lock()
	defer ap.mu.Unlock()
	if err := ap.isOver(); err != nil {
		return nil, nil, err
	}
	row, e, err := ap.writes.used(w, "retire", request)
	if err != nil {
		return nil, nil, err
	}
	if e != nil { // the same call came twice at once
		ap.barrier(done)
		return e.answer, e, nil
	}
	s, err := ap.writes.service(k, w)
	if err != nil {
		return nil, nil, err
	}
	all := ap.retirable(s, indices)
	out := retireReply(k, all)
	var steps []step
	for len(all) > 0 {
		n := min(len(all), stepRetired)
		steps = append(steps, step{domain: k.Domain, retire: all[:n]})
		all = all[n:]
	}
	if len(steps) == 0 { // they have gone since the first try
		ap.barrier(done)
		return out.answer, nil, nil
	}
	if row != "" {
		e := &idemEntry{operation: "retire", request: request, subject: out.subject, answer: out.answer}
		last := &steps[len(steps)-1]
		last.keyRow, last.key = row, e.record(ap.now().Add(ap.cfg.keyLife()))
	}
	if err := ap.promise(k.Domain, steps, done.done); err != nil {
		return nil, nil, err
	}
	ap.converge(false)
	return out.answer, nil, nil
}

// retire does the part of a step that retires instances: those that have not been replaced since the request.
func (t *tx) retire(all []retired) {
	for _, x := range all {
		if o := t.b.services.Index(x.key).Ordinary; o != nil && o.Instance == x.instance && !t.b.leftOut(IndexRow(x.key)) {
			t.try(x.key, lrp.Retire{})
		}
	}
}

// retirable lists the wanted indices that have an ordinary row.
func (b *rows) retirable(s *lrp.Service, indices []int) []retired {
	chosen := map[int]bool{}
	for _, i := range indices {
		chosen[i] = true
	}
	var out []retired
	for i := range s.Versions {
		v := &s.Versions[i]
		for n := v.Low; n < v.High; n++ {
			key := lrp.Key{Process: v.Process, Index: n}
			o := b.services.Index(key).Ordinary
			if (indices == nil || chosen[n]) && o != nil && !b.services.Quarantined(key) {
				out = append(out, retired{key, o.Instance})
			}
		}
	}
	return out
}
