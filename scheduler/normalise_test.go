package scheduler

import (
	"errors"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"cantina/action"
	"cantina/batch"
	"cantina/internal/differ"
	"cantina/plan"
	"cantina/resource"
)

func word() *rapid.Generator[string] { return rapid.StringMatching(`[a-zé/ -]{0,4}`) }

// texts draws no list, an empty one, or a few texts.
func texts(rt *rapid.T, label string) []string {
	if rapid.Bool().Draw(rt, label+" is none") {
		return nil
	}
	return rapid.SliceOfN(word(), 0, 2).Draw(rt, label)
}

// mapOf draws no map, an empty one, or one of a few entries.
func mapOf[V any](rt *rapid.T, label string, v *rapid.Generator[V]) map[string]V {
	if rapid.Bool().Draw(rt, label+" is none") {
		return nil
	}
	return rapid.MapOfN(word(), v, 0, 2).Draw(rt, label)
}

func anyJob(rt *rapid.T) batch.Job {
	amounts := rapid.Custom(func(rt *rapid.T) resource.Amounts { return mapOf(rt, "amounts", rapid.IntRange(0, 9)) })
	filter := rapid.Custom(func(rt *rapid.T) batch.Filter {
		return batch.Filter{Whitelist: texts(rt, "white"), Blacklist: texts(rt, "black"),
			TagWhitelist: texts(rt, "filter tags"), Fraction: rapid.Float64Range(0, 1).Draw(rt, "fraction")}
	})
	seconds := []int(nil)
	if rapid.Bool().Draw(rt, "has a backoff") {
		seconds = rapid.SliceOfN(rapid.IntRange(0, 9), 0, 2).Draw(rt, "seconds")
	}
	env := []action.Variable(nil)
	if rapid.Bool().Draw(rt, "has an environment") {
		env = []action.Variable{}
	}
	return batch.Job{
		Name: "j", Owner: word().Draw(rt, "owner"), Forest: "j", Level: word().Draw(rt, "level"),
		Priority:  rapid.Float64Range(0, 9).Draw(rt, "priority"),
		Resources: mapOf(rt, "resources", amounts), Filters: mapOf(rt, "filters", filter), DependsOn: texts(rt, "depends_on"),
		Backoff: batch.Backoff{Seconds: seconds, Repeat: rapid.Bool().Draw(rt, "repeat")},
		Retries: rapid.IntRange(-1, 9).Draw(rt, "retries"),
		Workload: action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/true", Args: texts(rt, "args"),
			Env: env}}, Env: env, Resources: amounts.Draw(rt, "needs")},
		Config: word().Draw(rt, "config"), Stack: word().Draw(rt, "stack"), Tags: texts(rt, "tags"),
		Labels: mapOf(rt, "labels", word()), Tolerates: texts(rt, "tolerates"), Conditions: texts(rt, "conditions"),
		Errors: texts(rt, "errors"),
	}
}

// A wanted job equals itself after its row was written and read, and after it was
// wanted again.
func TestAnUnchangedJobHasNoDifferences(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		wanted := anyJob(rt)
		first, err := normalised(&wanted)
		if err != nil {
			rt.Fatal(err)
		}
		first.Name, first.UID = "j", "u"
		value, err := (&jobRow{name: "j", uid: "u", spec: first}).encode()
		if err != nil {
			rt.Fatal(err)
		}
		row, err := decodeJob(value)
		if err != nil {
			rt.Fatal(err)
		}
		if d := differ.Fields("", row.spec, first); len(d) > 0 {
			rt.Fatalf("after the row: %+v", d)
		}
		again, err := normalised(&row.spec)
		if err != nil {
			rt.Fatal(err)
		}
		again.Name, again.UID = "j", "u"
		if d := differ.Fields("", row.spec, again); len(d) > 0 {
			rt.Fatalf("wanted again: %+v", d)
		}
	})
}

func TestAnUnchangedJobIsKeptByTheNextLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		w := testJob("j", map[string][]string{"h": {"a"}})
		r.apply(w)
		r.stop()
		r = begin(t, st, 2)
		lines, err := r.Plan("dom", []plan.NamedJob{w}, plan.Prune{On: true})
		if err != nil || len(lines) != 1 || lines[0].Verb != plan.VerbKeep {
			t.Errorf("%+v, %v", lines, err)
		}
		r.stop()
	})
}

func TestAJobHasOnlyTheNodesOfItsForest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, newFakeStore(), 1)
		r.apply(testJob("j", map[string][]string{"h": {"a"}}))
		nope, a := batch.NodeFilter{Node: "nope"}, batch.NodeFilter{Node: "a"}
		pass(0)
		if _, err := r.Kill("j", nope); !errors.Is(err, batch.ErrUnknownNode) {
			t.Errorf("kill: %v", err)
		}
		if _, err := r.Retry(t.Context(), "j", nope); !errors.Is(err, batch.ErrUnknownNode) {
			t.Errorf("forgive: %v", err)
		}
		if _, err := r.Rerun(t.Context(), "j", nope); !errors.Is(err, batch.ErrUnknownNode) {
			t.Errorf("rerun: %v", err)
		}
		if _, err := r.Kill("j", a); err != nil {
			t.Errorf("kill: %v", err)
		}
		if n, err := r.Retry(t.Context(), "j", a); n != 0 || err != nil {
			t.Errorf("forgive: %d, %v", n, err)
		}
		twice := testJob("k", map[string][]string{"h": {"a", "a"}})
		if _, err := r.Plan("dom", []plan.NamedJob{twice}, plan.Prune{}); err == nil {
			t.Error("a node that is listed twice is planned without a word")
		}
		r.stop()
	})
}
