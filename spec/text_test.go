package spec

import (
	"slices"
	"strings"
	"testing"
)

// TestDocumentsOfComments reads files with separators around the only document.
func TestDocumentsOfComments(t *testing.T) {
	const one = "domain: d\nservices:\n  s: {command: [a]}\n"
	for _, text := range []string{
		one, "---\n" + one, one + "---\n", one + "---\n# the end\n", "# a licence\n---\n" + one, "# a\n---\n# b\n---\n" +
			one + "...\n",
		"%YAML 1.1\n---\n" + one,
	} {
		f, err := Parse("f", "", []byte(text), Times{})
		if err != nil || f.Domain != "d" || len(f.Services) != 1 {
			t.Errorf("%q: %+v, %v", text, f, err)
		}
	}
	for text, want := range map[string]string{
		"": "f:1:1: the file is empty", "# only this\n": "f:1:1: the file is empty", "---\n---\n": "f:1:1: the file is empty",
		one + "---\n# more\n---\n" + one: "f:6:1: second document in one file; put it into a separate file",
		"~\n":                            "f:1:1: must be a mapping, not nothing",
	} {
		if _, err := Parse("f", "", []byte(text), Times{}); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestOverriddenVariables: a value that the cell replaces is accepted with a warning.
func TestOverriddenVariables(t *testing.T) {
	f, err := Parse("f", "", []byte(`services:
  s:
    command: [a]
    ports: [{name: http-alt}]
    env: {PORT: "1", PORT_HTTP_ALT: "2", PORT_OTHER: "3", CANTINA_CELL: secret, A: b}
  plain:
    command: [a]
    env: {PORT: "1"}
jobs:
  j: {command: [a], env: {CANTINA_NODE: x}}
schedules:
  c: {cron: "@every 1m", task: {command: [a], env: {CANTINA_SCHEDULED_AT: x}}}
`), testTimes())
	if err != nil {
		t.Fatal(err)
	}
	want := `f:5:11: services.s.env.PORT: this value is not used: port http-alt sets the variable
f:5:22: services.s.env.PORT_HTTP_ALT: this value is not used: port http-alt sets the variable
f:5:59: services.s.env.CANTINA_CELL: this value is not used: the cell sets the variable
f:10:27: jobs.j.env.CANTINA_NODE: this value is not used: the cell sets the variable
f:12:53: schedules.c.task.env.CANTINA_SCHEDULED_AT: this value is not used: the cell sets the variable`
	got := strings.Split(strings.Join(f.Warnings, "\n"), "\n")
	for _, w := range strings.Split(want, "\n") {
		if !slices.Contains(got, w) {
			t.Errorf("missing: %s", w)
		}
	}
	if len(got) != 5 {
		t.Errorf("%d warnings: %q", len(got), got)
	}
}

// TestAListOfNodesNeedsNoLevels: they are on level node; a list without entries is a job without nodes.
func TestAListOfNodesNeedsNoLevels(t *testing.T) {
	f, err := Parse("f", "", []byte(`jobs:
  j:
    command: [a]
    nodes: [{manual: [x, y]}]
    resources: {node: {slot: {limit: 1}}}
  k: {command: [a], nodes_of: j, level: node, depends_on: [j]}
  s: {command: [a], nodes: [{script: [seq, "5"]}]}
  none: {command: [a], nodes: [{manual: []}]}
`), testTimes())
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range f.Jobs {
		if j.Job.Name != "k" && (len(j.Forest.Levels) != 1 || j.Forest.Levels[0] != "node") {
			t.Errorf("%s: levels %q", j.Job.Name, j.Forest.Levels)
		}
	}
}
