package batch_test

import (
	"testing"

	"cantina/batch"
)

// TestJobsThatWaitForEachOther: files that are applied one after the other can make a circle of jobs. None of them
// starts. Their reasons name the circle, also for a job outside that waits for one of them.
func TestJobsThatWaitForEachOther(t *testing.T) {
	b, err := batch.NewBoard(batch.ForestSpec{Name: "f", Levels: []string{"db"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.SetNodes([]batch.NodeSpec{{Name: "n", Level: "db"}}); err != nil {
		t.Fatal(err)
	}
	for name, on := range map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"a"}, "outside": {"a"}} {
		b.Put(batch.Job{Name: name, UID: name, DependsOn: on})
	}
	for name, c := range map[string]struct{ reason, why string }{
		"a": {
			"depends on job b, which depends on job c, which depends on job a: " +
				"the jobs wait for each other in a circle",
			`blocked by b/n: depends on job "b", which is ` +
				`blocked by c/n: depends on job "c", which is blocked by a/n: ` +
				`depends on job "a", which depends on job "b": ` +
				`the jobs wait for each other in a circle; remove b from depends_on of job a`,
		},
		"outside": {
			"depends on job a, which depends on job b, which depends on job c, which depends on job a: " +
				"the jobs wait for each other in a circle",
			`blocked by a/n: depends on job "a", which is ` +
				`blocked by b/n: depends on job "b", which is blocked by c/n: ` +
				`depends on job "c", which depends on job "a": ` +
				`the jobs wait for each other in a circle; remove a from depends_on of job c`,
		},
	} {
		p, _ := b.Progress(name)
		if p.State != batch.JobFailed || p.Reason != c.reason {
			t.Errorf("%s: %v %s", name, p.State, p.Reason)
		}
		why, err := b.Explain(batch.Key{Job: name, Node: "n"}, "", 0)
		if err != nil || len(why) != 1 || why[0].String() != c.why {
			t.Errorf("%s: %v %v", name, why, err)
		}
	}
	if s := b.Pick(9); len(s) != 0 {
		t.Errorf("started: %+v", s)
	}
	b.Put(batch.Job{Name: "c", UID: "c"})
	if s := b.Pick(9); len(s) != 1 || s[0].Key.Job != "c" {
		t.Errorf("the circle is open: %+v", s)
	}
}
