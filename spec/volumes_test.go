package spec

import (
	"slices"
	"strings"
	"testing"

	"cantina/action"
)

// TestVolumes: services, tasks and jobs have volumes. Errors are at the volume, or at the field for rules of all.
func TestVolumes(t *testing.T) {
	entry := func(kind, isolation, volumes string) string {
		head := map[string]string{"services": "", "tasks": "", "jobs": "    levels: [l]\n    nodes: [{manual: [n]}]\n"}[kind]
		if isolation != "" {
			head += "    isolation: " + isolation + "\n"
		}
		return "domain: d\n" + kind + ":\n  x:\n    command: [/bin/true]\n" + head + "    volumes: " + volumes + "\n"
	}
	for _, kind := range []string{"services", "tasks", "jobs"} {
		got, err := Parse("x.yaml", "/", []byte(entry(kind, "namespaces",
			"[{host: /srv/a, container: /b, read_only: true}, {host: /srv/c}]")), Times{})
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		w := workloadOf(got)
		want := []action.Volume{{Host: "/srv/a", Container: "/b", ReadOnly: true}, {Host: "/srv/c", Container: "/srv/c"}}
		if !slices.Equal(w.Volumes, want) {
			t.Errorf("%s: %v", kind, w.Volumes)
		}
		for volumes, want := range map[string]string{
			"[{host: srv/a}]": "x.volumes[0]: host \"srv/a\": not a valid volume: must be an absolute path",
			"[{host: /a}, {host: /srv/../b, container: /b}]": `x.volumes[1]: host "/srv/../b": not a valid volume: ` +
				"must be without ..",
			"[{host: /a, container: /}]":       "must be below /",
			"[{host: /a, container: /proc/x}]": "/proc belongs to the container itself",
			"[{host: /a, container: ''}]":      "must not be empty",
			"[{container: /b}]":                "field host is missing",
			"[{host: /a, container: /b}, {host: /c, container: /b}]": `x.volumes: container "/b": not a valid volume: ` +
				"there are two",
			"['/a:/b:ro']":   "use {host: /a, container: /b, read_only: true}",
			"['/a:/b']":      "use {host: /a, container: /b}",
			"[a]":            "use {host: /srv/data, container: /data}",
			"[{source: /a}]": "unknown field",
			"{/a: /b}":       "must be a list",
			"[" + strings.Repeat("{host: /a},", 65) + "]": "65 volumes, at most 64",
		} {
			_, err := Parse("x.yaml", "/", []byte(entry(kind, "namespaces", volumes)), Times{})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, %s: %v; want %s", kind, volumes, err, want)
			}
		}
		for _, isolation := range []string{"", "process", "none"} {
			_, err := Parse("x.yaml", "/", []byte(entry(kind, isolation, "[{host: /a}]")), Times{})
			if err == nil || !strings.Contains(err.Error(), "x.volumes: not a valid volume: isolation") ||
				!strings.Contains(err.Error(), "use isolation namespaces or rootfs") {
				t.Errorf("%s, %q: %v", kind, isolation, err)
			}
		}
	}
}
