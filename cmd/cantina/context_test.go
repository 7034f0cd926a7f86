package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cantina/api"
)

// TestContexts selects servers by a context: the flag, the variable, the current one, in this order.
func TestContexts(t *testing.T) {
	s := newShell(t)
	dir := t.TempDir()
	delete(s.env, "CANTINA_ADDR")
	s.env["CANTINA_TOKEN_FILE"] = dir + "/token"
	if err := os.WriteFile(dir+"/token", []byte(strings.Repeat("t", 40)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.env["XDG_CONFIG_HOME"], s.env["XDG_RUNTIME_DIR"], s.env["XDG_DATA_HOME"] = dir, dir, dir
	const spec = "domain: d\nservices: {web: {command: [x]}}\n"
	file := filepath.Join(dir, "cantina.yaml")
	if err := os.WriteFile(file, []byte(spec), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := s.ok("context", "ls", "-o", "name"); out != "default\n" {
		t.Errorf("without contexts: %q", out)
	}
	s.ok("context", "set", "here", "--addr", s.address)
	s.ok("context", "set", "away", "--addr", "unix:"+dir+"/none.sock", "--token-file", s.env["CANTINA_TOKEN_FILE"])
	s.ok("context", "use", "away")
	s.fails(api.ExitConnection, "none.sock", "ps", "--timeout", "1s")
	if out, errs, code := s.run("apply", file, "--context", "here"); code != 0 ||
		strings.Count(errs, "context here ("+s.address+")") != 1 {
		t.Errorf("a write: exit code %d, %s%s", code, out, errs)
	}
	if _, errs, code := s.run("ps", "--context", "here"); code != 0 || strings.Contains(errs, "context") {
		t.Errorf("a read: exit code %d, %s", code, errs)
	}
	s.env["CANTINA_CONTEXT"] = "here"
	s.ok("ps")
	s.fails(api.ExitUsage, "on context here ("+s.address+"): use --yes", "rm", "web")
	out := s.ok("context", "ls")
	if !strings.Contains(out, "*        here") || !strings.Contains(out, "none.sock") {
		t.Errorf("the list:\n%s", out)
	}
	s.env["CANTINA_ADDR"] = "unix:" + dir + "/other.sock"
	s.fails(api.ExitConnection, "other.sock", "ps", "--timeout", "1s")
	s.ok("ps", "--context", "here")
	s.ok("ps", "--addr", s.address)
	delete(s.env, "CANTINA_ADDR")
	s.env["CANTINA_CONTEXT"] = ""
	s.ok("context", "rm", "away")
	if text, err := os.ReadFile(filepath.Join(dir, "cantina/contexts.yaml")); err != nil ||
		strings.Contains(string(text), "away") {
		t.Errorf("after rm: %s, %v", text, err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "cantina")); err != nil || len(left) != 1 {
		t.Errorf("files beside the contexts: %v, %v", left, err)
	}
	s.ok("context", "use", "here")
	s.ok("context", "use", "default")
	if got := s.ok("__complete", "ps", "--context", ""); !strings.Contains(got, "here") {
		t.Errorf("completion: %s", got)
	}
}

// TestWrongContexts reports which context or which line is wrong, and changes nothing.
func TestWrongContexts(t *testing.T) {
	s := newShell(t)
	dir := t.TempDir()
	s.env["HOME"] = dir
	s.ok("context", "set", "prod", "--addr", "a:1")
	path := filepath.Join(dir, ".config/cantina/contexts.yaml")
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for says, args := range map[string][]string{
		`unknown context "prd"; did you mean prod?`: {"ps", "--context", "prd"},
		`unknown context "x"`:                       {"context", "use", "x"},
		`"default" is reserved`:                     {"context", "set", "default", "--addr", "a:1"},
		`invalid context "a b"`:                     {"context", "set", "a b", "--addr", "a:1"},
		"are needed together":                       {"context", "set", "lab", "--addr", "a:1", "--tls-ca", "ca.pem"},
		"needs the addresses":                       {"context", "set", "lab"},
		"--context and --addr exclude each other":   {"ps", "--context", "prod", "--addr", "a:1"},
	} {
		s.fails(api.ExitUsage, says, args...)
	}
	s.fails(api.ExitUsage, "unknown context", "context", "rm", "lab")
	if now, err := os.ReadFile(path); err != nil || string(now) != string(before) {
		t.Errorf("the file changed: %s, %v", now, err)
	}
	delete(s.env, "CANTINA_ADDR")
	for text, says := range map[string]string{
		"contexts: [{name: a, adresses: [x]}]":                             "adresses",
		"contexts: [{name: a, addresses: []}]":                             `context "a" has no addresses`,
		"contexts: [{name: a, addresses: [x]}, {name: a, addresses: [x]}]": "twice",
		"contexts: [{name: default, addresses: [x]}]":                      "reserved",
		"current: b":  `unknown context "b"`,
		"contexts: {": path,
		"contexts: [{name: \"a\\u001b\", addresses: [x]}]":                            "letters, digits",
		"contexts: [{name: " + strings.Repeat("a", 64) + ", addresses: [127.0.0.1]}]": "63 at most",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s.fails(api.ExitUsage, says, "ps")
		s.fails(api.ExitUsage, says, "context", "ls")
	}
	s.ok("ps", "--addr", s.address) // an address needs no context
	delete(s.env, "HOME")
	s.fails(api.ExitUsage, "set HOME or XDG_CONFIG_HOME", "context", "set", "lab", "--addr", "a:1")
}
