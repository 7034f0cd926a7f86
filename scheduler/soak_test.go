package scheduler

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"cantina/batch"
	"cantina/worker"
)

// TestRandomTerms drives scheduler after scheduler over one store. Commits land late or, at the end of a term,
// never. Ends are real, synthetic, doubled or late. The cells are the truth about runs. After each term a model of
// the acknowledged changes is compared: nothing acknowledged is lost, nothing runs twice, and in the end everything
// is done.
func TestRandomTerms(t *testing.T) {
	seeds := uint64(12)
	if os.Getenv("CANTINA_SOAK") != "" {
		seeds = 1000
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomTerms(t, seed) })
		})
	}
}

func randomTerms(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	st := newFakeStore()
	var running []worker.RunView
	done := make(map[string]bool) // acknowledged as done
	hosts := map[string][]string{}
	for h := range 3 {
		for d := range 8 {
			hosts[fmt.Sprint("h", h)] = append(hosts[fmt.Sprint("h", h)], fmt.Sprint("d", h, d))
		}
	}
	for term := int64(1); term <= 6; term++ {
		r := begin(t, st, term, running...)
		r.scripts.out = nil
		r.cell("c1", 4)
		r.cell("c2", 3)
		w := testJob("j", hosts)
		w.Job.Retries, w.Job.Backoff = -1, batch.Backoff{Seconds: []int{1}, Repeat: true}
		w.Forest.Limits = map[string]map[string]batch.Limit{"host": {"n": {Default: 1, Limit: 2}}}
		r.apply(w)
		st.setManual(true)
		for range 60 {
			r.step(rnd, done)
			synctest.Wait()
			r.checkHosts(2)
		}
		if term == 6 {
			r.toTheEnd(done)
		}
		// The term is over: a commit that has not landed never does.
		running = r.reg.Model()
		r.stop()
		st.mu.Lock()
		st.queue = nil
		st.manual = false
		st.mu.Unlock()
	}
	if len(done) != 24 {
		t.Errorf("%d of 24 done", len(done))
	}
}

// step performs one random action.
func (r *rig) step(rnd *rand.Rand, done map[string]bool) {
	model := r.reg.Model()
	switch k := rnd.IntN(10); {
	case k < 4 && len(model) > 0:
		v := model[rnd.IntN(len(model))]
		e := endOf(v.Run, string(v.Cell), rnd.IntN(3)/2, "")
		switch rnd.IntN(6) {
		case 0:
			r.Ended(worker.Ended{Run: v.Run, Cell: v.Cell, Proc: v.Proc, Kind: worker.NeverStarted, Reason: "refused"})
			return
		case 1:
			r.Ended(worker.Ended{Run: v.Run, Cell: v.Cell, Proc: v.Proc, Kind: worker.Lost, Reason: "gone"})
		}
		r.Ended(e)
		if rnd.IntN(4) == 0 {
			r.Ended(e)
		}
	case k < 8:
		r.store.commit(1 + rnd.IntN(3))
	case k == 8:
		pass(time.Duration(rnd.IntN(1500)) * time.Millisecond)
	default:
		r.StartsChanged()
	}
	r.noteDone(done)
}

// noteDone checks that a done task stays done.
func (r *rig) noteDone(done map[string]bool) {
	nodes, err := r.JobNodes("j", batch.NodeFilter{Classes: []batch.Class{batch.ClassDone}})
	if err != nil {
		r.t.Fatal(err)
	}
	now := make(map[string]bool)
	for _, p := range nodes {
		now[p.Node] = true
	}
	for n := range done {
		if !now[n] {
			r.t.Fatalf("%s was done", n)
		}
	}
	for n := range now {
		done[n] = true
	}
	for _, v := range r.reg.Model() {
		if inv, _ := r.LastApplied(v.Run.Work); done[v.Run.Work.Node] && inv.Compare(v.Run.Invocation) < 0 {
			r.t.Fatalf("%v runs after it was done", v.Run)
		}
	}
}

// checkHosts compares the runs of each host with its limit, and with the scheduler's sums.
func (r *rig) checkHosts(limit int) {
	per := make(map[string]int)
	for _, v := range r.reg.Model() {
		per[v.Run.Work.Node[:2]]++
	}
	for h, n := range per {
		if n > limit {
			r.t.Fatalf("%d tasks draw on host %s, it stands %d: %v", n, h, limit, r.reg.Model())
		}
	}
}

func (r *rig) toTheEnd(done map[string]bool) {
	r.store.setManual(false)
	for round := 0; r.progressOf("j").State != batch.JobDone; round++ {
		if round > 500 {
			r.t.Fatalf("never done: %+v, model %v", r.progressOf("j"), r.reg.Model())
		}
		for _, v := range r.reg.Model() {
			r.Ended(endOf(v.Run, string(v.Cell), 0, ""))
		}
		pass(time.Second)
		r.StartsChanged()
		synctest.Wait()
	}
	r.noteDone(done)
	used := 0
	for _, c := range r.auction.Cells() {
		used += c.Holdings
	}
	r.locked(func() {
		if used != 0 || len(r.ends) != 0 || r.forests["j"].board.Live() != 0 {
			r.t.Errorf("left over: %d holdings, %d ends, %d live", used, len(r.ends), r.forests["j"].board.Live())
		}
	})
}
