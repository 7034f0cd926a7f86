package scheduler

import (
	"slices"
	"time"

	"cantina/batch"
	"cantina/fence"
	"cantina/placement"
	"cantina/worker"
)

// adoptEvery bounds how often the whole model is compared.
const adoptEvery = time.Second

// outdated withdraws a pick if reports have arrived since the model was compared: the reported
// work may draw on the same nodes.
func (ad *adoption) outdated(p *pick) bool {
	if len(p.Draws) == 0 {
		return false
	}
	adopted := ad.cfg.Registry.Adopted()
	ad.mu.Lock()
	defer ad.mu.Unlock()
	if adopted == ad.adopted {
		return false
	}
	ad.unpicked(p, batch.ScopeNode, "reading reports of cells")
	ad.changed = true
	ring(ad.wake)
	return true
}

// adopt compares the registry's model with the boards: reported work counts as running and draws
// on its nodes. It does so whenever reports have changed the model, and regularly if the two
// differ in number, for any reason.
func (ad *adoption) adopt() {
	adopted := ad.cfg.Registry.Adopted()
	ad.mu.Lock()
	now := ad.cfg.Clock.Boot()
	news, due := adopted != ad.adopted, ad.changed && now-ad.compared >= adoptEvery
	known := ad.known()
	ad.mu.Unlock()
	if !news && (!due || ad.cfg.Registry.Live() == known) {
		return
	}
	ad.mu.Lock()
	ad.adopted, ad.compared = adopted, now
	ad.mu.Unlock()
	ad.compare(ad.cfg.Registry.Model, func() {})
}

// known returns how much work the boards know to run.
func (ad *adoption) known() int {
	n := len(ad.unowned) + ad.count()
	for _, also := range ad.former {
		n -= len(also)
	}
	return n
}

// adoptViews adds unknown work to the boards, and returns its needs on its cells.
func (ad *adoption) adoptViews(views []worker.RunView) []placement.Holding {
	var out []placement.Holding
	for _, v := range views {
		k := batch.Key(v.Run.Work)
		if v.Ending || ad.statuses.ends[k] != nil || ad.meanwhile[v.Run.Invocation] {
			continue
		}
		ad.seen(v.Run.Invocation)
		h := placement.Holding{Hold: holdID(k), Cell: string(v.Cell), Kind: placement.KindBatch}
		b := ad.boardOf(k)
		if b == nil {
			if ad.unowned[k] == v.Run.Invocation {
				continue
			}
			ad.unowned[k] = v.Run.Invocation
		} else {

			if inv, _, ok := b.Running(k); ok && inv == v.Run.Invocation || b.Picked(k) {
				continue
			}
			b.Adopt(k, v.Run.Invocation, string(v.Cell))
			h.Need = b.CellNeeds(k.Job)
		}
		ad.shadow(ad.jobs[k.Job], v.Run.Invocation)
		if h.Cell != "" {
			out = append(out, h)
		}
	}
	return out
}

// shadow records adopted work of an earlier life of its job: its draws are unknown.
func (ad *adoption) shadow(j *job, inv fence.Invocation) {
	switch {
	case j == nil: // no row has the forest over which it ran
	case j.row.deleted:
		ad.shadows[inv] = append([]string{j.row.spec.Forest}, j.row.former...)
	case inv.Compare(j.row.born) <= 0 && len(j.row.former) > 0 && ad.former[inv] == nil:
		ad.shadows[inv] = j.row.former
	}
}

func (ad *adoption) holdAll(holds []placement.Holding) {
	for _, h := range holds {
		if err := ad.cfg.Auctioneer.Hold(h); err != nil {
			ad.cfg.Log.Warn("adopted batch task is allocated on another cell", "hold", h.Hold, "cell", h.Cell, "error", err)
		}
	}
}

// compare reads the model, and adds unknown work to the boards; first comes before that, under the
// lock. Work that ends between the two is no longer running. Work that a row ends is ended, unless
// that was already requested: it was reported before its name was created again.
func (ad *adoption) compare(read func() []worker.RunView, first func()) {
	ad.mu.Lock()
	ad.meanwhile = make(map[fence.Invocation]bool)
	ad.mu.Unlock()
	views := read()
	ad.mu.Lock()
	first()
	holds := ad.adoptViews(views)
	kills := ad.condemned(views)
	ad.meanwhile = nil
	ad.mu.Unlock()
	ad.holdAll(holds)
	for _, r := range kills {
		ad.cfg.Registry.Kill(r)
	}
}

// condemned returns the work that rows end, and that is still in the model.
func (ad *adoption) condemned(views []worker.RunView) []worker.Run {
	var out []worker.Run
	for _, v := range views {
		if !v.Ending && !v.Kill && !ad.meanwhile[v.Run.Invocation] && ad.killStored(v.Run) {
			out = append(out, v.Run)
		}
	}
	return out
}

// shadowing reports whether unaccounted work may use nodes of any forest.
func (ad *adoption) shadowing() bool {
	ad.mu.Lock()
	defer ad.mu.Unlock()
	return len(ad.shadows) > 0
}

// shadowed withdraws a pick whose nodes may be in use by unaccounted work.
func (ad *adoption) shadowed(p *pick) bool {
	if len(p.Draws) == 0 {
		return false
	}
	ad.mu.Lock()
	defer ad.mu.Unlock()
	for _, forests := range ad.shadows {
		if slices.Contains(forests, p.spec.Forest) {
			ad.unpicked(p, batch.ScopeJob, "batch tasks of a removed or replaced job may still use its nodes")
			return true
		}
	}
	return false
}
