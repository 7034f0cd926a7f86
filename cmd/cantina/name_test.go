package main

import (
	"errors"
	"fmt"
	"testing"

	"cantina/api"
	"cantina/cell"
	"cantina/worker"
)

// TestNamesOfCells: each verb that runs cells refuses a name that none may have, and the
// name of every machine gives one that is allowed.
func TestNamesOfCells(t *testing.T) {
	s := newShell(t)
	for _, name := range []string{"a b", "", "Big", "a.b", "a/../b"} {
		for _, verb := range [][]string{{"cell"}, {"cell", "--simulate", "2"}, {"dev", "--socket", "none"}} {
			s.fails(api.ExitUsage, "--name: a cell's name has lower case letters",
				append(verb, "--data", t.TempDir(), "--name", name)...)
		}
	}
	for host, want := range map[string]string{"Db_7.example.com": "db-7", "": "localhost", ".x": "localhost", "näs": "n-s",
		"c1": "c1"} {
		if got := nameOf(host); got != want || worker.CellName(got).Check() != nil {
			t.Errorf("%q gives %q, want %q", host, got, want)
		}
	}
}

// TestPlainEnd: the leader's reason is printed without the wrapping errors.
func TestPlainEnd(t *testing.T) {
	reported := &cell.Displaced{Cell: "c1", Reason: "why"}
	if err := plainEnd(fmt.Errorf("cell: %w", errors.Join(fmt.Errorf("cell: lifetime: %w", reported)))); err == nil ||
		err.Error() != reported.Error() {
		t.Errorf("%v", err)
	}
	other := errors.New("other")
	if plainEnd(other) != other || plainEnd(nil) != nil {
		t.Error("any other error stays as it is")
	}
}

// TestASubjectHasAName: a kind or a job without one is refused with the form that is right.
func TestASubjectHasAName(t *testing.T) {
	s := newShell(t)
	for _, kind := range []string{"service/", "instance/", "task/", "job/", "cell/", "schedule/", "count/", ""} {
		for _, verb := range []string{"explain", "wait", "logs"} {
			s.fails(api.ExitUsage, fmt.Sprintf("%q: the name is missing; write %sNAME", kind, kind), verb, kind)
		}
	}
}
