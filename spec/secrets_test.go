package spec

import (
	"slices"
	"strings"
	"testing"

	"cantina/action"
)

// TestSecrets: services, tasks and jobs name files of the cell as values of variables. Names and paths that no cell can
// have are errors at their field.
func TestSecrets(t *testing.T) {
	entry := func(kind, secrets string) string {
		head := map[string]string{"services": "", "tasks": "", "jobs": "    levels: [l]\n    nodes: [{manual: [n]}]\n"}[kind]
		return "domain: d\n" + kind + ":\n  x:\n    command: [/bin/true]\n" + head + "    env: {TAKEN: v}\n    secrets:\n" +
			secrets
	}
	for _, kind := range []string{"services", "tasks", "jobs"} {
		got, err := Parse("x.yaml", "/", []byte(entry(kind, "      DB: db/password\n      KEY: key\n")), Times{})
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		w := workloadOf(got)
		want := []action.SecretFile{{Name: "DB", File: "db/password"}, {Name: "KEY", File: "key"}}
		if !slices.Equal(w.Secrets, want) {
			t.Errorf("%s: %v", kind, w.Secrets)
		}
		for secrets, want := range map[string]string{
			"      DB: ../other/key\n":       `DB: not a valid secret: the path "../other/key" must be relative`,
			"      DB: /etc/shadow\n":        "must be relative",
			"      DB: a/../../b\n":          "must be relative",
			"      DB: .\n":                  "must be relative",
			"      DB: ''\n":                 "must be relative",
			"      TAKEN: key\n":             "env has a variable of this name too",
			"      'A=B': key\n":             "must not be empty or contain '='",
			"      DB: [key]\n":              "must be",
			"      DB: key\n      DB: other": "duplicate key",
		} {
			_, err := Parse("x.yaml", "/", []byte(entry(kind, secrets)), Times{})
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "secrets") {
				t.Errorf("%s, %s: %v; want %s", kind, secrets, err, want)
			}
		}
	}
}

// workloadOf is the workload of the only entry of a file.
func workloadOf(f *File) *action.Workload {
	switch {
	case len(f.Services) > 0:
		return &f.Services[0].Workload
	case len(f.Tasks) > 0:
		return &f.Tasks[0].Definition.Workload
	}
	return &f.Jobs[0].Job.Workload
}
