package leader

import (
	"fmt"
	"reflect"
	"testing"

	"cantina/action"
	"cantina/batch"
	"cantina/internal/differ"
	"cantina/lrp"
	"cantina/task"
)

// TestPlanPrintsWords: no field of a definition is printed as a number with a special meaning:
// choices have names, and "unset", "none" and "unlimited" are words.
func TestPlanPrintsWords(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var walk func(path string, x reflect.Type)
	walk = func(path string, x reflect.Type) {
		switch x.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(path, x.Elem())
		case reflect.Struct:
			if seen[x] {
				return
			}
			seen[x] = true
			for i := range x.NumField() {
				if f := x.Field(i); f.IsExported() {
					walk(path+"."+f.Name, f.Type)
				}
			}
		case reflect.Int:
			if x != reflect.TypeFor[int]() && !x.Implements(reflect.TypeFor[fmt.Stringer]()) {
				t.Errorf("%s: %v has no words", path, x)
			}
		}
	}
	walk("service", reflect.TypeFor[lrp.Desired]())
	walk("task", reflect.TypeFor[task.Definition]())
	walk("job", reflect.TypeFor[batch.Job]())
	walk("nodes", reflect.TypeFor[batch.ForestSpec]())

	was, is := lrp.Desired{}, lrp.Desired{Strategy: lrp.StopFirst, OnReturn: lrp.ReturnNew}
	was.Restart.Immediate, is.Restart.Immediate = -1, 2
	was.Restart.GiveUp, is.Restart.GiveUp = -1, 0
	is.Rollout.Batch, is.Workload.MaxPids, is.Workload.Termination.ParentDeath = 3, 20, -1
	is.Workload.OnCellRestart = action.RestartKeep
	want := map[string][2]string{
		"restart.immediate": {"0", "1"}, "restart.give_up": {"never", "default (200)"},
		"rollout.batch":     {"default (a quarter)", "3"},
		"workload.max_pids": {"unlimited", "20"}, "workload.termination.parent_death": {"default", "none"},
		"workload.on_cell_restart": {"stop", "keep"}, "strategy": {"start_first", "stop_first"}, "on_return": {"old", "new"},
	}
	got := differ.Fields("", was, is)
	for _, f := range got {
		if w, ok := want[f.Path]; !ok || w != [2]string{f.Old, f.New} {
			t.Errorf("%s: %q -> %q, want %q", f.Path, f.Old, f.New, w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%+v", got)
	}
	if f := differ.Fields("", batch.Job{Retries: -1}, batch.Job{Retries: 3}); len(f) != 1 || f[0].Old != "unlimited" ||
		f[0].New != "3" {
		t.Errorf("%+v", f)
	}
}
