package action

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

const digest = "sha256:0123456789012345678901234567890123456789012345678901234567890123"

func TestRootsAreNamed(t *testing.T) {
	for _, good := range []string{"/", "/srv/root", "/srv/image.tar", "/srv/image.tar@" + digest, "/srv/with@at",
		"busybox@" + digest, "golang:1.22@" + digest,
		"registry.example.com:5000/team/app-x_y:v1.2@" + digest, "localhost/a/b/c@" + digest} {
		if err := CheckRootfs(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for bad, why := range map[string]string{
		"": "neither", "golang:1.22": "golang:1.22@sha256:DIGEST", "busybox": "pinned", "./root": "absolute",
		"../root": "absolute", "~/root": "absolute",
		"docker://busybox": "neither", "busybox@sha256:abc": "neither", "busybox@sha512:" + digest[7:]: "neither", "@" +
			digest: "neither", "no such thing@" + digest: "neither",
		"-rf@" + digest: "neither", "/srv/image.tar@sha256:abc": "64", "Busybox@" + digest: "neither",
	} {
		if err := CheckRootfs(bad); !errors.Is(err, ErrRootfs) || !strings.Contains(err.Error(), why) ||
			!strings.Contains(err.Error(), fmt.Sprintf("%q", bad)) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// everywhere is a workload with a program in each place that can hold one.
func everywhere(user string) (Workload, []string) {
	run := func() *Run { return &Run{Path: "a", User: user} }
	act := func() Action { return Action{Run: run()} }
	inner := act()
	return Workload{Setup: &Action{Serial: []Action{act(), {Try: &inner}}},
			Action:  Action{Parallel: []Action{act(), {Codependent: []Action{act()}}}},
			Monitor: &Action{Timeout: &Timeout{Action: act()}}, Sidecars: []Action{{EmitProgress: &EmitProgress{Action: act()}}},
			Checks: []Check{{TCP: &TCPCheck{}}, {Exec: run()}}, ReadinessChecks: []Check{{Exec: run()}}},
		[]string{"setup.serial[0].run", "setup.serial[1].try.run", "action.parallel[0].run",
			"action.parallel[1].codependent[0].run", "monitor.timeout.action.run",
			"sidecars[0].emit_progress.action.run", "checks[1].exec", "readiness_checks[0].exec"}
}

// TestUsersAreLookedAtEverywhere: the user of a program is read at each place where a program can stand.
func TestUsersAreLookedAtEverywhere(t *testing.T) {
	w, want := everywhere("4294967295")
	var got []string
	w.EachRun(func(place string, _ *Run) { got = append(got, place) })
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	err := w.Validate()
	if !errors.Is(err, ErrUser) {
		t.Fatal(err)
	}
	for _, place := range want {
		if !strings.Contains(err.Error(), place+".user: ") {
			t.Errorf("%s is not looked at: %v", place, err)
		}
	}
	if w, _ := everywhere("nobody"); w.Validate() != nil {
		t.Error(w.Validate())
	}
	w = Workload{User: "nobody:"}
	if err := w.Validate(); !errors.Is(err, ErrUser) || !strings.HasPrefix(err.Error(), "user: ") {
		t.Error(err)
	}
}

func TestPortsNeedANetworkThatOthersAreIn(t *testing.T) {
	w := Workload{OwnNet: true, Isolation: IsolationNamespaces, Ports: []Port{{Name: "http"}}}
	if err := w.Validate(); !errors.Is(err, ErrNoWayIn) || !strings.HasPrefix(err.Error(), "ports: ") {
		t.Error(err)
	}
	if w.OwnNet = false; w.Validate() != nil {
		t.Error(w.Validate())
	}
	w = Workload{Isolation: IsolationRootfs, Rootfs: "golang:1.22"}
	if err := w.Validate(); !errors.Is(err, ErrRootfs) {
		t.Error(err)
	}
}
