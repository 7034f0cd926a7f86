package action

import (
	"fmt"
	"strings"
	"testing"
)

// TestEnvironmentIsNotPrinted: no way to print a workload shows a value of its environment.
func TestEnvironmentIsNotPrinted(t *testing.T) {
	const value = "hunter2"
	env := []Variable{{Name: "PASSWORD", Value: value}}
	w := Workload{Env: env, Action: Action{Serial: []Action{{Run: &Run{Path: "a", Env: env}}}}}
	for _, verb := range []string{"%v", "%+v", "%#v"} {
		for _, v := range []any{env[0], &env[0], env, w, &w, *w.Action.Serial[0].Run} {
			text := fmt.Sprintf(verb, v)
			if strings.Contains(text, value) || strings.Contains(text, fmt.Sprintf("%x", value)) {
				t.Errorf("%s of %T: %s", verb, v, text)
			}
		}
	}
	if text := fmt.Sprintf("%s %q %x", env[0], env, &env[0]); strings.Contains(text, value) {
		t.Error(text)
	}
	if text := fmt.Sprint(env); text != "[PASSWORD=[secret]]" {
		t.Error(text)
	}
}
