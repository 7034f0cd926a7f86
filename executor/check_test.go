package executor

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"cantina/action"
)

// leavings has scripts of checks that each leave a process, with an argument that identifies it.
var leavings = map[string]string{
	"in the background":      `sleep 1000.%[1]s & exit 0`,
	"own session":            `setsid sleep 1000.%[1]s & exit 0`,
	"ignores TERM":           `(trap "" TERM HUP INT; sleep 1000.%[1]s) & exit 0`,
	"no parent":              `(setsid sleep 1000.%[1]s &); exit 0`,
	"fails":                  `setsid sleep 1000.%[1]s & exit 1`,
	"hangs":                  `setsid sleep 1000.%[1]s & sleep 1001.%[1]s`,
	"hangs and ignores TERM": `trap "" TERM; setsid sleep 1000.%[1]s & while :; do sleep 1001.%[1]s; done`,
}

// alike returns the processes of the machine whose arguments end like this.
func alike(t testing.TB, mark string) []int {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, d := range dirs {
		b, err := os.ReadFile(d + "/cmdline")
		if err != nil || !bytes.HasSuffix(b, []byte("."+mark+"\x00")) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(d))
		out = append(out, pid)
	}
	return out
}

// TestChecksLeaveNothing: processes that a check started end with it, for each kind of end. A few hundred checks
// leave no process, and use none of the processes that the service may have.
func TestChecksLeaveNothing(t *testing.T) {
	isolations := map[string]action.Isolation{"process": action.IsolationProcess}
	if os.Getuid() == 0 {
		isolations["namespaces"] = action.IsolationNamespaces
	}
	for mode, cgroups := range map[string]CgroupMode{"v2": CgroupAuto, "none": CgroupNone} {
		for level, isolation := range isolations {
			for kind, script := range leavings {
				t.Run(fmt.Sprint(mode, " ", level, " ", kind), func(t *testing.T) {
					if mode == "none" && level == "namespaces" {
						t.Skip("needs groups")
					}
					e := testExecutor(t, func(c *Config) { c.Cgroups = cgroups })
					mark := fmt.Sprint(os.Getpid(), time.Now().UnixNano())
					w := action.Workload{Action: do("sleep 1000"), Isolation: isolation, MaxPids: 20}
					check := action.Check{Exec: &action.Run{Path: "/bin/sh",
						Args: []string{"-c", "echo >>count; " + fmt.Sprintf(script, mark)}},
						StartupInterval: time.Millisecond, Interval: time.Millisecond, Timeout: 20 * time.Second}
					want := 15
					if mode == "v2" && kind == "own session" {
						want = 100 // each leaves a process: far more than MaxPids
						if soak() {
							want = 300
						}
					}
					if strings.HasPrefix(kind, "hangs") {
						check.Timeout, want = 100*time.Millisecond, 3
					}
					if isolation == action.IsolationNamespaces && !strings.HasPrefix(kind, "hangs") {
						want = 5
					}
					w.ReadinessChecks = []action.Check{check}
					if err := e.Launch(Reservation{ID: "x"}, Spec{Workload: w}); err != nil {
						t.Fatal(err)
					}
					file := filepath.Join(await(t, e, "x", runningState).Dir, "count")
					awaitThat(t, file, func() bool {
						b, _ := os.ReadFile(file)
						return bytes.Count(b, []byte("\n")) >= want
					})
					if n := len(alike(t, mark)); n > 3 { // of the one that is under way
						t.Errorf("%d processes beside %d checks", n, want)
					}
					if c, _ := e.Get("x"); c.State != Running {
						t.Errorf("%v %+v", c.State, c.Result)
					}
					if err := e.Stop("x"); err != nil {
						t.Fatal(err)
					}
					await(t, e, "x", completed)
					if left := alike(t, mark); len(left) > 0 {
						t.Errorf("left: %v", left)
					}
				})
			}
		}
	}
}

// TestASuccessorEndsLeftoversOfEarlierChecks: in a kept container.
func TestASuccessorEndsLeftoversOfEarlierChecks(t *testing.T) {
	dataDir := tempDir(t)
	mark := fmt.Sprint(os.Getpid(), time.Now().UnixNano())
	file := filepath.Join(tempDir(t), "up")
	s := keep(Spec{Workload: action.Workload{Action: do("sleep 1000"), ReadinessChecks: []action.Check{
		{Exec: &action.Run{Path: "/bin/sh", Args: []string{"-c", "echo up >" + file + "; setsid sleep 1000." + mark}},
			Timeout: time.Hour}}}})
	c := startCell(t, script{Dir: dataDir, Jobs: []job{{ID: "x", Spec: s}}})
	awaitFile(t, file)
	awaitThat(t, "the check", func() bool { return len(alike(t, mark)) > 0 })
	old := alike(t, mark)
	c.kill(t)
	e, stop := runExecutor(t, testConfig(dataDir))
	needGroups(t, e)
	awaitThat(t, "the end of the check", func() bool {
		for _, pid := range old {
			if _, err := os.Stat(fmt.Sprint("/proc/", pid)); !errors.Is(err, os.ErrNotExist) {
				return false
			}
		}
		return true
	})
	e.Delete("x")
	await(t, e, "x", gone)
	if err := stop(); err != nil {
		t.Error(err)
	}
	if left := alike(t, mark); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
