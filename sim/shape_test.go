package sim

import (
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"cantina/worker"
)

// TestEveryShapeIsDrawn: each value of each flag is drawn, and a given flag does not change the drawn values of the
// others.
func TestEveryShapeIsDrawn(t *testing.T) {
	shapes := Shapes{}
	for seed := range uint64(500) {
		c := Config{Seed: seed}.drawShape(nil)
		shapes.add(&c)
		f := Config{Seed: seed, Cells: 9}.drawShape([]string{"cells"})
		if f.Cells != 9 {
			t.Fatalf("seed %d: a flag that was given is drawn: %+v", seed, f)
		}
		if f.Cells = c.Cells; f.flags() != c.flags() {
			t.Fatalf("seed %d: %s, and with --cells 9 %s", seed, c.flags(), f.flags())
		}
	}
	want := "servers 1 2 3; cells 1 2 3 4 5 6; jobs 1 2 3; nodes 1 2 3 5; schedules 0 1 2 3 6; load batch mixed; " +
		"witness consensus list; alone false true; late false true; moves false true; " +
		"preempt false true"
	var got []string
	for _, p := range parts() {
		got = append(got, p.name+" "+strings.Join(slices.Sorted(maps.Keys(shapes[p.name])), " "))
	}
	if g := strings.Join(got, "; "); g != want {
		t.Errorf("drawn: %s\nwant:  %s", g, want)
	}
}

// TestAReplayLineReplays: the arguments that a violation prints give the same run again, for any shape, drawn or
// given.
func TestAReplayLineReplays(t *testing.T) {
	for name, m := range map[string]Many{
		"the usual shape": {Config: Config{Load: Alternate}},
		"all flags": {Config: Config{Servers: 3, Cells: 4, Jobs: 3, Nodes: 1, Schedules: 2, Load: Mixed,
			Witness: worker.WitnessConsensus,
			Faults:  []Fault{KillServer, CutLink}}},
		"no faults": {Config: Config{Load: Mixed, Faults: []Fault{}}},
		"drawn":     {Draw: true},
	} {
		t.Run(name, func(t *testing.T) {
			m.Seed, m.Seeds, m.Calm = 7, 500, time.Millisecond // nothing is settled so soon
			_, err := RunMany(m)
			var v, again *Violation
			if !errors.As(err, &v) {
				t.Fatalf("no violation: %v", err)
			}
			_, line, ok := strings.Cut(v.Error(), "replay: cantina sim ")
			if !ok {
				t.Fatalf("no replay line: %v", v)
			}
			o, err := parse(strings.Fields(line), io.Discard)
			if err != nil || !o.trace || o.many.Draw {
				t.Fatalf("%q: %+v, %v", line, o, err)
			}
			o.many.Calm, o.many.Seeds = m.Calm, 1
			if _, err = RunMany(o.many); !errors.As(err, &again) || again.Error() != v.Error() {
				t.Fatalf("%q: %v\nagain: %v", line, v, err)
			}
		})
	}
}

// TestWrongFlags: each has an error with the flag, its value and the permitted values.
func TestWrongFlags(t *testing.T) {
	for line, want := range map[string]string{
		"--cells 0":      `invalid value "0" for flag -cells: must be a number of at least 1`,
		"--schedules -1": `invalid value "-1" for flag -schedules: must be a number of at least 0`,
		"--load all":     `invalid value "all" for flag -load: must be one of batch, both, mixed`,
		"--faults flood": `invalid value "flood" for flag -faults: must be all, none, ` +
			`or some of kill-server,pause-server,`,
		"--witness nobody": `invalid value "nobody" for flag -witness: must be one of consensus, list`,
		"--seed 1 more":    `cantina sim takes no argument "more"; see --help`,
	} {
		var out strings.Builder
		if code := Main(strings.Fields(line), io.Discard, &out); code != 2 || !strings.Contains(out.String(), want) {
			t.Errorf("%q: exit code %d, %q", line, code, out.String())
		}
	}
}

// TestDrawnShapes runs clusters of drawn shapes.
func TestDrawnShapes(t *testing.T) {
	sum, err := RunMany(Many{Seed: *seedFlag, Steps: steps(), Draw: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d steps, %d seeds: %v", sum.Steps, sum.Seeds, sum.Shapes)
}

// TestSeedsThatFailed runs seeds that once showed a fault again.
func TestSeedsThatFailed(t *testing.T) {
	for what, args := range map[string]string{
		"an overtaken order to empty a cell counted": "--seed 996000183 --servers 1 --cells 1 --jobs 1 " +
			"--schedules 1 --load mixed --alone true",
		"a leader that waited gave its set to a cell": "--load batch --seed 880000031 --servers 3 --witness " +
			"consensus",
		"a run that a successor has adopted counted as over": "--load batch --seed 770001701 --schedules 2 --cells 4",
		"a merge of statuses crossed the next birth of their job": "--load mixed --seed 992001006 --jobs 3 --nodes 5 " +
			"--cells 2 --servers 1 --schedules 3",
		"a repaired row gave work to a process that never joined": "--load mixed --seed 116 --jobs 3 " +
			"--nodes 3",
		"a later leader did not know a container that was reported without a row": "--load mixed --seed 992",
	} {
		o, err := parse(strings.Fields(args), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := RunMany(o.many); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
