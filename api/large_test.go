package api_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"cantina/api"
	pb "cantina/wire/cantinav1"
)

// TestLargeSpecs: concurrent ones are read one after the other, and one with too many values is
// refused at once, with the remedy.
func TestLargeSpecs(t *testing.T) {
	w := newWorld(t)
	plan := func(files ...string) error {
		q := &pb.PlanRequest{}
		for _, f := range files {
			q.Files = append(q.Files, &pb.SpecFile{Name: "f", Content: []byte(f)})
		}
		_, err := api.Call(t.Context(), w.client, calls.Plan, q)
		return err
	}
	script := "domain: d\ntasks: {t: {command: [\"true\"]}}\n" + strings.Repeat("# a comment, of many\n", 100_000)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := plan(script); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	list := "domain: [" + strings.Repeat("a,", 400_000) + "a]\n"
	for _, files := range [][]string{{list, list}, {strings.Repeat(list, 3)}} {
		var e *api.Error
		if err := plan(files...); !errors.As(err, &e) || e.Code != "too_large" || e.Detail.Hint != "split the request" {
			t.Errorf("%d files: %v", len(files), err)
		}
	}
}

// TestSentVariables: the files of env_file come with the request. Variables of all its files are bounded together.
func TestSentVariables(t *testing.T) {
	w := newWorld(t)
	plan := func(tasks, files int, sent ...*pb.EnvFile) error {
		q := &pb.PlanRequest{}
		for i := range files {
			var b strings.Builder
			fmt.Fprintf(&b, "domain: d%d\ntasks:\n", i)
			for j := range tasks {
				fmt.Fprintf(&b, "  t%d: {command: [a], env_file: a.env}\n", j)
			}
			q.Files = append(q.Files, &pb.SpecFile{Name: "f", Content: []byte(b.String()), EnvFiles: sent})
		}
		_, err := api.Call(t.Context(), w.client, calls.Plan, q)
		return err
	}
	var e *api.Error
	if err := plan(1, 1); !errors.As(err, &e) || len(e.Detail.Problems) != 1 || e.Detail.Problems[0].Line != 3 ||
		!strings.Contains(e.Detail.Problems[0].Text, "the content of a.env is not in the request") {
		t.Errorf("not sent: %v", err)
	}
	file := &pb.EnvFile{Path: "a.env", Content: []byte("A=" + strings.Repeat("x", 100<<10))}
	if err := plan(1, 1, file); err != nil {
		t.Errorf("sent: %v", err)
	}
	// Half of the bound in each of three files.
	if err := plan(80, 3, file); !errors.As(err, &e) || e.Code != "too_large" || e.Detail.Field != "files" {
		t.Errorf("too much together: %v", err)
	}
}
