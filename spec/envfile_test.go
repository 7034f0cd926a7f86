package spec

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"cantina/action"
)

// TestParseEnv reads every form of a line.
func TestParseEnv(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "",
		"\n  # c\n; d\n\t\nA=1":           "A=1",
		"\ufeffA=1\r\nB=2\r\n":            "A=1 B=2",
		"export A=1\n  B=2":               "A=1 B=2",
		"A=":                              "A=",
		"A=  x y \t\nB='  x y '":          "A=x y|B=  x y ",
		"A=it costs $5 ${X} `y` \\n":      "A=it costs $5 ${X} `y` \\n",
		"A=a=b=c":                         "A=a=b=c",
		"A=x#y":                           "A=x#y",
		"A='x # y' # comment":             "A=x # y",
		"A='back\\slash'":                 "A=back\\slash",
		`A="q \" \\ \$ \` + "` \\n\\t|\"": "A=q \" \\ $ ` \n\t|",
		"A=\"one\ntwo\"\nB=2":             "A=one\ntwo|B=2",
		"A='one\n # two'\nB=2":            "A=one\n # two|B=2",
		"A=it's":                          "A=it's",
		"A.b-c=1":                         "A.b-c=1",
		"A=1\nA=2":                        "A=1 A=2",
	} {
		vars, err := ParseEnv("f.env", []byte(text))
		var got []string
		for _, v := range vars {
			got = append(got, v.Name+"="+v.Value)
		}
		sep := " "
		if strings.Contains(want, "|") {
			sep = "|"
			want = strings.TrimSuffix(want, "|")
		}
		if out := strings.TrimSuffix(strings.Join(got, sep), "|"); err != nil || out != want {
			t.Errorf("%q: %q, %v, want %q", text, out, err, want)
		}
	}
}

// TestParseEnvErrors: each has file, line and column, all are reported, and none prints a value.
func TestParseEnvErrors(t *testing.T) {
	const value = "hunter2"
	for text, want := range map[string]string{
		"A=1\n  " + value + "\nB":     "f.env:2:3: no = in the line; f.env:3:1: no = in the line",
		"=" + value:                   "f.env:1:1: a variable name must not be empty",
		"A =" + value:                 "f.env:1:1: a variable name must not be empty, or contain blanks",
		"A=" + value + " # c":         "f.env:1:3: the value of A has a # that",
		"A=# " + value:                "f.env:1:3: the value of A has a # that",
		"A=" + value + "\\\nB=1":      "f.env:1:3: the value of A ends with a backslash",
		"A=" + value + "\rx":          "f.env:1:3: the value of A has a carriage return",
		"\nA='" + value + "\nB=1\n":   "f.env:2:3: the quote of A has no end",
		"A='x'" + value:               "f.env:1:6: text after the closing quote of A",
		"A=\"x\n\\q" + value + "\"\n": "f.env:2:1: unknown escape in the value of A",
		"A=1\nB=\x00" + value:         "f.env:2:3: NUL is not allowed",
		"A=1\nB=x\xff" + value:        "f.env:2:4: not UTF-8",
		"A=" + action.Secret:          "f.env:1:1: A: [secret] is the placeholder",
		"A=" + strings.Repeat(value, action.MaxText/len(value)+1): "f.env:1:1: A: 131",
		strings.Repeat("#\n", MaxEnvFile):                         "f.env: file of variables too large",
	} {
		vars, err := ParseEnv("f.env", []byte(text))
		if err == nil || vars != nil {
			t.Errorf("%.40q: accepted", text)
			continue
		}
		if strings.Contains(err.Error(), value) {
			t.Errorf("%.40q: the error has the value: %v", text, err)
		}
		lines := strings.Split(err.Error(), "\n")
		for i, w := range strings.Split(want, "; ") {
			if i >= len(lines) || !strings.HasPrefix(lines[i], w) {
				t.Errorf("%.40q: %v, want %s", text, err, w)
			}
		}
	}
}

// envOf parses a spec file with files of variables.
func envOf(text string, files map[string]string) (*File, error) {
	return Input{Name: "dir/f.yaml", Dir: "/abs/dir", Content: []byte(text), EnvFile: func(path string) ([]byte, error) {
		if text, ok := files[path]; ok {
			return []byte(text), nil
		}
		return nil, &fs.PathError{Op: "open", Path: "/abs/dir/" + path, Err: fs.ErrNotExist}
	}}.Parse(testTimes())
}

// TestEnvFile: later files replace variables of earlier ones, env those of files, in every kind of work.
func TestEnvFile(t *testing.T) {
	const fields = "command: [x], env_file: [one.env, sub/two.env], env: {B: env, D: env}"
	f, err := envOf("services:\n  s: {"+fields+"}\ntasks:\n  t: {"+fields+"}\njobs:\n  j: {"+fields+"}\n"+
		"schedules:\n  c: {cron: '@every 1h', task: {"+fields+"}}\n  d: {cron: '@every 1h', job: {"+fields+"}}\n"+
		"  # one file alone\n  e: {cron: '@every 1h', task: {command: [x], env_file: one.env}}\n",
		map[string]string{"one.env": "A=one\nB=one\nC=one\n", "sub/two.env": "C=two\nC=again\n"})
	if err != nil {
		t.Fatal(err)
	}
	want := []action.Variable{{Name: "A", Value: "one"}, {Name: "B", Value: "env"}, {Name: "C", Value: "again"},
		{Name: "D", Value: "env"}}
	for name, got := range map[string][]action.Variable{
		"service": f.Services[0].Workload.Env, "task": f.Tasks[0].Definition.Workload.Env, "job": f.Jobs[0].Job.Workload.Env,
		"scheduled task": f.Schedules[0].Definition.Task.Workload.Env,
		"scheduled job":  f.Schedules[1].Definition.Job.Job.Workload.Env,
	} {
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if got := f.Schedules[2].Definition.Task.Workload.Env; len(got) != 3 || got[2].Value != "one" {
		t.Errorf("one file alone: %v", got)
	}
	// A variable that the cell sets is noted with its place in the file.
	f, err = envOf("services:\n  s: {command: [x], ports: [{name: http}], env_file: one.env}\n",
		map[string]string{"one.env": "\nPORT=1\nCANTINA_CELL=x\n"})
	if err != nil || !slices.Contains(f.Warnings, "dir/one.env:2:1: PORT: this value is not used: port http sets the "+
		"variable") || !slices.Contains(f.Warnings,
		"dir/one.env:3:1: CANTINA_CELL: this value is not used: the cell sets the variable") {
		t.Errorf("%v, %v", f.Warnings, err)
	}
}

// TestEnvFileErrors: each names the place and a remedy.
func TestEnvFileErrors(t *testing.T) {
	for text, want := range map[string]string{
		"{command: [x], env_file: no.env}": "dir/f.yaml:2:31: services.s.env_file: file no.env not found; create it, or " +
			"correct the path: it is relative to the directory of this file",
		"{command: [x], env_file: [ok.env, no.env]}": "dir/f.yaml:2:40: services.s.env_file[1]: file no.env not found",
		"{command: [x], env_file: ~/a.env}":          `dir/f.yaml:2:31: services.s.env_file: "~/a.env" is not expanded`,
		"{command: [x], env_file: 5}":                "dir/f.yaml:2:31: services.s.env_file: must be the path of a file",
		"{command: [x], env_file: ['']}":             "dir/f.yaml:2:32: services.s.env_file[0]: must not be empty",
		"{command: [x], env_file: bad.env}":          "dir/bad.env:2:1: no = in the line",
		"{command: [x], envFrom: ok.env}": `dir/f.yaml:2:21: services.s: unknown field "envFrom"; did you mean ` +
			"env_file?",
	} {
		_, err := envOf("services:\n  s: "+text+"\n", map[string]string{"ok.env": "A=1", "bad.env": "A=1\nB"})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	const named = "tasks:\n  t: {command: [x], env_file: a.env}\n  u: {command: [x], env_file: a.env}\n"
	for name, c := range map[string]struct {
		source Input
		want   string
	}{
		"no files": {Input{Name: "f", Content: []byte(named)}, "the content of a.env is not in the request; send it"},
		"no directory": {Input{Name: "f", Content: []byte(named), EnvFile: func(string) ([]byte, error) {
			return nil, ErrNoDir
		}},
			"a.env is not read: this file has no directory; download"},
		"unreadable": {Input{Name: "f", Content: []byte(named), EnvFile: func(string) ([]byte, error) {
			return nil, &fs.PathError{Op: "open", Path: "a.env", Err: fs.ErrPermission}
		}}, "file a.env cannot be read: permission denied"},
		"other": {Input{Name: "f", Content: []byte(named), EnvFile: func(string) ([]byte, error) {
			return nil, errors.New("broken")
		}}, "a.env: broken"},
	} {
		_, err := c.source.Parse(testTimes())
		if err == nil || !strings.HasPrefix(err.Error(), "f:2:31: tasks.t.env_file: "+c.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s, once", name, err, c.want)
		}
	}
}

// TestEnvFileBudget: many entries that name one file do not multiply its size without a bound.
func TestEnvFileBudget(t *testing.T) {
	var text, env strings.Builder
	text.WriteString("tasks:\n")
	for i := range 1000 {
		fmt.Fprintf(&text, "  t%d: {command: [x], env_file: a.env}\n", i)
	}
	for i := range 1000 {
		fmt.Fprintf(&env, "A%d=%s\n", i, strings.Repeat("x", 100))
	}
	_, err := envOf(text.String(), map[string]string{"a.env": env.String()})
	if err == nil || strings.Contains(err.Error(), "\n") ||
		!strings.Contains(err.Error(), "env_file fields add more than") {
		t.Errorf("%v", err)
	}
}
