package spec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cantina/action"
	"cantina/batch"
	"cantina/lrp"
	"cantina/plan"
	"cantina/resource"
	"cantina/task"
)

func TestDemoFile(t *testing.T) {
	text, err := os.ReadFile("testdata/demo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse("demo.yaml", "/src/examples", text, testTimes())
	if err != nil {
		t.Fatal(err)
	}
	demo := func(args ...string) action.Action {
		return action.Action{Run: &action.Run{Path: "/src/bin/demo", Args: args}}
	}
	want := &File{Application: plan.Application{
		Domain: "demo",
		Services: []lrp.Desired{{
			Service: lrp.ServiceKey{Domain: "demo", Name: "web"}, Instances: 2,
			Restart: lrp.RestartPolicy{Base: time.Second},
			Workload: action.Workload{
				Action: demo("web"), Env: []action.Variable{{Name: "CANTINA_API", Value: "http://127.0.0.1:7480"}},
				Ports: []action.Port{{Name: "http"}},
				Checks: []action.Check{{HTTP: &action.HTTPCheck{Port: "http", Path: "/health"},
					StartupInterval: 200 * time.Millisecond}},
				Resources: resource.Amounts{resource.MemoryMB: 64, resource.CPUMilli: 100},
			},
		}},
		Tasks: []plan.NamedTask{{Name: "toolchain", Definition: task.Definition{Workload: action.Workload{
			Action: demo("toolchain"), ResultFile: "result.json", TimeLimit: 2 * time.Minute,
		}}}},
		Jobs: []plan.NamedJob{{
			Job: batch.Job{
				Name: "measure", Domain: "demo", Forest: "measure", Priority: 1, Retries: 2,
				Resources: map[string]resource.Amounts{"package": {"readers": 1}},
				Workload:  action.Workload{Action: demo("measure", "{}")},
			},
			Forest: batch.ForestSpec{
				Name: "measure", Instance: "measure", Levels: []string{"host", "package", "file"},
				Sources: []batch.Source{
					{Kind: batch.SourceManual, Manual: []batch.ManualNode{{Name: "localhost"}}},
					{Kind: batch.SourceScript, ParentLevel: "host", Script: []string{"/src/bin/demo", "packages"}},
					{Kind: batch.SourceScript, ParentLevel: "package", Script: []string{"/src/bin/demo", "files"}},
				},
				Limits: map[string]map[string]batch.Limit{"package": {"readers": {Limit: 2}}},
			},
		}},
	}}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(File{}), cmp.FilterPath(func(p cmp.Path) bool {
		return strings.HasSuffix(p.String(), "names") || strings.HasSuffix(p.String(), "first")
	}, cmp.Ignore())); d != "" {
		t.Fatalf("-want +got\n%s", d)
	}
}

func TestValuesReachTheDomainByteByByte(t *testing.T) {
	f, err := Parse("x", "", []byte(`
services:
  s:
    command: "echo $HOME; exit 3"
    env:
      DOLLAR: $HOME ${X} $(y)
      QUOTES: "it's \"so\""
      LINES: "a\nb\n"
      BLOCK: |
        one
         two
      NUMBER: 0123
      FLOAT: 1.10
      TRUTH: yes
      DATE: 2026-01-02
      EMPTY: ""
      HIGH: "\u00ff"
    user: 65534:65534
    stop_signal: INT
    stop_grace: 1m30s
    parent_death_signal: none
    own_session: false
    kill_mode: term
    kill_target: group
    log_rate: 1.5k
    memory: 1000k
    cpu: 0.25
    disk: 1Gi
    resources: {gpu: 2}
    isolation: rootfs
    rootfs: /images/x
    own_net: true
    exclusive: true
    restart: {mode: on_failure, immediate: 0, give_up: -1, reset_after: 1d}
`), testTimes())
	if err != nil {
		t.Fatal(err)
	}
	w := f.Services[0].Workload
	if d := cmp.Diff(&action.Run{Path: "/bin/sh", Args: []string{"-c", "echo $HOME; exit 3"}}, w.Action.Run); d != "" {
		t.Error(d)
	}
	if w.User != "65534:65534" || w.Rootfs != "/images/x" || !w.OwnNet {
		t.Errorf("%q %q %v", w.User, w.Rootfs, w.OwnNet)
	}
	var env []string
	for _, v := range w.Env {
		env = append(env, v.Name+"="+v.Value)
	}
	if d := cmp.Diff([]string{
		"DOLLAR=$HOME ${X} $(y)", `QUOTES=it's "so"`, "LINES=a\nb\n", "BLOCK=one\n two\n", "NUMBER=0123", "FLOAT=1.10",
		"TRUTH=yes",
		"DATE=2026-01-02", "EMPTY=", "HIGH=\u00ff",
	}, env); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(action.Termination{
		Signal: 2, Grace: 90 * time.Second, Mode: action.KillTerm, Target: action.TargetGroup, ParentDeath: -1,
		NoSession: true,
	}, w.Termination); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(resource.Amounts{resource.MemoryMB: 1, resource.CPUMilli: 250, resource.DiskMB: 1024, "gpu": 2},
		w.Resources); d != "" {
		t.Error(d)
	}
	s := f.Services[0]
	if f.Domain != "default" || s.Instances != 1 || !s.Exclusive || s.Strategy != lrp.StopFirst ||
		s.OnPartition != lrp.PartitionStop ||
		w.LogRate != 1500 || w.Isolation != action.IsolationRootfs || w.OnCellRestart != action.RestartStop {
		t.Errorf("got %+v", s)
	}
	if d := cmp.Diff(lrp.RestartPolicy{Mode: lrp.RestartOnFailure, Immediate: -1, GiveUp: -1, ResetAfter: 24 * time.Hour},
		s.Restart); d != "" {
		t.Error(d)
	}
}

// TestAnImageNamesItsOwnProgram: with a root file system, and only then, the command may be
// left out.
func TestAnImageNamesItsOwnProgram(t *testing.T) {
	f,
		err := Parse("x", "/base",
		[]byte("services: {s: {isolation: rootfs, rootfs: ./image.tar, dir: /srv, open_files: 7}}\n"+
			"jobs: {j: {levels: [l], nodes: [{manual: [n]}], isolation: rootfs, rootfs: ../image.tar}}\n"), testTimes())
	if err != nil {
		t.Fatal(err)
	}
	w := f.Services[0].Workload
	if d := cmp.Diff(&action.Run{Dir: "/srv", OpenFiles: 7}, w.Action.Run); d != "" || w.Rootfs != "/base/image.tar" {
		t.Error(d, w.Rootfs)
	}
	if w := f.Jobs[0].Job.Workload; w.Rootfs != "/image.tar" || w.Action.Run == nil || w.Action.Run.Path != "" {
		t.Errorf("%+v", w)
	}
}

// TestKeepOfASingleProgram: a single program, also one that an image names.
func TestKeepOfASingleProgram(t *testing.T) {
	f, err := Parse("x", "/base", []byte(`
services:
  a: {command: [a], on_cell_restart: keep, setup: {run: {command: [b]}}, own_session: true}
  b: {action: {run: {command: [a]}}, on_cell_restart: keep}
  c: {isolation: rootfs, rootfs: ./image.tar, on_cell_restart: keep}
`), testTimes())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range f.Services {
		if s.Workload.OnCellRestart != action.RestartKeep || s.Validate() != nil {
			t.Errorf("%+v: %v", s, s.Validate())
		}
	}
}

// wrong has files and all errors that they must give.
var wrong = map[string]struct{ text, says string }{
	"fields and forms of other tools": {"services:\n  web:\n    cmd: [a]\n    command: [a]\n    replicas: 2\n" +
		"    restart: always\n    ports: [8080, http]\n", `
f:3:5: services.web: unknown field "cmd"; did you mean command?
f:5:5: services.web: unknown field "replicas"; did you mean instances?
f:6:14: services.web.restart: must be a mapping, not "always"; use {mode: always}
f:7:13: services.web.ports[0]: must be a mapping, not 8080; use {name: http, fixed: 8080}, or {name:
	http} for a free port
f:7:19: services.web.ports[1]: must be a mapping, not "http"; use {name: http}`},
	"unknown field": {"services:\n  web:\n    command: [a]\n    instnaces: 2\n", `
f:4:5: services.web: unknown field "instnaces"; did you mean instances?`},
	"all errors at once": {"domian: x\nservices:\n  web:\n    command: 7\n    instances: -1\n    memory: 64\n" +
		"    checks: {}\n", `
f:1:1: unknown field "domian"; did you mean domain?
f:4:14: services.web.command: must be a list of program and arguments, or a string for the shell, not 7; use "7"
f:5:16: services.web.instances: must be from 0 to 1000000
f:6:13: services.web.memory: a size needs a unit, not a bare number; did you mean 64Mi?
f:7:13: services.web.checks: must be a list, not a mapping`},
	"keep without a shim": {`services:
  a: {command: [a], on_cell_restart: keep, sidecars: [{run: {command: [b]}}]}
  b: {action: {serial: [{run: {command: [a]}}]}, on_cell_restart: keep}
tasks:
  c: {command: [a], own_session: false, on_cell_restart: keep}
`, `
f:2:54: services.a.sidecars: work with on_cell_restart: keep has none; use on_cell_restart:
	stop, or make the sidecar a service of its own
f:3:67: services.b.on_cell_restart: keep needs an action that is one program, no sidecars, and a session of its own;
	use on_cell_restart: stop, or a single command
f:5:58: tasks.c.on_cell_restart: keep needs an action that is one program, no sidecars, and a session of its own;
	use on_cell_restart: stop, or a single command`},
	"bare duration": {"tasks: {t: {command: [a], time_limit: 10}}", `
f:1:39: tasks.t.time_limit: a duration needs a unit, not a bare number; did you mean 10s?`},
	"impossible duration": {"tasks: {t: {command: [a], time_limit: 10x}}", `
f:1:39: tasks.t.time_limit: must be a duration like 10s, not "10x"; units are ns, us, ms, s, m, h, d and w`},
	"float for a count": {"services: {s: {command: [a], instances: 2.0}}", `
f:1:41: services.s.instances: must be a whole number, not 2.0`},
	"text for a count": {`services: {s: {command: [a], instances: "2"}}`, `
f:1:41: services.s.instances: must be a whole number, not "2"`},
	"enum": {"services: {s: {command: [a], isolation: namespace}}", `
f:1:41: services.s.isolation: must be process, none, namespaces or rootfs, not "namespace"; did you mean namespaces?`},
	"signal": {"services: {s: {command: [a], stop_signal: SIGTREM}}", `
f:1:43: services.s.stop_signal: must be the name of a signal like TERM, not "SIGTREM"; did you mean TERM?`},
	"twice": {"domain: a\ndomain: b\n", `
f:2:1: duplicate key "domain"; first used in line 1`},
	"NUL in env": {"tasks:\n  t:\n    command: [a]\n    env:\n      A: \"x\\0y\"\n", `
f:5:10: tasks.t.env.A: must not contain a NUL byte; programs cannot receive it`},
	"variable's name": {"tasks: {t: {command: [a], env: {A=B: x}}}", `
f:1:33: tasks.t.env: a variable name must not be empty or contain '='`},
	"nothing for a text": {"tasks: {t: {command: [a], env: {A: }}}", `
f:1:36: tasks.t.env.A: must be a string, not empty; use ""`},
	"users, wherever they stand": {`services:
  s:
    command: [a]
    user: 4294967295
    setup: {run: {command: [a], user: "-1"}}
    sidecars: [{run: {command: [a], user: "a b"}}]
    checks: [{exec: {command: [a], user: "nobody:"}}]
    readiness_checks: [{exec: {command: [a], user: ""}}]
    monitor: {run: {command: [a], user: "65534:4294967295"}}
tasks: {t: {action: {try: {run: {command: [a], user: 00}}}}}
jobs: {j: {levels: [l], nodes: [{manual: [n]}], command: [a], user: 99999999999}}
schedules: {c: {cron: "0 2 * * *", timezone: UTC, task: {command: [a], user: ":0"}}}
`, `
f:4:11: services.s.user: "4294967295": not a number from 0 to 4294967294
f:5:39: services.s.setup.run.user: "-1": neither a name nor a number from 0 to 4294967294
f:6:43: services.s.sidecars[0].run.user: "a b": not a name: it holds ' '
f:7:42: services.s.checks[0].exec.user: "nobody:": group "": the name or number is missing
f:8:52: services.s.readiness_checks[0].exec.user: "": the name or number is missing
f:9:41: services.s.monitor.run.user: "65534:4294967295": group "4294967295": not a number from 0 to 4294967294
f:10:54: tasks.t.action.try.run.user: "00": not a number as it is written; write 0
f:11:69: jobs.j.user: "99999999999": not a number from 0 to 4294967294
f:12:78: schedules.c.task.user: ":0": user "": the name or number is missing`},
	"roots": {`services:
  tag: {command: [a], isolation: rootfs, rootfs: "golang:1.22"}
  plain: {command: [a], isolation: rootfs, rootfs: root}
  beside: {command: [a], isolation: rootfs, rootfs: ./root}
  odd: {command: [a], isolation: rootfs, rootfs: "docker://x"}
`, `
f:2:50: services.tag.rootfs: "golang:1.22": an image of a registry is pinned by its digest, like
	golang:1.22@sha256:DIGEST (a directory or a tarball needs its absolute path)
f:3:52: services.plain.rootfs: "root": an image of a registry is pinned by its digest, like root@sha256:DIGEST (a
	directory or a tarball needs its absolute path); use ./root for a path relative to the directory of this file
f:4:53: services.beside.rootfs: "./root" is relative, but the file has no directory; use an absolute path
f:5:50: services.odd.rootfs: "docker://x": neither the absolute path of a directory or a tarball nor an image of a
	registry like NAME@sha256:DIGEST`},
	"unreachable ports": {"services: {s: {command: [a], isolation: namespaces, own_net: true, ports: [{name: http}]}}", `
f:1:75: services.s.ports: own_net has only a loopback interface: no
	other process could reach the ports; remove own_net or the ports`},
	"no command": {"tasks: {t: {}}", `
f:1:12: tasks.t: field command is missing; or use action`},
	"both": {"tasks: {t: {command: [a], action: {run: {command: [b]}}}}", `
f:1:35: tasks.t.action: command and action are mutually exclusive`},
	"two kinds of step": {"tasks: {t: {action: {run: {command: [b]}, try: {run: {command: [c]}}}}}", `
f:1:21: tasks.t.action: a step needs exactly one kind, not 2; put several steps under serial`},
	"name": {"services: {a/b: {command: [a]}}", `
f:1:12: services: a name is 1 to 128 letters, digits, '-', '_' and '.', and begins with a letter, a digit or '_'`},
	"names like flags and hidden files": {"services:\n  -s: {command: [a]}\njobs:\n  .j: {command: [a]}\n", `
f:2:3: services: a name is 1 to 128 letters, digits, '-', '_' and '.', and begins with a letter, a digit or '_'
f:4:3: jobs: a name is 1 to 128 letters, digits, '-', '_' and '.', and begins with a letter, a digit or '_'`},
	"domain like a hidden file": {"domain: .d\n", `
f:1:9: domain: a name is 1 to 128 letters, digits, '-', '_' and '.', and begins with a letter, a digit or '_'`},
	"ports of one variable": {"services:\n  s:\n    command: [a]\n    ports:\n    - {name: a-b}\n    - {name: a.b}\n" +
		"    - {name: A_B}\n    - {name: a-b}\n    - {name: -c}\n", `
f:6:14: services.s.ports[1].name: sets the variable PORT_A_B, like port a-b in line 5; choose another name
f:7:14: services.s.ports[2].name: sets the variable PORT_A_B, like port a-b in line 5; choose another name
f:8:14: services.s.ports[3].name: is a duplicate: each name must be unique; see line 5
f:9:14: services.s.ports[4].name: a name is 1 to 128 letters, digits, '-', '_' and '.', and begins with a letter, a
	digit or '_'`},
	"blank commands": {"services:\n  s: {command: '   '}\n  t: {action: {run: {command: \"\\n\"}}}\n", `
f:2:16: services.s.command: must not be empty
f:3:31: services.t.action.run.command: must not be empty`},
	"blank program": {"services: {s: {command: [' ', x]}}", `
f:1:26: services.s.command[0]: the program name must not be empty`},
	"home directories": {"tasks:\n  a: {command: [x], dir: '~/app'}\n  b: {command: ['~/bin/x']}\n" +
		"  c: {command: [x], dir: $HOME/app}\n  d: {action: {run: {command: [x], dir: '~'}}}\n" +
		"  e: {command: [x, '~/y'], dir: '~x'}\n", `
f:2:26: tasks.a.dir: "~/app" is not expanded; use an absolute path, or ./ for the directory of this file
f:3:16: tasks.b.command: "~/bin/x" is not expanded; use an absolute path, or ./ for the directory of this file
f:4:26: tasks.c.dir: "$HOME/app" is not expanded; use an absolute path, or ./ for the directory of this file
f:5:41: tasks.d.action.run.dir: "~" is not expanded; use an absolute path, or ./ for the directory of this file`},
	"durations of nothing": {`services:
  s:
    command: [a]
    ports: [{name: http}]
    start_timeout: 0s
    checks: [{tcp: {}, timeout: 0s, startup_interval: 0ms, interval: 0h}]
    restart: {base: 0s, max: 0s, reset_after: 0s}
    update: {settle: 0s, progress_deadline: 0s}
tasks: {t: {command: [a], time_limit: 0s, pending_timeout: 0m}}
jobs: {j: {command: [a], nodes: [{script: [x], timeout: 0s}]}}
schedules: {c: {cron: "@every 1m", misfire_deadline: 0s, jitter: 0s, task: {command: [a]}}}
`, `
f:5:20: services.s.start_timeout: must be longer than 0; remove it: there is then no limit
f:6:33: services.s.checks[0].timeout: must be longer than 0; remove it for the default
f:6:55: services.s.checks[0].startup_interval: must be longer than 0; remove it for the default
f:6:70: services.s.checks[0].interval: must be longer than 0; remove it for the default
f:7:21: services.s.restart.base: must be longer than 0; remove it for the default
f:7:30: services.s.restart.max: must be longer than 0; remove it for the default
f:7:47: services.s.restart.reset_after: must be longer than 0; remove it for the default
f:8:45: services.s.update.progress_deadline: must be longer than 0; remove it: the default is 10m
f:9:39: tasks.t.time_limit: must be longer than 0; remove it: there is then no limit
f:9:60: tasks.t.pending_timeout: must be longer than 0; when_full: fail does not wait for room
f:10:57: jobs.j.nodes[0].timeout: must be longer than 0; remove it: the default is 30s
f:11:54: schedules.c.misfire_deadline: must be longer than 0; without it, no time is too old`},
	"nodes twice": {"jobs:\n  j:\n    command: [a]\n    nodes:\n    - manual: [x, x, y,\n        x]\n", `
f:5:19: jobs.j.nodes[0].manual[1]: duplicate node "x"; it is in line 5, too
f:6:9: jobs.j.nodes[0].manual[3]: duplicate node "x"; it is in line 5, too`},
	"nodes that make no tree": {"jobs:\n  a: {command: [a], nodes: [{manual: {x: [y]}}]}\n" +
		"  b: {command: [a], levels: [l, m, n], nodes: [{manual: {x: [y], y: [x]}}]}\n" +
		"  c: {command: [a], levels: [l, m], nodes: [{manual: {x: [y, y]}}]}\n", `
f:2:38: jobs.a.nodes[0].manual: node "y" below "x" is deeper than the 1 levels
f:3:57: jobs.b.nodes[0].manual: each node is a child of another one
f:4:54: jobs.c.nodes[0].manual: duplicate node "y" below "x"`},
	"schedule without a calendar": {"schedules:\n  nightly: {task: {command: a}}\n", `
f:2:12: schedules.nightly: field cron is missing`},
	"schedule without a target": {"schedules:\n  s: {cron: '@every 1m'}\n", `
f:2:6: schedules.s: a schedule needs exactly one of task, job and signal`},
	"schedule with two targets": {"schedules:\n  s: {cron: '@every 1m', task: {command: a}, signal: {service: " +
		"web, signal: HUP}}\n", `
f:2:6: schedules.s: a schedule needs exactly one of task, job and signal`},
	"scheduled signal by its number": {"schedules:\n  s: {cron: '@every 1m', signal: {service: web, signal: 1}}\n", `
f:2:57: schedules.s.signal.signal: must be the name of a signal like TERM, not a number; use HUP`},
	"scheduled signal with a prefix": {"schedules:\n  s: {cron: '@every 1m', signal: {service: web, signal: SIGUSR1}}\n", `
f:2:57: schedules.s.signal.signal: must be the name of a signal like TERM, not "SIGUSR1"; did you mean USR1?`},
	"scheduled signal without a service": {"schedules:\n  s: {cron: '@every 1m', signal: {signal: HUP}}\n", `
f:2:34: schedules.s.signal: field service is missing`},
	"scheduled signal to a wrong name": {"schedules:\n  s: {cron: '@every 1m', signal: {service: 'a/b', signal: HUP}}\n", `
f:2:44: schedules.s.signal.service: a name is 1 to 128 letters, digits, '-', '_' and '.', and begins with a letter, a
	digit or '_'; use the name of a service of domain default`},
	"scheduled signal with policies of work": {"schedules:\n  s:\n    cron: '@every 1m'\n    overlap: replace\n" +
		"    misfire: all\n    signal: {service: web, signal: HUP}\n", `
f:4:14: schedules.s.overlap: only valid for tasks and jobs; a signal does not keep running; remove it
f:5:14: schedules.s.misfire: missed signals are sent at most once; use once or skip`},
	"schedule without a zone": {"schedules:\n  s: {cron: '0 2 * * *', task: {command: a}}\n", `
f:2:13: schedules.s.cron: field timezone is missing; for example Europe/Berlin or UTC`},
	"schedule with a wrong line": {"schedules:\n  s:\n    cron: '61 * * * *'\n    timezone: Europe/Berlin\n" +
		"    task: {command: a}\n", `
f:3:11: schedules.s.cron: minute (column 1): 61 is not between 0 and 59`},
	"schedule that must choose": {"schedules:\n  s:\n    cron: '30 2 * * *'\n    timezone: Europe/Berlin\n" +
		"    fold: first\n    task: {command: a}\n", `
f:3:11: schedules.s.cron: cron: gap or fold must be chosen: gap is not set, and 02:30 on 2026-03-29 does not exist in
	Europe/Berlin: the clock goes from 02:00 to 03:00; set gap to run (once, right after) or skip`},
	"schedule with wrong policies": {"schedules:\n  s:\n    cron: '@every 1m'\n    overlap: allow\n    misfire_max: 3\n" +
		"    task: {command: a}\n", `
f:4:14: schedules.s.overlap: overlap: allow needs overlap_max; add overlap_max: 3
f:5:18: schedules.s.misfire_max: only valid with misfire: all`},
	"scheduled job named like a job": {"jobs:\n  j: {command: [a]}\nschedules:\n  j: {cron: '@every 1m', job: {command: " +
		"[a]}}\n", `
f:4:3: schedules.j: job j; choose another name`},
	"port of a check": {"services: {s: {command: [a], ports: [{name: http}], checks: [{http: {port: htpp}}]}}", `
f:1:76: services.s.checks[0].http.port: the service has no port htpp; did you mean http?`},
	"exclusive": {"services: {s: {command: [a], exclusive: true, on_partition: keep, update: {order: start_first}}}", `
f:1:61: services.s.on_partition: an exclusive service is always stopped on a partition; use stop, or remove the field
f:1:83: services.s.update.order: an exclusive service is always replaced stop_first;
	use stop_first, or remove the field`},
	"download without checksum": {"tasks: {t: {action: {download: {from: 'http://h/x', to: x}}}}", `
f:1:32: tasks.t.action.download: a download needs sha256 or sha512; or set allow_unpinned: true to accept any content`},
	"relative without a directory": {"tasks: {t: {command: [./a]}}", `
f:1:22: tasks.t.command: "./a" is relative, but the file has no directory; use an absolute path`},
	"own field": {"services: {s: {command: [a], resources: {memory_mb: 7}}}", `
f:1:42: services.s.resources.memory_mb: this resource has its own field; use memory: 64Mi`},
	"job's levels": {`
jobs:
  j:
    command: [a, "{}"]
    levels: [host, cell, host]
    level: hots
    nodes: [{script: [x], parent_level: hosts}, {manual: [a], script: [b]}, {}]
    resources: {host: {io: {limit: 1, take: 2}}, disk: {}, cell: {gpu: {limit: 1}}}
    filters: {hsot: {}, host: {include_regex: "(", fraction: 0}}
    depends_on: [k]
    backoff: [30s, 30s, repeat]
`, `
f:5:20: jobs.j.levels[1]: "cell" is taken or reserved
f:5:26: jobs.j.levels[2]: "host" is taken or reserved
f:6:12: jobs.j.level: no level "hots"; did you mean host?
f:7:41: jobs.j.nodes[0].parent_level: no level "hosts"; did you mean host?
f:7:49: jobs.j.nodes[1]: a source of nodes needs exactly one of manual, script, range, file or add_time
f:7:77: jobs.j.nodes[2]: a source of nodes needs exactly one of manual, script, range, file or add_time
f:8:45: jobs.j.resources.host.io.take: must not exceed limit, or the job could never run
f:8:50: jobs.j.resources.disk: no level "disk"
f:8:80: jobs.j.resources.cell.gpu.limit: cells report their own capacity; set only take
f:9:15: jobs.j.filters.hsot: no level "hsot"; did you mean host?
f:9:47: jobs.j.filters.host.include_regex: missing closing ): ` + "`(`" + `
f:9:62: jobs.j.filters.host.fraction: must be greater than 0 and at most 1
f:10:18: jobs.j.depends_on[0]: no job "k" in this file
f:11:20: jobs.j.backoff[1]: each pause must be longer than the one before, in whole seconds`},
	"calls": {`
jobs:
  a: {command: "x $1", call: bistro}
  b: {action: {run: {command: [x]}}, call: bistro}
  c: {command: [x], config: {a: 1}}
  d: {command: [x], call: bistro, nodes: [{manual: [q]}], config: {a: {b: [1, null, x]}}}
`, `
f:3:16: jobs.a.command: call: bistro appends arguments and needs a list; use [sh, -c, SCRIPT, sh];
	$1 is the node, $2 the status pipe, $3 the JSON object
f:4:44: jobs.b.call: call: bistro needs command
f:5:29: jobs.c.config: only valid with call: bistro`},
	"form of calls": {"jobs: {a: {command: [x], call: bistr, config: [a]}}", `
f:1:32: jobs.a.call: must be template or bistro, not "bistr"; did you mean bistro?
f:1:47: jobs.a.config: must be a mapping, not a list`},
	"sources of nodes": {`
jobs:
  j:
    command: [a, "{}"]
    levels: [host, db]
    nodes:
      - {range: {first: 5, last: 4}}
      - {range: {last: 4, format: x}, timeout: 1s}
      - {range: {last: 20000000}, parent_level: db}
      - {range: {first: 1}}
      - {file: nodes, parent_level: host}
      - {file: ""}
      - {file: x, manual: []}
`, `
f:10:17: jobs.j.nodes[3].range: field last is missing`},
	"meaning of sources of nodes": {`
jobs:
  j:
    command: [a, "{}"]
    levels: [host, db]
    nodes:
      - {range: {first: 5, last: 4}}
      - {range: {last: 4, format: x}, timeout: 1s}
      - {range: {last: 20000000}, parent_level: db}
      - {file: nodes, parent_level: host}
      - {file: ""}
      - {file: /x, manual: []}
`, `
f:7:34: jobs.j.nodes[0].range.last: must not be below first
f:8:35: jobs.j.nodes[1].range.format: needs {i}, the number of the node
f:8:48: jobs.j.nodes[1].timeout: only valid with script
f:9:24: jobs.j.nodes[2].range.last: more than 10000000 nodes
f:9:49: jobs.j.nodes[2].parent_level: db is on the last level and cannot have children
f:10:16: jobs.j.nodes[3].file: "nodes" is relative; use an absolute path, or ./ for the directory of this file
f:10:37: jobs.j.nodes[3].parent_level: only valid with script, range and add_time
f:11:16: jobs.j.nodes[4].file: must not be empty
f:12:9: jobs.j.nodes[5]: a source of nodes needs exactly one of manual, script, range, file or add_time`},
	"circle": {"jobs:\n  a: {command: [x], levels: [n], nodes: [{manual: [q]}], depends_on: [b]}\n" +
		"  b: {command: [x], nodes_of: a, depends_on: [c]}\n  c: {command: [x], nodes_of: a, depends_on: [a]}\n" +
		"  d: {command: [x], nodes_of: a, depends_on: [a]}\n", `
f:2:71: jobs.a.depends_on[0]: dependency cycle: b depends on a
f:3:47: jobs.b.depends_on[0]: dependency cycle: c depends on b
f:4:47: jobs.c.depends_on[0]: dependency cycle: a depends on c`},
	"braces in a shell text": {"jobs: {j: {command: 'wc -l {}'}}", `
f:1:21: jobs.j.command: {} in a shell command would run the node's name as program text;
	use "$CANTINA_NODE", or write command as a list`},
	"merge key": {"x: &x {a: 1}\ndomain: d\nservices:\n  s:\n    <<: *x\n", `
f:1:1: unknown field "x"
f:5:5: services.s: merge keys are not supported; write out the fields, or use an alias for a whole value`},
	"a list": {"- a\n", `
f:1:1: must be a mapping, not a list`},
	"empty":       {"", "\nf:1:1: the file is empty"},
	"only spaces": {"  \n# nothing\n", "\nf:1:1: the file is empty"},
	"raw NUL":     {"domain: a\ntasks: \x00", "\nf:2:8: NUL is not allowed"},
	"not UTF-8":   {"domain: é\xff", "\nf:1:10: not UTF-8"},
	"control":     {"domain: \x1b[0m", "\nf:1:9: control character 0x1b is not allowed"},
	"tabs": {"services:\n\tweb:\n", `
f:2:1: not YAML: found character that cannot start any token; YAML is indented with spaces, not tabs;
	a string that starts with @, ` + "`" + ` or % needs quotes`},
	"two documents": {"domain: a\n---\ndomain: b\n", `
f:2:1: second document in one file; put it into a separate file`},
}

func TestProblemsAreAllReportedWithTheirPlace(t *testing.T) {
	for name, c := range wrong {
		t.Run(name, func(t *testing.T) {
			f, err := Parse("f", "", []byte(c.text), testTimes())
			var p *Problems
			if !errors.As(err, &p) || f != nil {
				t.Fatalf("got %v, %v", f, err)
			}
			says := strings.ReplaceAll(strings.TrimPrefix(c.says, "\n"), "\n\t", " ") // a tab continues a line
			if d := cmp.Diff(says, err.Error()); d != "" {
				t.Fatalf("-want +got\n%s", d)
			}
		})
	}
}

func TestGarbageEndsSoon(t *testing.T) {
	line := func(s string, n int) string { return strings.Repeat(s, n) }
	for name, text := range map[string]string{
		"brackets":     line("[", 1<<20),
		"braces":       line("{a: ", 1<<18),
		"dashes":       line("- ", 1<<19),
		"questions":    line("? ", 1<<19),
		"anchors":      line("&a ", 1<<19),
		"stairs":       stairs(3000),
		"unclosed":     `a: "` + line(`\n`, 5<<20),
		"unknown keys": manyKeys(200_000),
		"a wrong list": "tasks: [" + line("x,", 1<<20) + "]",
		"laughs":       "a: &a [x,x,x,x,x,x,x,x,x]\n" + laughs(8),
		"too large":    line("# c\n", 5<<20),
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := Parse("f", "", []byte(text), testTimes())
			if err == nil {
				t.Fatal("accepted")
			}
			if took := time.Since(start); took > time.Minute { // with the race detector, beside other tests
				t.Errorf("took %v", took)
			}
			if n := len(err.Error()); n > 64<<10 {
				t.Errorf("the error has %d bytes", n)
			}
		})
	}
}

func stairs(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: 1\n", i)
	}
	return b.String()
}

func laughs(n int) string {
	var b strings.Builder
	for i := range n {
		a, c := string(rune('a'+i)), string(rune('b'+i))
		fmt.Fprintf(&b, "%s: &%s [*%s,*%s,*%s,*%s,*%s,*%s,*%s,*%s,*%s]\n", c, c, a, a, a, a, a, a, a, a, a)
	}
	return b.String()
}

func TestFourMegabytesOfTasks(t *testing.T) {
	var b strings.Builder
	n := 0
	for b.WriteString("tasks:\n"); b.Len() < 4<<20; n++ {
		fmt.Fprintf(&b, "  t%d:\n    command: [/bin/echo, 'hello %d']\n    env: {A: 'b $c'}\n    memory: 64Mi\n", n, n)
	}
	f, err := Parse("f", "", []byte(b.String()), testTimes())
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Tasks) != n || f.Tasks[n-1].Definition.Workload.Resources[resource.MemoryMB] != 64 {
		t.Fatalf("%d of %d tasks", len(f.Tasks), n)
	}
}

func TestMerge(t *testing.T) {
	parse := func(name, text string) *File {
		f, err := Parse(name, "", []byte(text), testTimes())
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	a := parse("a", "domain: x\ntasks: {t: {command: [a]}}")
	b := parse("b", "domain: y\ntasks: {t: {command: [a]}}")
	c := parse("c", "domain: x\nservices: {t: {command: [a]}}")
	got, err := Merge([]*File{a, b, c})
	if err != nil || len(got) != 2 || got[0].Domain != "x" || len(got[0].Tasks) != 1 || len(got[0].Services) != 1 ||
		len(a.Services) != 0 {
		t.Fatalf("got %+v, %v", got, err)
	}
	if _, err := Merge([]*File{a, parse("d", "domain: x\ndomain_ttl: 1h\ntasks: {t: {command: [b]}}")}); err == nil ||
		err.Error() != "d:1:1: domain_ttl: differs from the one in a\n"+
			"d:3:9: duplicate: task t of domain x is already defined; see a:2" {
		t.Fatalf("got %v", err)
	}
}

func TestSizesAndDurations(t *testing.T) {
	for s, want := range map[string]int64{"64Mi": 64 << 20, "1.5G": 1.5e9, "1k": 1000, "0Ki": 0, "0.1Ki": 103,
		"999999999Ti": -1, "64": -1, "64MB": -1, "-1Mi": -1, "1e3k": -1} {
		got, ok := ParseSize(s)
		if want < 0 && ok || want >= 0 && (!ok || got != want) {
			t.Errorf("%s: %d, %v", s, got, ok)
		}
	}
	for s, want := range map[string]time.Duration{"10s": 10 * time.Second, "1h30m": 90 * time.Minute,
		"1.5d": 36 * time.Hour, "2w": 14 * 24 * time.Hour, "0s": 0, "100us": 100 * time.Microsecond, "10": -1, "999999w": -1,
		"-1s": -1, "1s 2m": -1} {
		got, ok := ParseDuration(s)
		if want < 0 && ok || want >= 0 && (!ok || got != want) {
			t.Errorf("%s: %v, %v", s, got, ok)
		}
	}
	if got := FormatSize(64 << 20); got != "64Mi" {
		t.Error(got)
	}
}

// TestASyntaxErrorHasItsLine: the reader counts from 0, names the value around the
// mistake, or nothing.
func TestASyntaxErrorHasItsLine(t *testing.T) {
	for text, want := range map[string]string{
		"services:\n  web:\n    command: a\n   image: b\n": "f:4:4: not YAML: did not find expected key",
		"services: {web: [a\n":                             "f:1:1: not YAML: did not find expected ',' or ']'",
		"a: [1,\n 2]\nb: [3\n":                             "f:3:1: not YAML: did not find expected ',' or ']'",
		"- a\nb: c\n":                                      "f:2:1: not YAML: did not find expected '-' indicator",
		"x: &a\n  y: *b\n":                                 "f:2:3: not YAML: unknown anchor 'b' referenced",
		"a: 1\n b: 2\n":                                    "f:2:2: not YAML: mapping values are not allowed in this context",
	} {
		if _, err := Parse("f", "/", []byte(text), testTimes()); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestPortsAreReportedWithAllOtherErrors(t *testing.T) {
	text := `services:
  web:
    command: [a]
    instances: many
    ports: [{name: http}, {name: http}]
    checks: [{tcp: {port: htp}}]
  odd:
    command: [a]
    ports: [{nam: http}]
    checks: [{tcp: {port: http}}]
`
	_, err := Parse("f", "/", []byte(text), testTimes())
	for _, want := range []string{"services.web.instances: must be a whole",
		"services.web.ports[1].name: is a duplicate: each name must be unique", "no port htp; did you mean http?",
		"odd.ports[0]"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
	if err != nil && strings.Contains(err.Error(), "odd.checks") {
		t.Errorf("what follows from a mistake is no mistake of its own:\n%v", err)
	}
}

func TestAPortIsFixedOnceInAService(t *testing.T) {
	text := "services:\n  web:\n    command: [a]\n    ports:\n      - {name: a, fixed: 80}\n      - {name: b}\n" +
		"      - {name: c, fixed: 80}\n"
	want := "f:7:26: services.web.ports[2].fixed: same fixed port as port a; use a different number for each port of a " +
		"service"
	if _, err := Parse("f", "/", []byte(text), testTimes()); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestParseCPU(t *testing.T) {
	for text, want := range map[string]int{"0.5": 500, "500m": 500, "2": 2000, "0.0001": 1, "x": -1, "-1": -1, "": -1} {
		got, ok := ParseCPU(text)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// testTimes are the zones of the machine, at a fixed time.
func testTimes() Times {
	return Times{Now: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), Zone: time.LoadLocation}
}

// TestExamplesAreAccepted without a warning; the schedules show each feature of a schedule.
func TestExamplesAreAccepted(t *testing.T) {
	files, err := filepath.Glob("../examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	times := Times{Now: time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), Zone: time.LoadLocation}
	starts := map[string]bool{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Parse(name, filepath.Dir(name), text, times)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range f.Schedules {
			if err := s.Definition.Validate(); err != nil || len(s.Warnings) > 0 {
				t.Errorf("%s: schedule %s: %v, warnings %q", name, s.Name, err, s.Warnings)
			}
			starts[s.Definition.Starts()] = true
		}
	}
	if len(starts) != 3 {
		t.Errorf("the examples start only %v", starts)
	}
}

// TestAnErrorOfFormHidesNoOther: an object of a file has an error of form. The other objects are checked in the
// same run; nothing is guessed about this one.
func TestAnErrorOfFormHidesNoOther(t *testing.T) {
	const meaning = `
services:
  s1: {command: [a], exclusive: true, on_partition: keep}
tasks:
  t1: {command: [a], callback: nowhere}
jobs:
  j1: {command: [a], levels: [n], nodes: [{manual: [a]}], depends_on: [none]}
schedules:
  c1: {cron: "61 * * * *", timezone: UTC, task: {command: [x]}}
  c2: {cron: "@every 60s"}
  c3: {cron: "@every 60s", overlap: allow, task: {command: [x]}}
`
	sections := []string{"services:\n", "tasks:\n", "jobs:\n", "schedules:\n"}
	parse := func(text string) []Problem {
		t.Helper()
		_, err := Parse("f", "/", []byte(text), Times{Now: time.Unix(0, 0),
			Zone: func(string) (*time.Location, error) { return time.UTC, nil }})
		var p *Problems
		if !errors.As(err, &p) {
			t.Fatalf("%v in %s", err, text)
		}
		return p.List
	}
	count := func(list []Problem, section string) (n int) {
		for _, p := range list {
			if section == "" || strings.HasPrefix(p.Path, section) {
				n++
			}
		}
		return n
	}
	alone := parse(meaning)
	if len(alone) != 6 {
		t.Fatalf("%v", alone)
	}
	for _, section := range sections {
		name := strings.TrimSuffix(section, ":\n")
		for _, broken := range []string{"  x: {comand: [a]}\n", "  x: {command: [a], env: 7}\n", "  x: 7\n",
			"  x: {task: {comand: [a]}, cron: 7, overlap: allow}\n"} {
			got := parse(strings.Replace(meaning, section, section+broken, 1))
			x := name + ".x"
			if count(got, x) == 0 {
				t.Errorf("%s%s: its own error is not reported: %v", section, broken, got)
			}
			for _, p := range got {
				if strings.HasPrefix(p.Path, x) && p.Semantic {
					t.Errorf("%s%s: %v is guessed", section, broken, p)
				}
			}
			want := len(alone)
			if name == "jobs" {
				want-- // j1 may depend on x
			}
			if n := count(got, "") - count(got, x); n != want {
				t.Errorf("%s%s: %d other mistakes, want %d: %v", section, broken, n, want, got)
			}
		}
	}
}

// TestWaitingForASilentCell: both fields reach the definition, and an exclusive service has neither.
func TestWaitingForASilentCell(t *testing.T) {
	parsed,
		err := Parse("f", "/",
		[]byte("services:\n  web: {command: [a], replace_after: 45s, on_return: new}\n  api: {command: [a]}\n"), testTimes())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range parsed.Services {
		after, stays := 45*time.Second, lrp.ReturnNew
		if d.Service.Name == "api" {
			after, stays = 0, lrp.ReturnOld
		}
		if d.ReplaceAfter != after || d.OnReturn != stays {
			t.Errorf("%s: %v %v", d.Service.Name, d.ReplaceAfter, d.OnReturn)
		}
	}
	for _, field := range []string{"replace_after: 1m", "on_return: new"} {
		_, err := Parse("f", "/", []byte("services:\n  web: {command: [a], exclusive: true, "+field+"}\n"), testTimes())
		if err == nil || !strings.Contains(err.Error(),
			"an exclusive instance is replaced only after its old copy is declared dead") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestFieldsOfOtherToolsExist: a hint names a field that some mapping has.
func TestFieldsOfOtherToolsExist(t *testing.T) {
	known := map[string]bool{}
	for _, v := range []any{file{}, service{}, oneTask{}, job{}, scheduled{}} {
		for _, n := range fieldsOf(reflect.TypeOf(v)).names {
			known[n] = true
		}
	}
	for _, other := range []string{"cmd", "replicas", "image", "environment", "workdir", "mem", "cpus", "timeout",
		"healthcheck", "readiness",
		"restart_policy", "tags", "tolerations", "schedule", "tz", "namespace"} {
		if n := otherNames(other); !known[n] {
			t.Errorf("%s: %q is no field", other, n)
		}
	}
}

// TestOrphansOfAJob: never, at once, after a time.
func TestOrphansOfAJob(t *testing.T) {
	for field, want := range map[string]batch.Orphans{
		"":                         {},
		"kill_orphans_after: 0s, ": {Kill: true},
		"kill_orphans_after: 5m, ": {Kill: true, After: 5 * time.Minute},
	} {
		got, err := Parse("f", "", []byte("jobs:\n  d: {"+field+"command: [x], nodes: [{manual: [q]}]}\n"), testTimes())
		if err != nil || got.Jobs[0].Job.Orphans != want {
			t.Errorf("%s: %v %+v", field, err, got)
		}
	}
}

// TestCallOfBistro: a job that is called as Bistro does, with its config as JSON.
func TestCallOfBistro(t *testing.T) {
	const text = "jobs:\n  d: {command: [x], call: bistro, nodes: [{manual: [q]}], config: {n: 12345678901, a: {b: " +
		"[1, null, x]}}}\n"
	got, err := Parse("f", "", []byte(text), testTimes())
	if err != nil {
		t.Fatal(err)
	}
	large := strings.Replace(text, "x]}}}", strings.Repeat("x", maxConfig)+"]}}}", 1)
	if _, err := Parse("f", "", []byte(large), testTimes()); err == nil || !strings.Contains(err.Error(),
		"at most 65536") {
		t.Error(err)
	}
	if j := got.Jobs[0].Job; j.Call != batch.CallBistro || j.Config != `{"a":{"b":[1,null,"x"]},"n":12345678901}` {
		t.Errorf("%v %s", j.Call, j.Config)
	}
}
