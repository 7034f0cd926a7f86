package batch

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cantina/resource"
)

// Why is one reason why a batch task does not run.
type Why struct {
	Class Class
	// Level and Node are where something is short or switched off.
	Level, Node string
	// Short is the missing resource.
	Short resource.Missing
	// Holders are batch tasks that draw on it, at most ten, those with the largest draw first.
	Holders []Key
	Text    string
	// Change is the smallest change that would take this reason away.
	Change string
	// Longest is how long it lasts at most; 0 = no bound known.
	Longest time.Duration
}

// String returns the reason and the change.
func (w Why) String() string {
	if w.Change == "" {
		return w.Text
	}
	return w.Text + "; " + w.Change
}

// Explain returns why a batch task is in its state: every reason that keeps it from starting, none
// if it may start now. Reason is that of its last end, which the board does not hold; empty =
// unknown. now (Unix ms) is the time for backoffs, because the board gets the time only when a
// task is due. It returns ErrUnknownJob or ErrUnknownNode.
func (b *Board) Explain(k Key, reason string, now int64) ([]Why, error) {
	j, n, err := b.jobs.lookup(k)
	if err != nil {
		return nil, err
	}
	x := j.record(n)
	var out []Why
	say := func(w Why) {
		w.Class = x.class
		out = append(out, w)
	}
	if x.class != ClassDone && x.class != ClassFailed && x.class != ClassRunning {
		b.explainSwitches(j, say)
	}
	switch x.class {
	case ClassAbsent:
		say(Why{Text: "node not found"})
	case ClassRunning:
		r := b.runs.byKey[k]
		say(Why{Text: fmt.Sprintf("running on cell %s as %s", r.cell, r.inv)})
	case ClassDone:
		say(Why{Text: "ended: done"})
	case ClassFailed, ClassBackoff:
		say(b.explainEnd(j, n, reason, now))
	case ClassBlocked, ClassStranded:
		b.explainDependencies(j, n, say)
	case ClassAvoided, ClassDisabled:
		b.jobs.explainPlaces(j, n, say)
	case ClassReady:
		if b.terms.unpack(x).Paced() {
			say(Why{Text: endedIncomplete + ": it runs again as soon as there is room"})
		}
		b.explainRoom(j, n, say)
	}
	return out, nil
}

// WaitsForRemoved begins the reason of a node on which a removed job of the same name has not ended.
const WaitsForRemoved = "waits for the removed job of this name"

// explainSwitches returns the settings that keep all nodes of a job from starting, with their
// origin.
func (b *Board) explainSwitches(j *job, say func(Why)) {
	if b.f.spec.Disabled {
		say(Why{Text: "the nodes are disabled"})
	}
	for _, p := range slices.Concat(j.Errors, j.problems) {
		say(Why{Text: "the job is invalid: " + p})
	}
	if j.Disabled {
		say(Why{Text: "the job is disabled", Change: "enable it in its file and apply it"})
	}
	if j.Paused {
		say(Why{Text: "the job is paused", Change: "cantina job resume " + quoted(j.Name)})
	}
	if j.gate.Text != "" {
		say(Why{Text: "the job comes " + j.gate.Text, Change: j.gate.Change})
	}
}

// explainEnd describes how a node's last run ended, and how to run it again.
func (b *Board) explainEnd(j *job, n int32, reason string, now int64) Why {
	x := j.record(n)
	w := Why{Text: "failed", Change: "cantina job retry " + quoted(j.Name) + " --node " +
		quoted(b.f.names[j.level].list[n])}
	s := b.terms.unpack(x)
	if x.class == ClassBackoff {
		left := max(0, time.Duration(b.clock.dueAt(x)-max(b.clock.now,
			now))*time.Millisecond+time.Second-1).Truncate(time.Second)
		switch {
		case s.Paced():
			return Why{Text: fmt.Sprintf("%s after less than %ds: it runs again in %v", endedIncomplete, pace, left),
				Longest: left}
		case s.Bits&Incomplete != 0:
			w.Text = fmt.Sprintf("%s: waits %v more", endedIncomplete, left)
		default:
			w.Text = fmt.Sprintf("retry in %v after a failed attempt", left)
		}
	}
	if how := s.ending(reason); how != "" {
		w.Text += ": " + how
	}
	return w
}

const endedIncomplete = "its last run ended incomplete"

// ending describes how the last run ended; reason may contain the same already.
func (s Status) ending(reason string) string {
	how := ""
	switch {
	case s.Signal != 0:
		how = fmt.Sprintf("signal %d", s.Signal)
	case s.ExitCode < 0 && reason != "": // no program ran
	case s.ExitCode != 0:
		how = fmt.Sprintf("exit code %d", s.ExitCode)
	case reason == "" && s.Bits&Overwriteable == 0:
		how = s.Bits.reported() // else the end is no error
	}
	switch {
	case reason == "":
		return how
	case strings.Contains(reason, how) || s.Signal == 0 &&
		strings.Contains(reason, fmt.Sprintf("exit status %d", s.ExitCode)):
		return reason
	}
	return how + ": " + reason
}

// quoted is a name as a shell reads it.
func quoted(name string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+=,", r)
	}
	if name != "" && strings.IndexFunc(name, func(r rune) bool { return !plain(r) }) < 0 {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

// named is how many nodes of a kind ExplainJob names.
const named = 5

// ExplainJob returns why a job as a whole is not done: its settings, up to five nodes that failed
// or wait after an error, up to five that other jobs block, and the missing resources of the first
// ready node. reason gives the reason of a node's last end, which the board does not hold; now is
// as in Explain. It returns ErrUnknownJob.
func (b *Board) ExplainJob(name string, reason func(node string) string, now int64) ([]Why, error) {
	j := b.jobs.named[name]
	if j == nil {
		return nil, fmt.Errorf("job %q: %w", name, ErrUnknownJob)
	}
	var out []Why
	of := func(n int32) func(Why) {
		return func(w Why) {
			w.Class = j.record(n).class
			w.Text = b.f.names[j.level].list[n] + ": " + w.Text
			out = append(out, w)
		}
	}
	c := j.counts
	if c[ClassReady]+c[ClassBackoff]+c[ClassBlocked]+c[ClassStranded] > 0 || len(j.Errors)+len(j.problems) > 0 {
		b.explainSwitches(j, func(w Why) { out = append(out, w) })
	}
	for _, n := range j.first(named, ClassFailed, ClassBackoff) {
		of(n)(b.explainEnd(j, n, reason(b.f.names[j.level].list[n]), now))
	}
	if more := c[ClassFailed] + c[ClassBackoff] - named; more > 0 {
		out = append(out, Why{Text: fmt.Sprintf("%d more nodes failed or wait for a retry", more),
			Change: "cantina job retry " + quoted(name)})
	}
	for _, n := range j.first(named, ClassStranded, ClassBlocked) {
		b.explainDependencies(j, n, of(n))
	}
	if more := c[ClassStranded] + c[ClassBlocked] - named; more > 0 {
		out = append(out, Why{Text: fmt.Sprintf("%d more nodes are blocked", more)})
	}
	for _, n := range j.first(1, ClassReady) {
		if j.blocked == "" { // else Progress has it, for all nodes
			b.explainRoom(j, n, of(n))
		}
	}
	return out, nil
}

// first returns up to limit nodes of the classes, the classes in order, within one in
// the order of the nodes' numbers.
func (j *job) first(limit int, classes ...Class) []int32 {
	var out []int32
	for _, c := range classes {
		left := min(limit-len(out), j.counts[c])
		for i := 0; i < len(j.records) && left > 0; i++ {
			if j.records[i].class == c {
				out = append(out, int32(i))
				left--
			}
		}
	}
	return out
}

func (b *Board) explainDependencies(j *job, n int32, say func(Why)) {
	node := b.f.names[j.level].list[n]
	if r := b.runs.byKey[Key{j.Name, node}]; r != nil {
		say(Why{Text: fmt.Sprintf("%s, which runs on cell %s as %s", WaitsForRemoved, r.cell, r.inv)})
	}
	for _, name := range j.DependsOn {
		d := b.jobs.named[name]
		switch {
		case d == nil:
			say(Why{Text: fmt.Sprintf("blocked by %s/%s: depends on job %q, which does not exist", name, node, name),
				Change: "apply job " + quoted(name) + " again, or remove it from depends_on"})
		case b.jobs.doneOn(d, j, n):
		case b.jobs.hopelessOn(d, j, n, &search{}):
			w := b.explainHopeless(d, j, n)
			w.Text = fmt.Sprintf("blocked by %s/%s: depends on job %q, which %s", name, node, name, w.Text)
			say(w)
		default:
			text := fmt.Sprintf("blocked by %s/%s: depends on job %q, which is not done on this node", name, node, name)
			if word := d.held(); word != "" {
				text += ": it is " + word
			}
			say(Why{Text: text})
		}
	}
}

// explainHopeless returns why a job that another one depends on will not be done on a node, down
// to the one that failed. through are the jobs on the way to it.
func (b *Board) explainHopeless(d, j *job, n int32, through ...*job) Why {
	node := b.f.names[j.level].list[n]
	at, ok := b.jobs.twin(d, j, n)
	switch {
	case !ok || d.records[at].flags&flagPlaced == 0:
		return Why{Text: "has no such node"}
	case d.records[at].bits&Failed != 0:
		w := b.explainEnd(d, at, "", b.clock.now)
		w.Text = "failed on this node" + strings.TrimPrefix(w.Text, "failed")
		return w
	case d.records[at].flags&flagAvoided != 0:
		return Why{Text: "does not run on this node: excluded by its filters"}
	case len(d.Errors)+len(d.problems) > 0:
		return Why{Text: "is invalid: " + strings.Join(slices.Concat(d.Errors, d.problems), "; ")}
	}
	if d.gate.Never {
		return Why{Text: "comes " + d.gate.Text, Change: d.gate.Change}
	}
	for _, name := range d.DependsOn {
		next := b.jobs.named[name]
		switch {
		case next == nil:
			return Why{Text: fmt.Sprintf("depends on job %q, which does not exist", name), Change: "apply job " + quoted(name) +
				" again, or remove it from depends_on"}
		case b.jobs.hopelessOn(next, d, at, &search{}):
			if slices.Contains(through, next) {
				return Why{Text: fmt.Sprintf("depends on job %q: %s", name, inCircle), Change: "remove " + quoted(name) +
					" from depends_on of job " + quoted(d.Name)}
			}
			w := b.explainHopeless(next, d, at, append(slices.Clip(through), d)...)
			w.Text = fmt.Sprintf("is blocked by %s/%s: depends on job %q, which %s", name, node, name, w.Text)
			return w
		}
	}
	return Why{Text: "can never run there"}
}

// explainPlaces names the switch or filter on every path of the node.
func (js *jobs) explainPlaces(j *job, n int32, say func(Why)) {
	js.f.placesOf(j.level, n, func(p int32) {
		for q, level := p, j.level; q >= 0; q, level = js.f.places[q].parent, level-1 {
			at := &js.f.places[q]
			name := js.f.names[level].list[at.name]
			if !at.own {
				say(Why{Level: js.f.levels[level], Node: name,
					Text: fmt.Sprintf("node %s on level %s is disabled", name, js.f.levels[level])})
			}
			if !j.filters[level].pass(name, js.f.tags[q]) {
				say(Why{Level: js.f.levels[level], Node: name,
					Text: fmt.Sprintf("the job's filter on level %s excludes node %s", js.f.levels[level], name)})
			}
		}
	})
}

// explainRoom names the resources that are short on every path of the node, and the shell's last
// refusal.
func (b *Board) explainRoom(j *job, n int32, say func(Why)) {
	if j.blocked != "" {
		say(Why{Text: j.blocked})
	}
	b.f.placesOf(j.level, n, func(p int32) {
		for q, level := p, j.level; q >= 0; q, level = b.f.places[q].parent, level-1 {
			if t := j.shut[q]; t != "" {
				say(Why{Level: b.f.levels[level], Node: b.f.names[level].list[b.f.places[q].name], Text: t})
			}
			b.explainNode(j, level, b.f.places[q].name, say)
			b.reservation.explainKept(j, level, b.f.places[q].name, say)
		}
	})
}

func (b *Board) explainNode(j *job, level int, node int32, say func(Why)) {
	need := j.needs[level]
	for i, x := range need {
		left := b.f.limits[level][i] - b.f.used[level][int(node)*len(need)+i]
		if x == 0 || x <= left {
			continue
		}
		name := b.f.names[level].list[node]
		w := Why{Level: b.f.levels[level], Node: name,
			Short: resource.Missing{Name: b.f.resources[level][i], Need: x, Have: left}}
		w.Text = fmt.Sprintf("%s %s: %s", w.Level, name, w.Short)
		holders, ends := b.runs.holders(level, node, i, x-left)
		w.Holders = holders[:min(len(holders), maxHolders)]
		raise := fmt.Sprintf("raise the limit of %s on level %s to %d", w.Short.Name, w.Level, x+b.f.limits[level][i]-left)
		switch {
		case x > b.f.limits[level][i]:
			w.Change = fmt.Sprintf("raise the limit of %s on level %s to %d, or let the job take less", w.Short.Name, w.Level, x)
		case len(holders) == 0:
			w.Change = raise
		case ends == 1:
			w.Change = "it starts when one of them ends; to start it now: " + raise
		default:
			w.Change = fmt.Sprintf("it starts when %d of them have ended; to start it now: %s", ends, raise)
		}
		if len(holders) > 0 {
			keys := make([]string, len(w.Holders))
			for k, h := range w.Holders {
				keys[k] = h.Job + "/" + h.Node
			}
			w.Text += ", held by " + strings.Join(keys, ", ")
			if more := len(holders) - len(w.Holders); more > 0 {
				w.Text += fmt.Sprintf(" and %d more", more)
			}
			if k := b.reservation.kept; k != nil && k.job == j &&
				slices.ContainsFunc(k.draws, func(d draw) bool { return d.level == level && d.node == node }) {
				w.Change = "room is reserved for it: it starts when enough of them have ended"
			}
		}
		say(w)
	}
}
