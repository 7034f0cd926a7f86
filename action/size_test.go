package action

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestImpossibleArguments: a program starts with arguments of the permitted size; one byte more is refused.
func TestImpossibleArguments(t *testing.T) {
	name, run := "TOKEN", &Run{Path: "/bin/true"}
	longest := Variable{Name: name, Value: strings.Repeat("x", MaxText-len(name)-1)}
	var many []Variable
	for left := MaxTexts - len(run.Path) - perText; left > 0; left -= 64 << 10 {
		many = append(many, Variable{Name: "A", Value: strings.Repeat("x", max(0, min(left, 64<<10)-2-perText))})
	}
	for what, env := range map[string][]Variable{"one": {longest}, "many": many} {
		if err := errors.Join(CheckEnv(env), run.CheckArguments(env)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		cmd := exec.Command(run.Path)
		for _, v := range env {
			cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
		}
		if err := cmd.Run(); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s cannot be started: %v", what, err)
		}
	}
	longest.Value += "x"
	w := Workload{Action: Action{Run: run}, Env: []Variable{longest}}
	if err := w.Validate(); !errors.Is(err, ErrTooLong) || !strings.Contains(err.Error(), "env: TOKEN: 131072 bytes") ||
		strings.Contains(err.Error(), "xx") {
		t.Errorf("a variable: %.200v", err)
	}
	w.Env = append(many, Variable{Name: "B", Value: "yz"})
	if err := w.Validate(); !errors.Is(err, ErrTooLong) || !strings.Contains(err.Error(), "together") {
		t.Errorf("all of them: %.200v", err)
	}
	w.Env, run.Args = nil, []string{strings.Repeat("x", MaxText+1)}
	if err := w.Validate(); !errors.Is(err, ErrTooLong) || !strings.Contains(err.Error(), "argument 1") {
		t.Errorf("an argument: %.200v", err)
	}
	w.Env, run.Args = []Variable{{Name: "A", Value: Secret}}, nil
	if err := w.Validate(); !errors.Is(err, ErrShown) {
		t.Errorf("what an answer showed: %v", err)
	}
}

func TestShown(t *testing.T) {
	for text, want := range map[string]string{
		"plain ? text @ all":                          "plain ? text @ all",
		"http://h/p":                                  "http://h/p",
		"http://u:p@h:1/p?a=b&c=d#f":                  "http://[secret]@h:1/p?[secret]#f",
		"--db=postgres://u:p@db/x --x=\"http://h?k\"": "--db=postgres://[secret]@db/x --x=\"http://h?[secret]\"",
		"https://token@h/x https://h/y?sig=1":         "https://[secret]@h/x https://h/y?[secret]",
		"http://u:p@ss@h/":                            "http://[secret]@h/",
	} {
		if got := Shown(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
