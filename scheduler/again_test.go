package scheduler

import (
	"errors"
	"testing"
	"testing/synctest"

	"cantina/batch"
	"cantina/plan"
)

// scripted is the job of jobWith, whose nodes a script prints.
func scripted(script string) plan.NamedJob {
	w := jobWith(2)
	w.Forest.Sources = []batch.Source{
		{Kind: batch.SourceManual, Manual: []batch.ManualNode{{Name: "h"}}},
		{Kind: batch.SourceScript, ParentLevel: "host", Script: []string{script}},
	}
	return w
}

// disabled is the job of jobWith with one of its nodes disabled.
func disabled(node string, nodes ...string) plan.NamedJob {
	w := jobWith(2, nodes...)
	w.Forest.Sources[0].Manual = append(w.Forest.Sources[0].Manual, batch.ManualNode{Name: node, Disabled: true})
	return w
}

// TestAJobThatIsMadeAgainStartsItsOwnNodes: a job with nodes a and b is made again, in some way, while a still runs.
// Only the nodes of its new definition start, however they are listed.
func TestAJobThatIsMadeAgainStartsItsOwnNodes(t *testing.T) {
	again := map[string]func(r *rig, w plan.NamedJob) *rig{
		"removed": func(r *rig, w plan.NamedJob) *rig {
			r.do(r.Remove("j"))
			r.end("j", "b", 1, "")
			r.apply(w)
			return r
		},
		"removed, and the leader changes": func(r *rig, w plan.NamedJob) *rig {
			r.do(r.Remove("j"))
			r.end("j", "b", 1, "")
			r.stop()
			next := begin(r.t, r.store, 2, r.reg.Model()...)
			next.scripts = r.scripts
			next.cfg.Scripts = r.scripts
			next.cell("c", 9)
			next.apply(w)
			return next
		},
		"renewed": func(r *rig, w plan.NamedJob) *rig {
			r.do(r.Renew("dom", w))
			r.end("j", "b", 1, "")
			return r
		},
	}
	for how, do := range again {
		for what, tc := range map[string]struct {
			next        plan.NamedJob
			first, then string // started before a ends, and after
		}{
			"fewer":    {jobWith(2, "a"), "", "j/a"},
			"disabled": {disabled("b", "a"), "", "j/a"},
			"others":   {jobWith(2, "c"), "j/c", ""},
			"more":     {jobWith(2, "a", "b", "c"), "j/b j/c", "j/a"},
			"a script": {scripted("list"), "j/c", "j/a"},
		} {
			t.Run(how+", "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := begin(t, newFakeStore(), 1)
					r.scripts.set(nil, map[string]string{"list h": "a\nc\n"})
					r.cell("c", 9)
					r.apply(jobWith(2, "a", "b"))
					r.wantStarted("j/a j/b")
					r = do(r, tc.next)
					r.wantStarted(tc.first)
					r.end("j", "a", 1, "")
					r.wantStarted(tc.then)
					r.stop()
				})
			})
		}
	}
}

// TestNothingStartsBeforeNewSourcesWereRead: the sources of a job change, or it is made again with the same. Until
// they could be read nothing starts, and the reason is shown; a change of limits does not hold it up.
func TestNothingStartsBeforeNewSourcesWereRead(t *testing.T) {
	limited := scripted("old")
	limited.Forest.Limits = map[string]map[string]batch.Limit{"host": {"readers": {Default: 1, Limit: 9}}}
	applied := func(w plan.NamedJob) func(r *rig) (*Change, error) {
		return func(r *rig) (*Change, error) { return r.Apply("dom", []plan.NamedJob{w}, plan.Prune{}) }
	}
	for how, tc := range map[string]struct {
		change      func(r *rig) (*Change, error)
		first, then string
	}{
		"other sources": {applied(scripted("new")), "", "j/c"},
		"manual nodes":  {applied(jobWith(2, "c")), "j/c", ""},
		"renewed":       {func(r *rig) (*Change, error) { return r.Renew("dom", scripted("old")) }, "", "j/c"},
		"limits":        {applied(limited), "j/b", "j/c"},
	} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := begin(t, newFakeStore(), 1)
				r.scripts.set(nil, map[string]string{"old h": "a\nb\n"})
				r.cell("c", 1)
				r.apply(scripted("old"))
				r.wantStarted("j/a")
				r.scripts.set(errors.New("no answer"), nil)
				r.do(tc.change(r))
				r.cell("d", 9)
				r.wantStarted(tc.first)
				if why, err := r.Explain("j", ""); tc.first == "" && (err != nil || len(why) == 0 || why[0].Text == "") {
					t.Errorf("explained by %v (%v)", why, err)
				}
				r.scripts.set(nil, map[string]string{"old h": "a\nc\n", "new h": "a\nc\n"})
				pass(r.cfg.NodesRetry)
				r.wantStarted(tc.then)
				r.stop()
			})
		})
	}
}

// TestAJobWithoutSourcesForgetsItsNodes: a change takes the sources away; their nodes do not start any more.
func TestAJobWithoutSourcesForgetsItsNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, newFakeStore(), 1)
		r.cell("c", 1)
		r.apply(jobWith(2, "a", "b"))
		r.wantStarted("j/a")
		none := jobWith(2)
		none.Forest.Sources = nil
		r.apply(none)
		r.cell("d", 9)
		r.wantStarted("")
		r.stop()
	})
}
