package batch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestPagesAreTheWholeList: for any size of a page, the pages of a job's nodes are its whole list, in order of name,
// with any filter, also when nodes have come and gone in between.
func TestPagesAreTheWholeList(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	b := newBoard(t, ForestSpec{Name: "f", Levels: []string{"item"}})
	put(t, b, Job{Name: "j", Forest: "f"})
	for round := range 6 {
		var manual []ManualNode
		for _, i := range rnd.Perm(300)[:20+10*round] {
			manual = append(manual, ManualNode{Name: fmt.Sprint("n", i)})
		}
		nodes, err := ManualNodes([]string{"item"}, manual)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.SetNodes(nodes); err != nil {
			t.Fatal(err)
		}
		for _, f := range []NodeFilter{{}, {Classes: []Class{ClassReady}}, {Classes: []Class{ClassAbsent}},
			{Classes: []Class{ClassDone}}, {After: "n2"}, {After: "n2", Classes: []Class{ClassReady, ClassAbsent}}} {
			whole, err := b.Nodes("j", f)
			if err != nil || !slices.IsSortedFunc(whole, func(x, y NodeView) int { return strings.Compare(x.Node, y.Node) }) {
				t.Fatalf("%+v: %v %v", f, whole, err)
			}
			for limit := 1; limit < 20; limit += 3 {
				var all []NodeView
				for page := f; ; page.After = all[len(all)-1].Node {
					page.Limit = limit
					some, err := b.Nodes("j", page)
					if err != nil || len(some) > limit {
						t.Fatalf("%d on a page of %d: %v", len(some), limit, err)
					}
					if all = append(all, some...); len(some) < limit {
						break
					}
				}
				if fmt.Sprint(all) != fmt.Sprint(whole) {
					t.Fatalf("%+v in pages of %d: %v, want %v", f, limit, all, whole)
				}
			}
		}
	}
}

func BenchmarkPagesOfAMillion(b *testing.B) {
	board := newBoard(b, ForestSpec{Name: "f", Levels: []string{"item"}})
	put(b, board, Job{Name: "j", Forest: "f"})
	var manual []ManualNode
	for i := range 1_000_000 {
		manual = append(manual, ManualNode{Name: fmt.Sprint("n", i*7919%1_000_003)})
	}
	nodes, err := ManualNodes([]string{"item"}, manual)
	if err != nil || board.SetNodes(nodes) != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		n, after := 0, ""
		for {
			some, err := board.Nodes("j", NodeFilter{After: after, Limit: 1000})
			if err != nil {
				b.Fatal(err)
			}
			if n += len(some); len(some) < 1000 {
				break
			}
			after = some[len(some)-1].Node
		}
		if n != 1_000_000 {
			b.Fatal(n)
		}
	}
}
