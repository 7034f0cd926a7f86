package spec

import (
	"strings"
	"testing"

	"cantina/batch"
	"cantina/placement"
)

// TestPoliciesOfJobs: how jobs share their nodes, and in which order cells are tried.
func TestPoliciesOfJobs(t *testing.T) {
	parse := func(fields string) (*File, error) {
		return Parse("f", "", []byte("jobs:\n  a: {command: [x], nodes: [{manual: [q]}], "+fields+"}\n"), testTimes())
	}
	for word, want := range map[string]batch.Policy{"round_robin": batch.RoundRobin,
		"ranked_priority":     batch.RankedPriority,
		"randomized_priority": batch.RandomizedPriority, "long_tail": batch.LongTail} {
		got, err := parse("policy: " + word)
		if err != nil || got.Jobs[0].Forest.Policy != want {
			t.Errorf("%s: %v", word, err)
		}
	}
	for word, want := range map[string]placement.Order{"spread": placement.OrderSpread,
		"round_robin": placement.OrderRoundRobin, "busiest": placement.OrderBusiest} {
		got, err := parse("cell_order: " + word + ", resources: {cell: {gpu: {weight: 3}}}")
		if err != nil || got.Jobs[0].Forest.Cells != want || got.Jobs[0].Forest.Limits["worker"]["gpu"].Weight != 3 ||
			got.Jobs[0].Job.Resources["worker"]["gpu"] != 1 {
			t.Errorf("%s: %v", word, err)
		}
	}
	for fields, want := range map[string]string{
		"policy: fifo":        "jobs.a.policy: must be round_robin",
		"cell_order: busiest": "jobs.a.cell_order: busiest needs the weight of a resource",
		"priority: 0":         "jobs.a.priority: must be greater than 0 and at most 1e9",
		"priority: 2e9":       "jobs.a.priority: must be greater than 0 and at most 1e9",
		"resources: {instance: {r: {limit: 1, weight: 1}}}": "weight: only valid on level cell",
		"filters: {cell: {tags: [x]}}":                      "filters.cell.tags: cells have no tags for filters",
		"resources: {cell: {gpu: {weight: -1}}}":            "weight: must be",
		"resources: {cell: {gpu: {weight: 70000}}}":         "weight: must be",
	} {
		if _, err := parse(fields); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", fields, err)
		}
	}
	_, err := Parse("f", "", []byte("jobs:\n  a: {command: [x], nodes: [{manual: [q]}]}\n"+
		"  b: {command: [x], nodes_of: a, "+
		"policy: long_tail, cell_order: busiest, resources: {cell: {gpu: {weight: 1}}}}\n"), testTimes())
	for _, want := range []string{"jobs.b.policy: must be set in the job named by nodes_of",
		"jobs.b.cell_order: must be set in the job named by nodes_of", "limits and weights on level worker"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}
