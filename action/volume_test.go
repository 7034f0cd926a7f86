package action

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestParseVolume: the forms of docker's flag, and refused ones with the reason.
func TestParseVolume(t *testing.T) {
	for text, want := range map[string]Volume{
		"/srv/data:/data":                       {Host: "/srv/data", Container: "/data"},
		"/srv/data:/data:ro":                    {Host: "/srv/data", Container: "/data", ReadOnly: true},
		"/srv/data:/data:rw":                    {Host: "/srv/data", Container: "/data"},
		"/srv/data/:/data/:ro":                  {Host: "/srv/data", Container: "/data", ReadOnly: true},
		"/:/machine":                            {Host: "/", Container: "/machine"},
		"/ü :/a b":                              {Host: "/ü ", Container: "/a b"},
		"/x:/process":                           {Host: "/x", Container: "/process"},
		"/x:/y/proc":                            {Host: "/x", Container: "/y/proc"},
		"/x:/cantina":                           {Host: "/x", Container: "/cantina"},
		"/" + strings.Repeat("x", 1023) + ":/y": {Host: "/" + strings.Repeat("x", 1023), Container: "/y"},
	} {
		got, err := ParseVolume(text)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
		if again, err := ParseVolume(got.String()); err != nil || again != got {
			t.Errorf("%s: %+v, %v", got, again, err)
		}
	}
	for text, problem := range map[string]string{
		"": "must be HOST:CONTAINER", "/x": "must be HOST:CONTAINER", "/x:/y:z": "must be HOST:CONTAINER",
		"/x:/y:ro:ro": "must be HOST:CONTAINER", "name:/data": `host "name": not a valid volume: must be an absolute path`,
		"./x:/y": "must be an absolute path", "/x:y": `container "y": not a valid volume: must be an absolute path`,
		":/y": "must be an absolute path", "/x:": "must be an absolute path", "/x:/": "must be below /",
		"/x/../y:/z": "must be without .., . and empty parts, like /y", "/x:/y/./z": "like /y/z", "//x:/y": "like /x",
		"/x:/y//": "like /y", "/x\x00:/y": "NUL", "/\xff:/y": "UTF-8", "/x:/proc": "/proc belongs to the container",
		"/x:/proc/sys": "/proc belongs", "/x:/sys/fs": "/sys belongs", "/x:/dev/shm": "/dev belongs",
		"/" + strings.Repeat("x", 1024) + ":/y": "must not be longer than 1024 bytes",
	} {
		if v, err := ParseVolume(text); !errors.Is(err, ErrVolume) || !strings.Contains(err.Error(), problem) {
			t.Errorf("%q: %+v, %v; want %s", text, v, err, problem)
		}
	}
}

// TestCheckVolumes: the rules of a workload's volumes together.
func TestCheckVolumes(t *testing.T) {
	many := func(n int) (out []Volume) {
		for i := range n {
			out = append(out, Volume{Host: "/x", Container: fmt.Sprint("/y/", i)})
		}
		return out
	}
	for name, x := range map[string]struct {
		level   Isolation
		volumes []Volume
		problem string // empty = valid
	}{
		"none":       {IsolationProcess, nil, ""},
		"namespaces": {IsolationNamespaces, []Volume{{Host: "/x", Container: "/cantina/y"}}, ""},
		"rootfs": {IsolationRootfs, []Volume{{Host: "/x", Container: "/y"},
			{Host: "/x", Container: "/y/z"}}, ""},
		"as many as possible": {IsolationRootfs, many(MaxVolumes), ""},
		"too many":            {IsolationRootfs, many(MaxVolumes + 1), "65 volumes, at most 64"},
		"level process":       {IsolationProcess, many(1), "isolation process has no mounts"},
		"level none":          {IsolationNone, many(1), "isolation none has no mounts"},
		"two at a path":       {IsolationNamespaces, append(many(1), many(1)...), "there are two of this path"},
		"a bad path":          {IsolationNamespaces, append(many(1), Volume{Host: "x", Container: "/y"}), "absolute"},
		"on the own directory": {IsolationRootfs, []Volume{{Host: "/x", Container: "/cantina"}},
			"container's own directory"},
		"in the own directory": {IsolationRootfs, []Volume{{Host: "/x", Container: "/cantina/y"}},
			"container's own directory"},
		"beside the own directory": {IsolationRootfs, []Volume{{Host: "/x", Container: "/cantinas"}}, ""},
	} {
		w := Workload{Isolation: x.level, Volumes: x.volumes, Rootfs: "/image"}
		err := w.Validate()
		if x.problem == "" && err == nil {
			continue
		}
		if !errors.Is(err, ErrVolume) || !strings.Contains(err.Error(), x.problem) ||
			!strings.Contains(err.Error(), "volumes: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestVolumeAllowed: a cell allows the paths at and below its directories, and read-only ones only for reading.
func TestVolumeAllowed(t *testing.T) {
	dirs := []string{"/srv/data", "/srv/logs:ro"}
	for need, want := range map[string]bool{
		"/srv/data": true, "/srv/data/x/y": true, "/srv/data/x:ro": true, "/srv/logs:ro": true, "/srv/logs/x:ro": true,
		"/srv/logs": false, "/srv/logs/x": false, "/srv/data2": false, "/srv": false, "/": false, "/srv/database/x:ro": false,
	} {
		if got := VolumeAllowed(dirs, need); got != want || VolumeAllowed(nil, need) {
			t.Errorf("%s: %v", need, got)
		}
		if !VolumeAllowed([]string{"/"}, need) {
			t.Errorf("%s is not below /", need)
		}
	}
	w := Workload{Volumes: []Volume{{Host: "/b", Container: "/1", ReadOnly: true}, {Host: "/a", Container: "/2"},
		{Host: "/a", Container: "/3"}}}
	if got := w.HostPaths(); !slices.Equal(got, []string{"/a", "/b:ro"}) {
		t.Errorf("%q", got)
	}
	for text, want := range map[string]VolumeDir{"/a": {Path: "/a"}, "/a/:ro": {Path: "/a", ReadOnly: true},
		"/": {Path: "/"}} {
		if got, err := ParseVolumeDir(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, problem := range map[string]string{"a": "absolute", "": "absolute", "/a:rw": "colon", "/a/..": "without ..",
		"/a,b": "comma"} {
		if got, err := ParseVolumeDir(text); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, d := range []VolumeDir{{Path: "/a"}, {Path: "/a", ReadOnly: true}} {
		if got, err := ParseVolumeDir(d.String()); err != nil || got != d {
			t.Errorf("%v: %v, %v", d, got, err)
		}
	}
}
