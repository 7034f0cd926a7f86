package batch_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"cantina/action"
	"cantina/batch"
	"cantina/fence"
)

// TestWordsOfASpecFile: each value as a spec file has it.
func TestWordsOfASpecFile(t *testing.T) {
	for got, want := range map[fmt.Stringer]string{
		batch.CallTemplate: "template", batch.CallBistro: "bistro", batch.Call(2): "Call(2)",
		batch.OrderRandom: "random", batch.OrderOriginal: "original", batch.OrderLexicographic: "lexicographic",
		batch.Order(3):     "Order(3)",
		batch.SourceManual: "manual", batch.SourceScript: "script", batch.SourceEmpty: "empty",
		batch.SourceRange: "range", batch.SourceFile: "file",
		batch.SourceTime: "add_time", batch.SourceKind(9): "SourceKind(9)",
		batch.RoundRobin: "round_robin", batch.RankedPriority: "ranked_priority",
		batch.RandomizedPriority: "randomized_priority", batch.LongTail: "long_tail",
		batch.Policy(4): "Policy(4)", batch.Policy(-1): "Policy(-1)",
	} {
		if got.String() != want {
			t.Errorf("%T %q, want %q", got, got, want)
		}
	}
	for n, want := range map[int]string{-1: "unlimited", 0: "", 1: ""} {
		if got := (batch.Job{Retries: n}).FieldWord("Retries"); got != want {
			t.Errorf("retries %d: %q, want %q", n, got, want)
		}
		if got := (batch.Job{Retries: n}).FieldWord("Level"); got != "" {
			t.Errorf("level: %q", got)
		}
	}
}

// TestBitsAtTheirBounds: a number that is only a status when its high bits are cut off is none.
func TestBitsAtTheirBounds(t *testing.T) {
	for text, want := range map[string]batch.Bits{
		"4": batch.Done, "8": batch.Incomplete, "16": batch.Failed, "32": batch.Error, "1028": batch.Done, "65540": 0,
		"-65532": 0, "0": 0, "-1": 0, "2": 0, "12": 0, "131076": 0, "2052": 0,
	} {
		r, err := batch.ParseStatus([]byte(`{"result_bits":` + text + `}`))
		if r.Bits != want || (err == nil) != (want != 0) {
			t.Errorf("%s: %v, %v", text, r.Bits, err)
		}
	}
	for n, more := range map[int]bool{198: false, 199: true} {
		_, err := batch.ParseStatus([]byte(`{"result":"` + strings.Repeat("x", n) + `"}`))
		if err == nil || strings.Contains(err.Error(), "…") != more {
			t.Errorf("a word of %d letters: %v", n, err)
		}
	}
}

// TestForestsAtTheirBounds: each part of a forest as far as it may go and one step further.
func TestForestsAtTheirBounds(t *testing.T) {
	levels := func(n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprint("l", i))
		}
		return out
	}
	limit := func(l batch.Limit) batch.ForestSpec {
		return batch.ForestSpec{Levels: []string{"db"}, Limits: map[string]map[string]batch.Limit{"db": {"a": l}}}
	}
	from := func(kind batch.SourceKind, parent string, script ...string) batch.ForestSpec {
		return batch.ForestSpec{Levels: []string{"db"},
			Sources: []batch.Source{{Kind: kind, ParentLevel: parent, Script: script}}}
	}
	for name, c := range map[string]struct {
		spec batch.ForestSpec
		ok   bool
	}{
		"16 levels": {batch.ForestSpec{Levels: levels(16)}, true}, "17 levels": {batch.ForestSpec{Levels: levels(17)}, false},
		"no name":  {batch.ForestSpec{Levels: []string{""}}, false},
		"twice":    {batch.ForestSpec{Levels: []string{"a", "a"}}, false},
		"reserved": {batch.ForestSpec{Levels: []string{"worker"}}, false},
		"nothing":  {limit(batch.Limit{}), true}, "weight": {limit(batch.Limit{Weight: -1}), false},
		"limit": {limit(batch.Limit{Limit: -1}), false}, "default": {limit(batch.Limit{Default: -1}), false},
		"script":       {from(batch.SourceScript, "instance", "x"), true},
		"of no parent": {from(batch.SourceScript, "", "x"), true}, "no script": {from(batch.SourceScript, "instance"), false},
		"below the last": {from(batch.SourceScript, "db", "x"), false},
		"below nothing":  {from(batch.SourceScript, "rack", "x"), false}, "manual": {from(batch.SourceManual, "rack"), true},
	} {
		if err := batch.CheckForest(&c.spec); (err == nil) != c.ok || err != nil && !errors.Is(err, batch.ErrNodes) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, want := range map[string]string{
		"": "empty name", strings.Repeat("x", 4096): "", strings.Repeat("x", 4097): "name of 4097 bytes",
		"a\x00b": "NUL byte at 1", "\x00": "NUL byte at 0", "\xff": "not UTF-8", "a/b": "",
	} {
		if err := batch.CheckName(name); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.9q: %v", name, err)
		}
	}
}

// TestCountsThatAreKept: a pair holds as many attempts and losses as fit, and does not begin again at zero.
func TestCountsThatAreKept(t *testing.T) {
	b, err := batch.NewBoard(batch.ForestSpec{Name: "f", Levels: []string{"db"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.SetNodes([]batch.NodeSpec{{Name: "n", Level: "db"}}); err != nil {
		t.Fatal(err)
	}
	b.Put(batch.Job{Name: "a", UID: "a"})
	k := batch.Key{Job: "a", Node: "n"}
	for n, want := range map[int]int{65534: 65534, 65535: 65535, 65536: 65535, 1 << 20: 65535} {
		if _, err := b.Load(k, batch.Status{Bits: batch.Done, Attempts: n, Losses: n, Time: 1,
			Invocation: fence.Invocation{Counter: 1}}, 1); err != nil {
			t.Fatal(err)
		}
		if s, err := b.Status(k); err != nil || s.Attempts != want || s.Losses != want {
			t.Errorf("%d: %d and %d, %v", n, s.Attempts, s.Losses, err)
		}
	}
	if i, cell, ok := b.Running(k); ok || cell != "" || !i.IsZero() {
		t.Error("it does not run")
	}
}

// TestBracesAreFilledEverywhere: in each kind of action, and in the parts beside the main one. Nothing is copied
// when there are none.
func TestBracesAreFilledEverywhere(t *testing.T) {
	run := action.Action{Run: &action.Run{Path: "/bin/x", Args: []string{"{}"}}}
	plain := action.Action{Run: &action.Run{Path: "/bin/x"}}
	for name, w := range map[string]action.Workload{
		"upload from":       {Action: action.Action{Upload: &action.Upload{From: "{}"}}},
		"upload to":         {Action: action.Action{Upload: &action.Upload{To: "{}"}}},
		"download from":     {Action: action.Action{Download: &action.Download{From: "{}"}}},
		"download to":       {Action: action.Action{Download: &action.Download{To: "{}"}}},
		"try":               {Action: action.Action{Try: &run}},
		"progress":          {Action: action.Action{EmitProgress: &action.EmitProgress{Action: run}}},
		"timeout":           {Action: action.Action{Timeout: &action.Timeout{Action: run}}},
		"before a download": {Action: action.Action{Serial: []action.Action{run, {Download: &action.Download{From: "a"}}}}},
		"before an upload":  {Action: action.Action{Serial: []action.Action{run, {Upload: &action.Upload{From: "a"}}}}},
		"serial":            {Action: action.Action{Serial: []action.Action{plain, run, plain}}},
		"setup":             {Action: plain, Setup: &run}, "monitor": {Action: plain, Monitor: &run},
		"sidecar": {Action: plain, Sidecars: []action.Action{run}}, "setup beside": {Action: run, Setup: &plain},
		"sidecar beside": {Action: run, Sidecars: []action.Action{plain}}, "monitor beside": {Action: run, Monitor: &plain},
	} {
		j := batch.Job{Name: "a", Workload: w}
		e, err := batch.Expand(&j, &batch.Start{Key: batch.Key{Job: "a", Node: "n1"}}, fence.Invocation{Counter: 1},
			batch.Where{}, batch.Status{}, nil)
		if err != nil || e.Workload == nil || e.Program != nil {
			t.Errorf("%s: %+v %v", name, e, err)
			continue
		}
		if e.Workload.Sidecars == nil != (w.Sidecars == nil) || e.Workload.Action.Parallel != nil {
			t.Errorf("%s: lists that there were not: %+v", name, e.Workload)
		}
		if p := e.Payload(&j, batch.Key{Job: "a", Node: "n1"}, fence.Invocation{Counter: 1}); p.Workload != e.Workload {
			t.Errorf("%s: the cell gets %p, not %p", name, p.Workload, e.Workload)
		}
	}
	for name, r := range map[string]action.Run{"path": {Path: "/{}"}, "dir": {Path: "x", Dir: "{}"},
		"args": {Args: []string{"{}"}}} {
		j := batch.Job{Name: "a", Workload: action.Workload{Action: action.Action{Run: &r}}}
		s := batch.Start{Key: batch.Key{Job: "a", Node: "n1"}}
		e, err := batch.Expand(&j, &s, fence.Invocation{Counter: 1}, batch.Where{}, batch.Status{}, nil)
		if err != nil || e.Program == nil || !strings.Contains(e.Program.Path+e.Program.Dir+strings.Join(e.Program.Args, ""),
			"n1") {
			t.Errorf("one program, %s: %+v %v", name, e, err)
		}
	}
	for name, w := range map[string]action.Workload{"one": {Action: plain},
		"upload": {Action: action.Action{Upload: &action.Upload{From: "a", To: "b"}}},
		"setup":  {Action: plain, Setup: &plain}} {
		j := batch.Job{Name: "a", Workload: w}
		if e, err := batch.Expand(&j, &batch.Start{Key: batch.Key{Job: "a", Node: "n1"}}, fence.Invocation{Counter: 1},
			batch.Where{}, batch.Status{}, nil); err != nil || e.Workload != nil || e.Program != nil {
			t.Errorf("nothing to fill, %s: %+v %v", name, e, err)
		}
	}
}
