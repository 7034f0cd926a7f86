package bbs

import (
	"slices"
	"testing"
	"testing/synctest"

	"cantina/plan"
	"cantina/task"
	"cantina/worker"
)

// TestAppliedTaskIsTheRunThatIsReported: a store that went back does not have the newest run of a task of a spec file,
// and a cell reports its container. When the file is applied again, before the report or after, that run is the
// task; no other starts beside it.
func TestAppliedTaskIsTheRunThatIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		late     bool // applied after the report
		reported string
		rows     []string // that exist afterwards, but for cancelled ones
		running  string
	}{
		"before the report":              {false, "d.t.2", []string{"d.t.2"}, "d.t.2"},
		"after the report":               {true, "d.t.2", []string{"d.t.2"}, "d.t.2"},
		"the first run":                  {false, "d.t", []string{"d.t"}, "d.t"},
		"the first run, after":           {true, "d.t", []string{"d.t"}, "d.t"},
		"of another task":                {false, "d.t.x", []string{"d.t"}, ""},
		"of another task, after":         {true, "d.t.x", []string{"d.t"}, ""},
		"of another domain":              {false, "e.t.2", []string{"d.t"}, ""},
		"of a task that is not in files": {false, "d.u.2", []string{"d.t"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				tasks := []plan.NamedTask{{Name: "t", Definition: task.Definition{Workload: runs("/bin/true")}}}
				r.setStale(true)
				if !c.late {
					r.apply(nil, tasks)
				}
				r.mu.Lock()
				r.alive = map[string][]worker.Alive{"b1": {{ID: "older", Task: c.reported, Older: true, Bound: true}}}
				r.mu.Unlock()
				r.b.SessionChanged(worker.SessionChanged{Cell: "b", Proc: "b1", From: worker.New, To: worker.Unhealthy})
				synctest.Wait()
				if c.late {
					r.apply(nil, tasks)
				}
				r.setStale(false)
				r.b.StartsChanged()
				synctest.Wait()
				var rows, asked []string
				p, err := r.b.ListTasks(plan.TaskFilter{}, plan.Range{Limit: 10})
				if err != nil {
					t.Fatal(err)
				}
				for _, x := range p.Items {
					if x.Outcome != task.Cancelled {
						rows = append(rows, x.GUID)
					}
					if (x.State == task.Running) != (x.GUID == c.running) || x.State == task.Running && x.UID != "older" {
						t.Errorf("%+v", x.Task)
					}
				}
				_, waiting, _ := r.take()
				for _, w := range waiting {
					asked = append(asked, w.GUID)
				}
				if !slices.Equal(rows, c.rows) || (len(asked) == 0) != (c.running != "") {
					t.Errorf("rows %v, to be placed %v", rows, asked)
				}
				again := r.apply(nil, tasks)
				if len(again.Changes) != 1 || again.Changes[0].Verb != plan.VerbKeep {
					t.Errorf("applied once more: %+v", again.Changes)
				}
			})
		})
	}
}
