package batch

import "testing"

// TestARealEndOfAnOlderRunIsKept: the report of a process about its run is stored although a later run is placed,
// which may never have started. The loss of an older run is not stored.
func TestARealEndOfAnOlderRunIsKept(t *testing.T) {
	k := Key{"a", "db11"}
	for name, c := range map[string]struct {
		later Report
		want  Bits
		again bool // the end of the later one is stored
	}{
		"the later one never started":       {NeverStarted("refused"), Done, false},
		"the later one ends in another way": {Report{Bits: Error | UsesBackoff}, Error | UsesBackoff, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := twoHosts(t)
			put(t, b, Job{Name: "a", Retries: 5, Backoff: Backoff{Seconds: []int{1}, Repeat: true}})
			b.Adopt(k, inv(5), "c")
			if u, ok := end(b, k, inv(4), LostReport("gone"), 0); ok {
				t.Errorf("a loss is stored: %+v", u)
			}
			if _, ok := end(b, k, inv(4), Report{Bits: Done}, 0); !ok {
				t.Error("the older end is not stored")
			}
			if i, _, ok := b.Running(k); !ok || i != inv(5) {
				t.Errorf("running %v %t", i, ok)
			}
			if p, ok := b.Progress("a"); !ok || p.Running != 1 || p.Done != 0 {
				t.Errorf("meanwhile %+v", p)
			}
			if _, ok := end(b, k, inv(4), Report{Bits: Done}, 0); ok {
				t.Error("a replay is stored")
			}
			if u, ok := end(b, k, inv(5), c.later, 0); ok != c.again {
				t.Errorf("the later end: %+v, stored %t", u, ok)
			}
			st, err := b.Status(k)
			if err != nil || st.Bits&c.want != c.want {
				t.Errorf("in the end %+v, %v", st, err)
			}
		})
	}
}
