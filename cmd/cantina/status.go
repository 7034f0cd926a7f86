package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cantina/api"
	"cantina/lrp"
	"cantina/task"
	pb "cantina/wire/cantinav1"
)

func statusVerb(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Short: "Show cluster status", Args: atMost(0, "none"),
		Long:    "status shows the leader, object counts, blocked work (with reason and maximum wait) and warnings.",
		Example: "  cantina status\n  cantina status -o json | jq .held",
		RunE: func(*cobra.Command, []string) error {
			got, err := call(c, calls.GetStatus, &pb.GetStatusRequest{})
			if err != nil {
				return err
			}
			if c.output != "table" && c.output != "wide" || c.template != "" || c.quiet {
				return one(c, table[*pb.Status]{id: func(s *pb.Status) string { return s.Cluster }}, got.Status)
			}
			return printStatus(c, got.Status)
		},
	}
	c.waiting(cmd)
	return c.reading(cmd)
}

// countsInOrder are the names of the counts as status prints them: kind by kind, then the rest.
func countsInOrder(counts map[string]int32) []string {
	order := []string{"cells", "cells_healthy", "services", "instances", "running", "unclaimed", "crashed", "suspect",
		"evacuating", "moving",
		"orphans", "tasks_pending", "tasks_running", "tasks_lost", "dead_letters", "jobs", "batch_running", "schedules"}
	var names, rest []string
	for n := range counts {
		if !slices.Contains(order, n) {
			rest = append(rest, n)
		}
	}
	for _, n := range order {
		if _, there := counts[n]; there {
			names = append(names, n)
		}
	}
	slices.Sort(rest)
	return append(names, rest...)
}

func printStatus(c *cli, s *pb.Status) error {
	var b strings.Builder
	width := len("quarantine")
	for n := range s.Counts {
		width = max(width, len(n))
	}
	row := func(name, value string) { fmt.Fprintf(&b, "%-*s  %s\n", width, name, printable(value)) }
	row("cluster", s.Cluster)
	if s.ClusterId != "" {
		row("cluster id", s.ClusterId)
	}
	row("leader", fmt.Sprintf("%s, term %s, since %s", s.Leader, s.Term, c.when(s.Since)))
	row("build", s.Build)
	row("revision", fmt.Sprint(s.Revision))
	for _, n := range countsInOrder(s.Counts) {
		text := number(s.Counts[n])
		if n == "tasks_lost" && s.Counts[n] > 0 {
			text += lostTasks(c, s.Counts[n])
		}
		row(n, text)
	}
	for _, d := range s.Domains {
		switch {
		case !d.Fresh:
			row("domain", d.Name+", expired: its instances are kept")
		case d.Expires != nil:
			row("domain", d.Name+", fresh until "+c.when(d.Expires))
		}
	}
	for _, r := range s.Rollouts {
		row("rollout", rolloutText(r))
	}
	if s.RolloutsMore > 0 {
		row("rollout", fmt.Sprintf("and %d more", s.RolloutsMore))
	}
	for _, b := range s.Behind {
		row("behind", b)
	}
	if s.Waiting {
		text := "for " + strings.Join(s.WaitingFor, ", ")
		if len(s.WaitingFor) == 0 {
			text = "the store is new, restored or moved; cells may run work that is not in it"
		}
		if s.Longest != nil {
			text += ", at most " + s.Longest.AsDuration().Round(time.Second).String()
		}
		text += ": work that may already run is not started"
		if len(s.WaitingFor) == 0 {
			text += "; if no such cell is alive: cantina leader end-wait --accept-double-starts --yes"
		}
		row("waiting", text)
	}
	for _, h := range s.Held {
		row("held", heldText(h))
	}
	if s.HeldMore > 0 {
		row("held", fmt.Sprintf("and %d more", s.HeldMore))
	}
	if s.Quarantined > 0 {
		row("quarantine", fmt.Sprintf("%d rows cannot be read; see cantina store quarantine show", s.Quarantined))
	}
	for _, w := range s.Warnings {
		row("WARNING", w)
	}
	_, err := c.Out.Write([]byte(b.String()))
	return err
}

// shownLost is how many lost tasks status names.
const shownLost = 3

// lostTasks names some of the lost tasks, with the remedy.
func lostTasks(c *cli, n int32) string {
	const resolve = "cantina task resolve ID --as done, failed or rerun"
	l, err := call(c, calls.ListTasks,
		&pb.ListTasksRequest{Outcome: []string{task.Lost.String()}, Page: &pb.Page{Limit: api.MaxPage}})
	var ids []string
	for _, t := range l.GetTasks() {
		if t.Resolution == "" && len(ids) < shownLost {
			ids = append(ids, t.Id)
		}
	}
	if err != nil || len(ids) == 0 {
		return ": see cantina task ls --outcome lost; " + resolve
	}
	if int(n) > len(ids) {
		return ": " + strings.Join(ids, ", ") + ", …; all: cantina task ls --outcome lost; " + resolve
	}
	return ": " + strings.Join(ids, ", ") + "; " + resolve
}

// rolloutText describes the progress of a rollout, and why the last one failed.
func rolloutText(r *pb.Rollout) string {
	text := fmt.Sprintf("%s/%s: %s, version %d: %d of %d healthy", r.Domain, r.Service, r.Phase, r.Version, r.Healthy,
		r.Instances)
	if r.Phase == lrp.Steady.String() {
		text = fmt.Sprintf("%s/%s: rolled back, version %d serves", r.Domain, r.Service, r.Version)
	}
	if r.Failure != "" {
		text += "; " + r.Failure
	}
	return text
}

func heldText(h *pb.Held) string {
	text := h.What + ": " + h.Reason
	if h.Cell != "" {
		text += ", cell " + h.Cell
	}
	if h.Longest != nil {
		text += ", at most " + h.Longest.AsDuration().Round(time.Second).String()
	}
	return text
}

func leaderVerb(c *cli) *cobra.Command {
	var accept bool
	end := &cobra.Command{
		Use: "end-wait --accept-double-starts", Short: "End the initial wait now", Args: atMost(0, "none"),
		Long: "After a leader change, work that may still run is not started until every cell that may run it " +
			"has reported or is declared dead. end-wait ends that wait, so work on a silent cell may run " +
			"twice. It is recorded and shown in status.",
		Example: "  cantina leader end-wait --accept-double-starts --yes",
		RunE: func(*cobra.Command, []string) error {
			if !accept {
				return failf(api.ExitUsage,
					"work on a silent cell may start a second time; add --accept-double-starts --yes to accept that")
			}
			if err := c.confirm("end the initial wait; work that still runs on a silent cell may run twice"); err != nil {
				return err
			}
			now, err := call(c, calls.GetStatus, &pb.GetStatusRequest{})
			if err != nil {
				return err
			}
			_, err = call(c, calls.EndWait, &pb.EndWaitRequest{AcceptDoubleStarts: accept})
			if err != nil {
				return err
			}
			result := "no initial wait in progress"
			if now.Status.Waiting {
				result = "the initial wait has ended"
			}
			c.notef("%s\n", result)
			return answer(c, factTable("result"), textFields(map[string]string{"result": result}))
		},
	}
	end.Flags().BoolVar(&accept, "accept-double-starts", false, "accept that work may run twice")
	c.needYes(end)
	return group("leader", "Change decisions of the leader", c.writing(end))
}
