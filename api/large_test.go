package api_test

import (
	"errors"
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
