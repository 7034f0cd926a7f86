package worker

import (
	"flag"
	"hash/maphash"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The exhaustive search: every state that the choices of moves reach from two healthy cells
// within a budget is visited once, and no task is ever alive twice.

// search visits the states. The workers share the fields that follow mu.
type search struct {
	world
	seeds [2]maphash.Seed
	limit int // of states; 0 = none
	// calms: one of so many states is let go on without faults; 0 = none.
	calms uint64
	deep  bool

	seen [64]struct {
		mu   sync.Mutex
		keys map[stateKey]struct{}
	}
	states atomic.Int64
	stop   atomic.Bool

	mu       sync.Mutex
	more     *sync.Cond
	frontier []*node
	busy     int
	ways     int
	lost     int
	found    string
}

func newSearch(t testing.TB) *search {
	s := &search{world: world{t: t}, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	s.more = sync.NewCond(&s.mu)
	for i := range s.seen {
		s.seen[i].keys = map[stateKey]struct{}{}
	}
	return s
}

// first reports that a state is seen for the first time.
func (s *search) first(k stateKey) bool {
	shard := &s.seen[k[0]%64]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if _, ok := shard.keys[k]; ok {
		return false
	}
	shard.keys[k] = struct{}{}
	s.states.Add(1)
	return true
}

// take returns a state to visit, or nil when none is left. One worker goes breadth first, so that its findings are
// short; deep keeps few states in memory.
func (s *search) take() *node {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.frontier) == 0 && s.busy > 0 && !s.stop.Load() {
		s.more.Wait()
	}
	if len(s.frontier) == 0 || s.stop.Load() {
		s.more.Broadcast()
		return nil
	}
	s.busy++
	at := 0
	if s.deep {
		at = len(s.frontier) - 1
	}
	n := s.frontier[at]
	s.frontier[at] = nil
	if s.deep {
		s.frontier = s.frontier[:at]
	} else {
		s.frontier = s.frontier[1:]
	}
	return n
}

// give takes the successors of a state.
func (s *search) give(fresh []*node, ways int, fault string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	s.ways += ways
	s.frontier = append(s.frontier, fresh...)
	if fault != "" && s.found == "" {
		s.found = fault
	}
	if s.found != "" || s.limit > 0 && int(s.states.Load()) >= s.limit {
		s.stop.Store(true)
	}
	s.more.Broadcast()
}

func (s *search) work() {
	k := &keys{seeds: s.seeds}
	var fresh []*node
	ways, fault := 0, ""
	mv := &moves{world: s.world}
	mv.emit = func(c *node) {
		ways++
		why := c.err
		if why == "" {
			key := k.of(c)
			if !s.first(key) {
				return
			}
			fresh = append(fresh, c)
			if s.calms > 0 && key[1]%s.calms == 0 {
				why = s.calm(c)
			}
		}
		if why != "" && fault == "" {
			fault = why + c.path.String()
		}
	}
	for n := s.take(); n != nil; n = s.take() {
		fresh, ways, fault = nil, 0, ""
		mv.expand(n)
		s.give(fresh, ways, fault)
	}
	s.mu.Lock()
	s.lost += mv.lost
	s.mu.Unlock()
}

// run searches until nothing is left, a fault is found, or the limit of states is reached.
func (s *search) run(b budget, workers int) (whole bool) {
	s.deep = workers > 1
	root := s.start(b)
	s.first((&keys{seeds: s.seeds}).of(root))
	s.frontier = []*node{root}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(s.work)
	}
	wg.Wait()
	return !s.stop.Load()
}

// soakBudgets are visited whole in the long form.
var soakBudgets = []budget{
	{lose: 1, calls: 1}, {twice: 1, calls: 1, kill: 1}, {restart: 1, calls: 2}, {restart: 1, calls: 1, lose: 1},
	{late: 1, restart: 1, lose: 1},
	{time: 1}, {pause: 1, time: 1}, {restart: 1, time: 1},
	{tasks: 2, lose: 1}, {tasks: 2, twice: 1}, {tasks: 2, calls: 1}, {tasks: 2, restart: 1},
	{tasks: 2, restart: 1, calls: 1},
}

// budgetFlag is how the search for planted mistakes (sim/mistake) asks for one of the budgets.
var budgetFlag = flag.String("budget", "",
	"TestSearch: up to 10,000 states within this budget alone, such as `calls 1, pause 1`")

// TestSearch visits every state within small budgets, in the long form within larger ones, each whole.
func TestSearch(t *testing.T) {
	limit, calms, workers := 2500, uint64(1), 1
	budgets := []budget{{lose: 1, calls: 1}, {twice: 1}, {restart: 1}, {tasks: 2, twice: 1}, {tasks: 2, restart: 1},
		{time: 1}}
	if os.Getenv("CANTINA_SOAK") != "" {
		limit, calms, workers, budgets = 0, 64, runtime.GOMAXPROCS(0), soakBudgets
		defer debug.SetGCPercent(debug.SetGCPercent(400))
	}
	if *budgetFlag != "" {
		b, err := parseBudget(*budgetFlag)
		if err != nil {
			t.Fatal(err)
		}
		limit, calms, budgets = 10_000, 0, []budget{b}
	}
	all, began := int64(0), time.Now()
	for _, b := range budgets {
		t.Run(b.String(), func(t *testing.T) {
			s := newSearch(t)
			s.limit, s.calms = limit, calms
			began := time.Now()
			whole := s.run(b, workers)
			t.Logf("%d states, %d ways between them (of %d one message of five is lost), in %v, whole %v", s.states.Load(),
				s.ways,
				s.lost, time.Since(began).Round(time.Millisecond), whole)
			all += s.states.Load()
			if s.found != "" {
				t.Error(s.found)
			}
			if !whole && limit == 0 {
				t.Error("not whole")
			}
		})
	}
	t.Logf("%d states in %v", all, time.Since(began).Round(time.Millisecond))
}

// TestSearchFindsLostRuns: where effects get lost each time they are asked for, the search finds a
// task that never comes right.
func TestSearchFindsLostRuns(t *testing.T) {
	for name, c := range map[string]struct {
		never func(Effect) bool
		b     budget
	}{
		"no notify":          {func(e Effect) bool { _, ok := e.(SendNotify); return ok }, budget{lose: 1}},
		"the end is lost":    {func(e Effect) bool { _, ok := e.(Ended); return ok }, budget{kill: 1}},
		"the call goes lost": {func(e Effect) bool { r, ok := e.(SendRun); return ok && r.Call.Probe == 0 }, budget{}},
	} {
		s := newSearch(t)
		s.never, s.calms, s.limit = c.never, 1, 10_000
		s.run(c.b, 1)
		if !strings.Contains(s.found, "does not run") {
			t.Errorf("%s: not found in %d states: %q", name, s.states.Load(), s.found)
		}
	}
}
