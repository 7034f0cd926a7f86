package batch_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"cantina/action"
	"cantina/batch"
	"cantina/fence"
	"cantina/internal/draw"
	"cantina/internal/history"
	"cantina/resource"
)

// generator prints the decisions of a board of jobs in a random history.
type generator struct {
	t       *testing.T
	rng     *rand.Rand
	out     strings.Builder
	b       *batch.Board
	now     int64
	counter int64
	mark    uint32
	nodes   []batch.NodeSpec
}

// TestHistories compares all starts, stored rows and explanations of a board with a stored text.
func TestHistories(t *testing.T) {
	occupy := history.Open(t, "testdata/histories.txt")
	for n := range 60 {
		w := &generator{t: t, rng: rand.New(rand.NewPCG(uint64(n), 9)), now: 1_000_000}
		var err error
		if w.b, err = batch.NewBoard(w.spec()); err != nil {
			t.Fatal(err)
		}
		w.b.Advance(w.now)
		w.plant()
		for _, name := range names() {
			w.put(name)
		}
		for range 90 {
			w.something()
			w.views()
		}
		occupy.Check(t, fmt.Sprintf("jobs-%02d", n), w.out.String())
	}
	for n := range 40 {
		occupy.Check(t, fmt.Sprintf("room-%02d", n), crowd(t, n))
	}
	occupy.Close(t)
}

// crowd is a history of jobs that wait for room: some need much, some little, and time passes.
func crowd(t *testing.T, n int) string {
	w := &generator{t: t, rng: rand.New(rand.NewPCG(uint64(n), 11)), now: 1_000_000}
	spec := func() batch.ForestSpec {
		s := w.spec()
		s.Levels, s.Disabled = []string{"host", "db"}, false
		s.Limits = map[string]map[string]batch.Limit{
			batch.LevelInstance: {"all": {Limit: draw.One(w.rng, 3, 5)}},
			"host": {"slots": {Default: 1, Limit: draw.One(w.rng, 2, 3, 4)},
				"io": {Limit: draw.One(w.rng, 0, 1, 2)}},
			"db": {"a": {Default: w.rng.IntN(2), Limit: 1}},
		}
		return s
	}
	var err error
	if w.b, err = batch.NewBoard(spec()); err != nil {
		t.Fatal(err)
	}
	w.b.Advance(w.now)
	w.plant()
	jobs := []string{"copy", "index", "prune", "rest"}
	put := func(name string) {
		j := batch.Job{Name: name, UID: fmt.Sprint(name, w.rng.IntN(9)/8), Retries: -1,
			Level: draw.One(w.rng, "", "", "", "", "host", batch.LevelInstance), Paused: w.rng.IntN(12) == 0,
			HostLevel: draw.One(w.rng, "", "", "host"), Backoff: batch.Backoff{Seconds: []int{1}, Repeat: true},
			Resources: map[string]resource.Amounts{"host": {"slots": draw.One(w.rng, 0, 1, 1, 2, 2, 3),
				"io": draw.One(w.rng, 0, 0, 0, 1, 2)}, batch.LevelInstance: {"all": draw.One(w.rng, 0, 0, 0, 1, 3)}},
			Filters: draw.One(w.rng, nil, nil, nil, map[string]batch.Filter{"db": {Blacklist: []string{"d1", "d2"}}})}
		if j.Level == "host" || j.Level == batch.LevelInstance {
			j.HostLevel = ""
		}
		w.printf("put %+v: %q", j, w.b.Put(j))
	}
	for _, name := range jobs {
		put(name)
	}
	for range 120 {
		switch w.rng.IntN(24) {
		case 0:
			put(draw.One(w.rng, jobs...))
		case 1:
			switch w.rng.IntN(4) {
			case 0:
				w.plant()
			case 1:
				w.printf("configured: %v", w.b.Configure(spec()))
			case 2:
				w.b.Delete(draw.One(w.rng, jobs...))
			}
		case 2:
			w.b.Unblock()
		case 3:
			us, _ := w.b.Reset(draw.One(w.rng, jobs...))
			for _, u := range us {
				w.apply(u)
			}
		case 4:
			_, err := w.b.Load(batch.Key{Job: draw.One(w.rng, jobs...), Node: w.key().Node},
				batch.Status{Bits: batch.Done, Time: w.now, Invocation: w.inv()}, 7)
			w.printf("loaded: %v", err)
		case 5, 6, 7, 8, 9:
			w.now += int64(draw.One(w.rng, 1, 1000, 5000, 15_000, 30_000, 29_999))
			w.b.Advance(w.now)
		case 10, 11, 12, 13, 14, 15, 16:
			w.end()
		default:
			w.start()
		}
		for _, name := range jobs {
			why, err := w.b.ExplainJob(name, func(string) string { return "" }, w.now)
			w.why(why, err)
		}
	}
	return w.out.String()
}

func names() []string { return []string{"copy", "index", "prune"} }

func (w *generator) printf(format string, args ...any) { fmt.Fprintf(&w.out, format+"\n", args...) }

func (w *generator) spec() batch.ForestSpec {
	return batch.ForestSpec{
		Name: "f", Levels: draw.One(w.rng, []string{"host", "db"}, []string{"host", "db"}, []string{"db"}),
		Instance:  draw.One(w.rng, "", "root"),
		Order:     draw.One(w.rng, batch.OrderRandom, batch.OrderOriginal, batch.OrderLexicographic),
		Backwards: w.rng.IntN(4) == 0, Disabled: w.rng.IntN(12) == 0,
		Limits: map[string]map[string]batch.Limit{
			batch.LevelInstance: {"all": {Default: 1, Limit: draw.One(w.rng, 3, 6, 9)}},
			"db":                {"a": {Default: 1, Limit: draw.One(w.rng, 1, 2)}, "b": {Limit: 1}},
			batch.LevelWorker:   {"cpu": {Default: 1}},
		},
	}
}

// plant draws nodes for the levels that there are.
func (w *generator) plant() {
	var specs []batch.NodeSpec
	off := func() bool { return w.rng.IntN(9) == 0 }
	tags := func() []string { return draw.One(w.rng, nil, []string{"ssd"}, []string{"ssd", "old"}) }
	parents := []string{""}
	if len(w.b.Spec().Levels) == 2 {
		parents = nil
		for h := range 1 + w.rng.IntN(3) {
			host := fmt.Sprint("h", h)
			parents = append(parents, host)
			specs = append(specs, batch.NodeSpec{Name: host, Level: "host", Disabled: off(), Tags: tags()})
		}
	}
	for _, p := range parents {
		for range w.rng.IntN(6) {
			specs = append(specs, batch.NodeSpec{Name: fmt.Sprint("d", w.rng.IntN(9)), Level: "db", Parent: p, Disabled: off(),
				Tags: tags()})
		}
	}
	w.nodes = specs
	w.printf("nodes %+v: %v", specs, w.b.SetNodes(specs))
}

func (w *generator) job(name string) batch.Job {
	j := batch.Job{
		Name: name, UID: fmt.Sprint(name, w.rng.IntN(7)/6), Domain: "d", Disabled: w.rng.IntN(12) == 0,
		Paused: w.rng.IntN(12) == 0, Level: draw.One(w.rng, "", "", "", "", "db", "host"),
		HostLevel: draw.One(w.rng, "", "", "host", "db"), Host: draw.One(w.rng, "", "", "", "m1"),
		Retries: draw.One(w.rng, -1, 0, 1, 3),
		Backoff: draw.One(w.rng, batch.Backoff{}, batch.Backoff{Fail: true},
			batch.Backoff{Seconds: []int{1, 3}, Repeat: true}, batch.Backoff{Seconds: []int{2}}),
		Resources: draw.One(w.rng, nil, map[string]resource.Amounts{"db": {"a": 1, "b": 1}},
			map[string]resource.Amounts{batch.LevelInstance: {"all": 3}, "worker": {"cpu": 2, "mem": 3}},
			map[string]resource.Amounts{"db": {"a": 2}}, map[string]resource.Amounts{"db": {"a": 0}},
			map[string]resource.Amounts{batch.LevelInstance: {"all": 0}}),
		Filters: draw.One(w.rng, nil, nil, map[string]batch.Filter{"db": {Blacklist: []string{"d1", "d2"}}},
			map[string]batch.Filter{"db": {TagWhitelist: []string{"ssd"}}, "host": {WhitelistRegex: "[01]"}},
			map[string]batch.Filter{"db": {Fraction: 0.5, BlacklistRegex: "7$"}},
			map[string]batch.Filter{"worker": {Whitelist: []string{"x"}}}),
		DependsOn: draw.One(w.rng, nil, nil, nil, []string{"copy"}, []string{"index"}, []string{"copy", "prune"},
			[]string{"nothing"}),
		Errors: draw.One(w.rng, nil, nil, nil, nil, nil, nil, nil, nil, nil, []string{"bad"}),
	}
	switch w.rng.IntN(30) { // invalid changes
	case 0:
		j.Level, j.HostLevel = "shelf", "rack"
	case 1:
		j.Resources = map[string]resource.Amounts{"db": {"a": -1, "x": 1}, "rack": {"a": 1}}
	case 2:
		j.Filters = map[string]batch.Filter{"db": {WhitelistRegex: "("}, "rack": {}}
	case 3:
		j.Backoff, j.DependsOn = batch.Backoff{Seconds: []int{2, 2}}, []string{name}
	}
	if len(j.DependsOn) == 1 && j.DependsOn[0] == name {
		j.DependsOn = nil
	}
	j.Workload.Action.Run = &action.Run{Path: "/bin/true", Args: []string{"{}", "{/}"}}
	j.Call = draw.One(w.rng, batch.CallTemplate, batch.CallTemplate, batch.CallBistro)
	return j
}

func (w *generator) put(name string) {
	j := w.job(name)
	problems := w.b.Put(j)
	j.Workload = action.Workload{} // has addresses
	w.printf("put %+v: %q", j, problems)
}

func (w *generator) inv() fence.Invocation {
	w.counter++
	return fence.Invocation{Term: fence.Term{Epoch: 1, Revision: 1 + w.counter/50}, Counter: w.counter}
}

func (w *generator) key() batch.Key {
	return batch.Key{Job: draw.One(w.rng, append(names(), "nothing")...),
		Node: draw.One(w.rng, "d0", "d1", "d2", "d3", "d4", "d5", "d8", "h0", "h1", "root")}
}

func (w *generator) report() batch.Report {
	texts := []string{"", "done", `{"result_bits":4}`, `{"result_bits":8}`, `{"result_bits":72,"data":{"a":1}}`,
		`{"result_bits":96}`, `{"result_bits":16}`, `{"result_bits":608}`, "incomplete", "error_backoff", "{", "failed"}
	switch w.rng.IntN(12) {
	case 0:
		return batch.NeverStarted("no room")
	case 1, 2:
		return batch.LostReport("cell lost")
	}
	e := batch.Ended{ExitCode: draw.One(w.rng, 0, 0, 0, 1, -1), Signal: draw.One(w.rng, 0, 0, 0, 9),
		Killed: w.rng.IntN(9) == 0, TimedOut: w.rng.IntN(9) == 0,
		Reason: draw.One(w.rng, "", "", "", "exit status 1", "no disk"),
		Again:  draw.One(w.rng, batch.AgainNot, batch.AgainNot, batch.AgainNot, batch.AgainNow, batch.AgainLater)}
	return batch.Judge(e, []byte(draw.One(w.rng, texts...)), w.rng.IntN(5) == 0)
}

// something happens.
func (w *generator) something() {
	switch w.rng.IntN(40) {
	case 0:
		w.plant()
	case 1, 2:
		w.put(draw.One(w.rng, names()...))
	case 3:
		w.b.Delete(draw.One(w.rng, names()...))
	case 4:
		w.printf("configured: %v", w.b.Configure(w.spec()))
	case 5, 6:
		k, i := w.key(), w.inv()
		w.b.Adopt(k, i, "adopting")
		w.printf("adopted %v %v", k, i)
	case 7:
		w.b.Forget(w.key())
	case 8, 9:
		w.b.Unblock()
	case 10, 11:
		name := draw.One(w.rng, names()...)
		var nodes []string
		if w.rng.IntN(2) == 0 {
			nodes = []string{w.key().Node, w.key().Node}
		}
		us, err := w.b.Retry(name, nodes...)
		if w.rng.IntN(2) == 0 {
			us, err = w.b.Reset(name, nodes...)
		}
		w.printf("rewritten %s %v: %v", name, nodes, err)
		for _, u := range us {
			w.apply(u)
		}
	case 12:
		k := w.key()
		_, err := w.b.Load(k, batch.Status{Bits: draw.One(w.rng, batch.Done, batch.Error|batch.UsesBackoff, batch.Failed),
			Time: w.now + int64(w.rng.IntN(3)-1)*5000, Backoff: 3, Attempts: 1, Invocation: w.inv()}, 7)
		w.printf("loaded %v: %v", k, err)
	case 13:
		w.b.SetMark(w.key(), 5)
	case 14, 15, 16, 17, 18:
		w.now += int64(draw.One(w.rng, 1, 999, 1000, 1001, 2000, 3000, 30_000))
		w.b.Advance(w.now)
	case 19, 20, 21:
		if at, ok := w.b.NextDue(); ok {
			w.now = max(w.now, at-int64(w.rng.IntN(2)))
			w.b.Advance(w.now)
		}
	case 22, 23, 24, 25, 26, 27, 28:
		w.start()
	default:
		w.end()
	}
}

func (w *generator) start() {
	for _, s := range w.b.Pick(draw.One(w.rng, 0, 1, 2, 5)) {
		w.printf("picked %+v %v", s, w.b.Picked(s.Key))
		switch w.rng.IntN(9) {
		case 0:
			w.printf("taken back: %v %v", w.b.Unpick(s.Key), w.b.Unpick(s.Key))
		case 1:
			scope := draw.One(w.rng, batch.ScopeJob, batch.ScopeHost, batch.ScopeNode)
			w.printf("refused %v: %v %v", scope, w.b.Refuse(s.Key, scope, draw.One(w.rng, "", "no cell")), w.b.Blocked())
		case 2: // it stays picked
		default:
			i := w.inv()
			j, _, _ := w.b.Job(s.Key.Job)
			prev, _ := w.b.Status(s.Key)
			e, err := batch.Expand(&j, &s, i, batch.Where{Cell: "c", Host: "m"}, prev, []byte(`{"x":1}`))
			w.printf("expands to %q %+v %d: %v", e.Env, e.Program, e.Attempt, err)
			p := e.Payload(&j, s.Key, i)
			w.printf("runs with %v %v; %v %v", p.Labels, p.Resources, w.b.Started(s.Key, i, "c"), w.b.Started(s.Key, i, "c"))
		}
	}
}

func (w *generator) end() {
	runs := w.b.Runs("")
	if len(runs) == 0 {
		return
	}
	r := draw.One(w.rng, runs...)
	i := r.Invocation
	if w.rng.IntN(9) == 0 {
		i.Counter += int64(w.rng.IntN(3) - 1)
	}
	rep := w.report()
	u := w.b.End(r.Key, i, rep, draw.One(w.rng, 0, 0, 5))
	w.printf("ended %v %v: %+v %s", r.Key, i, rep, rep.Data)
	if w.rng.IntN(9) > 0 {
		w.apply(u)
	}
}

func (w *generator) apply(u batch.Update) {
	w.mark++
	u.Mark = w.mark
	w.printf("  stored %v %v %v %+v %s, in place of %d", u.Key, u.UID, u.Store, u.Status, u.Data, w.b.Apply(u))
}

// views prints all that readers see of the jobs.
func (w *generator) views() {
	at, ok := w.b.NextDue()
	w.printf("%d: due %d %v, live %d, blocked %v, touched %v", w.now, at, ok, w.b.Live(), w.b.Blocked(), w.b.Touched())
	name := draw.One(w.rng, names()...)
	p, ok := w.b.Progress(name)
	w.printf(" %s %v %+v ended %v, draws %v, needs %v", name, ok, p, p.State.Ended(), w.b.Draws(name), w.b.CellNeeds(name))
	filter := batch.NodeFilter{Node: draw.One(w.rng, "", "", "", "d1"), Below: draw.One(w.rng, "", "", "", "h0"),
		After: draw.One(w.rng, "", "", "", "d2"), Limit: draw.One(w.rng, 0, 0, 0, 1, 2)}
	filter.Classes = draw.One(w.rng, nil, nil, nil, []batch.Class{batch.ClassReady, batch.ClassAbsent})
	list, err := w.b.Nodes(name, filter)
	if err != nil {
		w.printf(" %v", err)
	}
	for _, n := range list {
		w.printf(" %+v", n)
	}
	why, err := w.b.ExplainJob(name, func(node string) string { return map[string]string{"d1": "exit status 1"}[node] },
		w.now+draw.One(w.rng, 0, 1500, int64(time.Hour/time.Millisecond)))
	w.why(why, err)
	k := w.key()
	why, err = w.b.Explain(k, draw.One(w.rng, "", "", "no disk"), w.now)
	w.printf(" %v, path %v, mark %d, has %v", k, w.b.Path(k), w.b.Mark(k), w.b.HasNode(k))
	w.why(why, err)
}

func (w *generator) why(all []batch.Why, err error) {
	for _, y := range all {
		w.printf("  %s: %s [%s %s %v %v %v]", y.Class, y, y.Level, y.Node, y.Short, y.Holders, y.Longest)
	}
	if err != nil {
		w.printf("  %v", err)
	}
}
