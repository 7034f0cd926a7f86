package executor

import (
	"archive/tar"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"cantina/action"
	"cantina/logstore"
)

// imageFile is a tarball of a shell's image with these settings.
func imageFile(t *testing.T, c v1.Config) string {
	t.Helper()
	root := smallRoot(t)
	img, err := mutate.AppendLayers(empty.Image, layer(t, func(w *tar.Writer) error { return w.AddFS(os.DirFS(root)) }))
	if err != nil {
		t.Fatal(err)
	}
	if img, err = mutate.Config(img, c); err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference("example.com/app:1")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(tempDir(t), "image.tar")
	if err := tarball.WriteToFile(file, ref, img); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestSettingsOfAnImageAreDefaults: its program, directory, environment, user and
// stop signal, each unless the entry has its own.
func TestSettingsOfAnImageAreDefaults(t *testing.T) {
	t.Parallel()
	needRoot(t)
	e := testExecutor(t, nil)
	file := imageFile(t, v1.Config{Entrypoint: []string{"sh", "-c",
		`echo $0 $1; pwd; id -u; echo $PATH,$LANG,$BOTH,$HOME; echo > $CANTINA_DIR/here`}, Cmd: []string{"zero", "one"},
		WorkingDir: "app/src", User: "app", Env: []string{"PATH=/opt/image:/bin:/usr/bin", "LANG=image", "BOTH=image"}})
	defaults := []action.Variable{{Name: "PATH", Value: "/opt/cell:/usr/bin"}, {Name: "LANG", Value: "cell"},
		{Name: "TZ", Value: "cell"}}
	image := Spec{Workload: action.Workload{Isolation: action.IsolationRootfs, Rootfs: file,
		Action: action.Action{Run: &action.Run{}}}, Defaults: defaults}
	own := image
	own.Workload.Env, own.Workload.User = []action.Variable{{Name: "BOTH", Value: "entry"},
		{Name: "PATH", Value: "/opt/entry:/bin:/usr/bin"}}, "root"
	own.Workload.Action.Run = &action.Run{Path: "sh",
		Args: []string{"-c", `echo own; pwd; id -u; echo $PATH,$LANG,$BOTH,$TZ; ulimit -n`}, Dir: "/etc"}
	for id, c := range map[string]struct {
		s    Spec
		want []string
	}{
		"image": {image, []string{"zero one", "/app/src", "4321", "/opt/image:/bin:/usr/bin,image,image,/"}},
		"entry": {own, []string{"own", "/etc", "0", "/opt/entry:/bin:/usr/bin,image,entry,cell"}},
	} {
		r := launch(t, e, id, c.s).Result
		out := lines(t, e, id, logstore.Stdout)
		if r.Failed || len(out) < 4 || !slices.Equal(out[:4], c.want) {
			t.Errorf("%s: %+v %q, want %q", id, r, out, c.want)
		}
	}
	if image.Workload.Action.Run.Path != "" {
		t.Error("the entry was changed")
	}
	for _, from := range []string{imageFile(t, v1.Config{}), smallRoot(t)} {
		none := image
		none.Workload.Rootfs = from
		if r := launch(t, e, "none in "+filepath.Base(from), none).Result; !r.Failed ||
			!strings.Contains(r.Reason, "give a command") {
			t.Errorf("%+v", r)
		}
	}
}

func TestAnImageSetsItsStopSignal(t *testing.T) {
	t.Parallel()
	needRoot(t)
	e := testExecutor(t, nil)
	file := imageFile(t, v1.Config{StopSignal: "SIGUSR2",
		Cmd: []string{"sh", "-c",
			`trap 'echo usr2; exit 0' USR2; trap 'echo term; exit 0' TERM; echo up; while :; do sleep 0.05; done`}})
	for id, signal := range map[string]int{"usr2": 0, "term": 15} {
		s := Spec{Workload: action.Workload{Isolation: action.IsolationRootfs, Rootfs: file,
			Action: action.Action{Run: &action.Run{}}, Termination: action.Termination{Signal: signal}}}
		if err := e.Launch(Reservation{ID: id}, s); err != nil {
			t.Fatal(err)
		}
		await(t, e, id, runningState)
		awaitLine(t, e, id, "up")
		if err := e.Stop(id); err != nil {
			t.Fatal(err)
		}
		await(t, e, id, completed)
		if out := lines(t, e, id, logstore.Stdout); !slices.Equal(out, []string{"up", id}) {
			t.Errorf("%q", out)
		}
	}
}

func TestSignalsOfImages(t *testing.T) {
	for text, want := range map[string]int{"SIGTERM": 15, "TERM": 15, "sigquit": 3, "9": 9, "WINCH": 28, "SIGRTMIN+3": 37,
		"RTMIN": 34, "SIGRTMAX-1": 63, "64": 64,
		"": 0, "0": 0, "65": 0, "-1": 0, "SIGRTMIN+99": 0, "SIGRTMIN3": 0, "RTMINx": 0, "nonsense": 0} {
		if got := signalOf(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// TestUsersThatCannotBeAreRefusedWhereverTheyStand: in an image, in a step, in a sidecar, in
// a check and in exec; nothing runs as root in their stead.
func TestUsersThatCannotBeAreRefusedWhereverTheyStand(t *testing.T) {
	needRoot(t)
	run := func(user string) *action.Run {
		return &action.Run{Path: "/bin/sh", Args: []string{"-c", "echo ran as $(id -u); sleep 1000"}, User: user}
	}
	refused := func(t *testing.T, e *Executor, id string, w action.Workload, says ...string) {
		t.Helper()
		r := launch(t, e, id, Spec{Workload: w}).Result
		if out := lines(t, e, id, logstore.Stdout); !r.Failed || slices.Contains(out, "ran as 0") {
			t.Errorf("%s: %+v %q", id, r, out)
		}
		for _, s := range says {
			if !strings.Contains(r.Reason, s) {
				t.Errorf("%s: %q is missing in %q", id, s, r.Reason)
			}
		}
	}
	for _, user := range []string{"4294967295", "65534:4294967295", "99999999999", "-1", "no-such-user",
		"root:no-such-group", ":", "00"} {
		t.Run(user, func(t *testing.T) {
			t.Parallel()
			e := testExecutor(t, nil)
			quoted := `"` + user + `"`
			do := func(u string) action.Action { return action.Action{Run: run(u)} }
			setup := do(user)
			refused(t, e, "workload", action.Workload{Action: do(""), User: user}, quoted)
			refused(t, e, "step", action.Workload{Action: do(user)}, quoted)
			refused(t, e, "setup", action.Workload{Action: do(""), Setup: &setup}, quoted)
			refused(t, e, "sidecar", action.Workload{Action: do("65534"), Sidecars: []action.Action{do(user)}}, quoted)
			refused(t, e, "check", action.Workload{Action: do("65534"),
				Checks: []action.Check{{Exec: run(user), StartupInterval: time.Millisecond}}, StartTimeout: time.Second})
			refused(t, e, "image", action.Workload{Action: action.Action{Run: &action.Run{}}, Isolation: action.IsolationRootfs,
				Rootfs: imageFile(t, v1.Config{Cmd: []string{"sh", "-c", "echo ran as 0"}, User: user})}, quoted,
				"USER of the image")
		})
	}
	e := testExecutor(t, nil)
	if err := e.Launch(Reservation{ID: "x"},
		Spec{Workload: action.Workload{Action: action.Action{Run: run("65534")}}}); err != nil {
		t.Fatal(err)
	}
	await(t, e, "x", runningState)
	if x, err := e.Exec(t.Context(), "x", ExecSpec{Path: "id", User: "4294967295"}); err == nil ||
		!strings.Contains(err.Error(), `"4294967295"`) {
		t.Errorf("%v, %v", x, err)
	}
}
