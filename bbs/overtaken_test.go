package bbs

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"cantina/action"
	"cantina/fault"
	"cantina/lrp"
	"cantina/plan"
	"cantina/task"
)

// TestARowThatIsBackGoesToTheSuccessor: while a row was unreadable, its process was succeeded by another process of
// the cell. Work that survives the restart may be with the successor, so its row goes there, in the same term and
// in a later one. Work that does not survive is dead.
func TestARowThatIsBackGoesToTheSuccessor(t *testing.T) {
	kept := lrp.ServiceKey{Domain: "d", Name: "web"}
	type step func(r *rig)
	dies := func(r *rig) { r.kill("a1"); r.b.CellMustDie("a", "a1", true); r.b.ProcDead("a", "a1", "a2") }
	for name, c := range map[string]struct {
		restart  action.OnCellRestart
		then     step
		instance string // cell and process that run the instance after the restore
		holder   string
		problem  string
	}{
		"nothing happened": {action.RestartKeep, func(*rig) {}, "a a1", "a1", ""},
		"succeeded":        {action.RestartKeep, func(r *rig) { r.later["a2"] = true; dies(r) }, "a a2", "a2", ""},
		"in an earlier term": {action.RestartKeep, func(r *rig) { r.later["a2"] = true; dies(r); r.reelect() }, "a a2",
			"a2", ""},
		"dead, not kept":     {action.RestartStop, func(r *rig) { r.later["a2"] = true; dies(r) }, "b b1", "lost", ""},
		"dead, no successor": {action.RestartKeep, func(r *rig) { dies(r) }, "b b1", "lost", ""},
		"more than one successor": {action.RestartKeep, func(r *rig) { r.later["a2"], r.later["a3"] = true, true; dies(r) },
			"", "", "any of [a2 a3] may have its work"},
		"a successor has not registered": {action.RestartKeep, func(r *rig) {
			dies(r)
			r.joining = "a9"
		}, "", "", "process a9, which has not registered yet"},
		"the list is unknown": {action.RestartKeep, func(r *rig) { dies(r); r.stale = true }, "", "", "initial wait"},
	} {
		for _, kind := range []string{kindService, kindIndex, kindTask} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				inBubble(t, func(t *testing.T, r *rig) {
					r.later = map[string]bool{}
					d := web(1, "1")
					d.Workload.OnCellRestart = c.restart
					r.apply([]lrp.Desired{d}, nil)
					r.serve()
					n := plan.NewTask{GUID: "t", Domain: "d", Definition: task.Definition{Workload: d.Workload}}
					if _, err := r.b.DesireTask(t.Context(), n, plan.Write{}); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					_, tasks, _ := r.take()
					if err := r.taskEvent("t", task.Start{UID: tasks[0].UID, By: task.Holder{Cell: "a", Proc: "a1"},
						Reservation: tasks[0].UID}); err != nil {
						t.Fatal(err)
					}
					page, _ := r.b.ListInstances(plan.InstanceFilter{}, plan.Range{})
					key := map[string]string{kindService: ServiceRow(kept), kindIndex: IndexRow(page.Items[0].Key),
						kindTask: TaskRow("t")}[kind]
					good := r.value(key)
					r.overwrite(key, []byte("garbage"))
					r.reelect()
					c.then(r)
					err := r.b.Release(key, true, good, nil)
					if c.problem != "" {
						if !errors.Is(err, fault.ErrQuarantined) || !strings.Contains(err.Error(), c.problem) {
							t.Fatal(err)
						}
						return
					}
					if err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					r.serveLRPs()
					if kind != kindTask {
						if got := where(t, r, kept); got != c.instance {
							t.Errorf("the instance runs on %s, want %s", got, c.instance)
						}
						return
					}
					row := r.b.rows.view.task("t")
					got := row.Holder.Proc
					if row.Outcome == task.Lost {
						got = "lost"
					}
					if got != c.holder {
						t.Errorf("the task is %s, want %s", got, c.holder)
					}
				})
			})
		}
	}
}
