package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cantina/api"
)

// TestValidateNeedsNoServer: it lists the resources, reports all errors with their places, and passes on
// the warnings of a plan.
func TestValidateNeedsNoServer(t *testing.T) {
	s := newShell(t)
	good, bad := filepath.Join(t.TempDir(), "good.yaml"), filepath.Join(t.TempDir(), "bad.yaml")
	for name, text := range map[string]string{
		good: "domain: d\nservices:\n  web: {command: [serve], env: {PORT: '1'}, ports: [{name: http}]}\n" +
			"jobs:\n  j: {command: [x], nodes: [{manual: [a]}]}\n" +
			"schedules:\n  s: {cron: '@hourly', timezone: UTC, task: {command: [x]}}\n" +
			"tasks:\n  t: {command: [x]}\n",
		bad: "services:\n  web: {comand: x}\n  b: {command: [x], memory: 5}\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, errs, code := s.run("validate", good, "-o", "name")
	if want := "service/d/web\ntask/d/t\njob/d/j\nschedule/d/s\n"; code != api.ExitOK || out != want {
		t.Errorf("exit code %d, %q, want %q; %s", code, out, want, errs)
	}
	if !strings.Contains(errs, "warning: ") || !strings.Contains(errs, "PORT") {
		t.Errorf("no warning of the variable that the cell sets: %q", errs)
	}
	_, errs, code = s.run("validate", good, bad)
	if code != api.ExitUsage || !strings.Contains(errs, bad+":2:9: services.web") || !strings.Contains(errs, bad+":3:") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	s.fails(api.ExitUsage, "no spec file given", "validate")
}

// TestManualPages: every verb has one, and it has the text of its help.
func TestManualPages(t *testing.T) {
	s := newShell(t)
	dir := filepath.Join(t.TempDir(), "man1")
	s.ok("man", "--dir", dir)
	for _, page := range []string{"cantina.1", "cantina-job-run.1", "cantina-validate.1", "cantina-exec.1"} {
		if text, err := os.ReadFile(filepath.Join(dir, page)); err != nil ||
			!slices.Contains(strings.Split(string(text), "\n"), ".SH SYNOPSIS") {
			t.Errorf("%s: %v", page, err)
		}
	}
	if out, errs, code := s.run("man", "job", "run"); code != api.ExitOK || !strings.Contains(out, "CANTINA-JOB-RUN") {
		t.Errorf("exit code %d, %.80q, %s", code, out, errs)
	}
	s.fails(api.ExitUsage, `no verb "job flie"`, "man", "job", "flie")
	s.fails(api.ExitUsage, "VERB is not needed", "man", "job", "--dir", dir)
}
