package batch

import "testing"

func TestAPauseHoldsOnlyRemainingTasks(t *testing.T) {
	for name, paused := range map[string]func(j *Job){
		"paused":   func(j *Job) { j.Paused = true },
		"disabled": func(j *Job) { j.Disabled = true },
	} {
		t.Run(name, func(t *testing.T) {
			b := twoHosts(t)
			n := int64(0)
			job := Job{Name: "a"}
			put(t, b, job)
			start(t, b, b.Pick(4), &n)
			finish(t, b, Key{"a", "db11"}, Report{Bits: Done})
			finish(t, b, Key{"a", "db12"}, Report{Bits: Done})
			finish(t, b, Key{"a", "db21"}, Report{Bits: Done})
			finish(t, b, Key{"a", "db22"}, Report{Bits: Failed})
			paused(&job)
			put(t, b, job)
			if p, _ := b.Progress("a"); p.State != JobFailed {
				t.Errorf("everything has ended, one failed: %v", p.State)
			}
			up, err := b.Retry("a", "db22")
			if err != nil || len(up) != 1 {
				t.Fatalf("%v, %v", up, err)
			}
			b.Apply(up[0])
			if p, _ := b.Progress("a"); p.State.String() != name {
				t.Errorf("one is left to run: %v", p.State)
			}
		})
	}
}
