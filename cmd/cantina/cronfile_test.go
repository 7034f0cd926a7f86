package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cantina/api"
)

const sampleCrontab = `# my jobs
MAILTO=a@b
SHELL=/bin/bash
A="b c"

# nightly
30 2 * * *  cd /srv && ./backup.sh --all > /dev/null 2>&1
CRON_TZ=America/New_York
@Daily date +\%F
0 9 * * 1-5 mail -s hi x%it's%there
0 9 * * 1-5 sudo -n mail x
@reboot x
61 * * * * x
`

// TestCronImport prints a spec file with the lines that a schedule can express; the others are named by number.
func TestCronImport(t *testing.T) {
	s := newShell(t)
	file := filepath.Join(t.TempDir(), "crontab")
	if err := os.WriteFile(file, []byte(sampleCrontab), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, code := s.run("cron", "import", file, "--tz", "Europe/Berlin", "--user", "root")
	for _, want := range []string{
		file + ":2: MAILTO is not taken over", file + ":12: @reboot is not a time",
		file + ":13: minute (column 1): 61 is not between 0 and 59",
	} {
		if !strings.Contains(errs, want) {
			t.Errorf("no %q in %s", want, errs)
		}
	}
	if code != api.ExitFailed {
		t.Errorf("exit code %d", code)
	}
	page := filepath.Join(t.TempDir(), "cantina.yaml")
	if err := os.WriteFile(page, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &cli{environment: environment{Now: now}, ctx: t.Context()}
	files, err := readSource(c, page)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parseSpecs(c, files)
	if err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	want := map[string]string{
		"backup": "30 2 * * * Europe/Berlin /bin/bash -c cd /srv && ./backup.sh --all > /dev/null 2>&1",
		"date":   "@Daily America/New_York /bin/bash -c date +%F",
		"mail":   "0 9 * * 1-5 America/New_York /bin/bash -c printf '%s' 'it'\\''s\nthere\n' | {\nmail -s hi x\n}",
		"mail-2": "0 9 * * 1-5 America/New_York /bin/bash -c sudo -n mail x",
	}
	for _, x := range parsed[0].Schedules {
		r := x.Definition.Task.Workload.Action.Run
		got := x.Definition.Line + " " + x.Definition.Zone + " " + r.Path + " " + strings.Join(r.Args, " ")
		if got != want[x.Name] {
			t.Errorf("%s: %q, want %q", x.Name, got, want[x.Name])
		}
		w := x.Definition.Task.Workload
		if len(w.Env) != 1 || w.Env[0].Value != "b c" || w.User != "root" || r.Dir != "/root" {
			t.Errorf("%s: %+v %q %q", x.Name, w.Env, w.User, r.Dir)
		}
		delete(want, x.Name)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
	if !strings.Contains(out, "  # nightly\n  backup:") {
		t.Errorf("no comment in\n%s", out)
	}
}

func TestCronLint(t *testing.T) {
	s := newShell(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	good := write("good", "0 2 * * * root x\n")
	s.ok("cron", "lint", "--system", good)
	for _, form := range []string{"* * * * * * 2027 x\n", "0 0 0 1 1 ? x\n", "0 0 1 1 * 2027 /bin/x\n"} {
		s.fails(api.ExitUsage, ":1: ", "cron", "lint", write("six", form))
		s.fails(api.ExitUsage, "no seconds and no year", "cron", "lint", "--system", write("six", form))
		s.fails(api.ExitFailed, "no seconds and no year", "cron", "import", write("six", form))
	}
	s.fails(api.ExitUsage, good+":1: ", "cron", "lint", "--system", write("good", "0 2 * * root\n"))
	odd := write("odd", "* 0 * * * x\n")
	if _, errs, code := s.run("cron", "lint", odd); code != 0 ||
		!strings.Contains(errs, odd+":1: warning: minute: fires 60 times") {
		t.Errorf("%d %s", code, errs)
	}
	if _, _, code := s.run("cron", "lint", odd, "--strict"); code != api.ExitFailed {
		t.Errorf("--strict: %d", code)
	}
	spec := write("a.yaml", "schedules:\n  s: {cron: '* 0 * * *', timezone: UTC, task: {command: x}}\n")
	if _, errs, code := s.run("cron", "lint", spec); code != 0 || !strings.Contains(errs, "fires 60 times") {
		t.Errorf("%d %s", code, errs)
	}
	s.fails(api.ExitUsage, "b.yaml:2:13: schedules.s.cron", "cron", "lint",
		write("b.yaml", "schedules:\n  s: {cron: '61 * * * *', timezone: UTC, task: {command: x}}\n"))
	s.fails(api.ExitUsage, "no such file", "cron", "lint", dir+"/none")
}

func TestProgramName(t *testing.T) {
	for command, want := range map[string]string{
		"/usr/bin/backup.sh -x": "backup", "cd / && run-parts --report /etc/cron.hourly": "run-parts",
		"A=b nice -n 5 /opt/x/y":                                  "y",
		"test -x /usr/sbin/anacron || ( cd / && run-parts /etc )": "run-parts", "[ -x /a ] && b": "b", "'q w'": "line",
		"$X": "line",
	} {
		if got := programName(command); got != want {
			t.Errorf("%q: %q, want %q", command, got, want)
		}
	}
}
