package bbs

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"cantina/action"
	"cantina/bbs/bbspb"
	"cantina/lrp"
	"cantina/resource"
	"cantina/task"
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

func anyWorkload(rt *rapid.T) action.Workload {
	env := []action.Variable(nil)
	if rapid.Bool().Draw(rt, "has an environment") {
		env = []action.Variable{}
	}
	w := action.Workload{
		Action: action.Action{Run: &action.Run{Path: "/bin/true", Args: texts(rt, "args"), Env: env}}, Env: env,
		Resources: resource.Amounts(mapOf(rt, "resources", rapid.IntRange(0, 9))),
	}
	if rapid.Bool().Draw(rt, "has lists") {
		w.Sidecars, w.Checks, w.ReadinessChecks, w.Ports = []action.Action{}, []action.Check{}, []action.Check{},
			[]action.Port{}
	}
	return w
}

// conditions draws conditions on labels, which are checked.
func conditions(rt *rapid.T) []string {
	some := rapid.SampledFrom([]string{"disk = ssd", "rack in (a, b)", "k version >= 5.10"})
	return rapid.SliceOfN(some, 0, 2).Draw(rt, "conditions")
}

// A definition equals itself after its row was written and read, and after it was
// applied again.
func TestAnUnchangedServiceIsKept(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		wanted := lrp.Desired{
			Service: webKey, Instances: rapid.IntRange(0, 3).Draw(rt, "instances"), Routes: mapOf(rt, "routes", word()),
			Workload:      anyWorkload(rt),
			PlacementTags: texts(rt, "tags"), Labels: mapOf(rt, "labels", word()), Tolerations: texts(rt, "tolerates"),
			Conditions: conditions(rt), Spread: rapid.SampledFrom([][]string{nil, {}, {"rack", "zone"}}).Draw(rt, "spread"),
			MaxPer:    rapid.SampledFrom([]map[string]int{nil, {}, {"rack": 2}}).Draw(rt, "max per"),
			ApartFrom: rapid.SampledFrom([][]string{nil, {}, {"db"}}).Draw(rt, "apart"),
		}
		first, err := normalised(wanted)
		if err != nil {
			rt.Fatal(err)
		}
		s, err := lrp.Apply(nil, first, "p", time.Unix(1, 0))
		if err != nil {
			rt.Fatal(err)
		}
		var m bbspb.Service
		if err := proto.Unmarshal(marshal(serviceRecord(s)), &m); err != nil {
			rt.Fatal(err)
		}
		read, err := serviceFrom(&m)
		if err != nil {
			rt.Fatal(err)
		}
		again, err := normalised(wanted)
		if err != nil {
			rt.Fatal(err)
		}
		if next, err := lrp.Apply(read, again, "q", time.Unix(2, 0)); err != nil || next != read {
			rt.Fatalf("a new version: %+v, %v", changed(read.Target().Desired, again), err)
		}
		if d := changed(wanted, again); len(d) > 0 {
			rt.Fatalf("no list and an empty one differ: %+v", d)
		}
	})
}

func TestAnUnchangedTaskIsKept(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		wanted := task.Definition{Workload: anyWorkload(rt), PlacementTags: texts(rt, "tags"),
			Labels: mapOf(rt, "labels", word()), Tolerations: texts(rt, "tolerates"), Conditions: conditions(rt)}
		first, err := normalisedTask(&wanted)
		if err != nil {
			rt.Fatal(err)
		}
		again, err := normalisedTask(&first)
		if err != nil {
			rt.Fatal(err)
		}
		if a, b := digest(&first), digest(&again); string(a) != string(b) || string(a) != string(digest(&wanted)) {
			rt.Fatal("the same definition has two digests")
		}
		if d := changed(wanted, again); len(d) > 0 {
			rt.Fatalf("%+v", d)
		}
	})
}
