package executor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"cantina/action"
	"cantina/logstore"
)

// TestSecrets: a program gets the contents of files of its domain, as they are when it starts. Nothing outside of the
// directory of the domain can be read, whatever is there, and the error names the secret and the file, not a content.
func TestSecrets(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	at := func(name string) string { return filepath.Join(dir, "mine", name) }
	for _, d := range []string{"mine/db", "other"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{at("db/password"): "hunter2\n", at("lines"): "a\nb\r\n", at("bare"): "x y",
		at("empty"): "", at("nul"): "a\x00b", at("long"): strings.Repeat("x", maxSecret+1),
		filepath.Join(dir, "other", "key"): "theirs"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"inside": "bare", "outside": "../other/key", "absolute": filepath.Join(dir,
		"other", "key")} {
		if err := os.Symlink(to, at(link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(at("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := testExecutor(t, func(c *Config) { c.Secrets = dir })
	none := testExecutor(t, nil)
	for name, c := range map[string]struct {
		e            *Executor
		domain, file string
		want         string // what the program prints
		problem      string
	}{
		"a file":                   {e, "mine", "db/password", "[hunter2]", ""},
		"several lines":            {e, "mine", "lines", "[a|b]", ""},
		"without a line end":       {e, "mine", "bare", "[x y]", ""},
		"empty":                    {e, "mine", "empty", "[]", ""},
		"a link inside":            {e, "mine", "inside", "[x y]", ""},
		"a link to another domain": {e, "mine", "outside", "", "escapes"},
		"an absolute link":         {e, "mine", "absolute", "", "escapes"},
		"a path to another domain": {e, "mine", "../other/key", "", "escapes"},
		"another domain":           {e, "other", "db/password", "", "no such file"},
		"a missing file":           {e, "mine", "gone", "", at("gone") + ": no such file"},
		"a directory":              {e, "mine", "db", "", "not a regular file"},
		"a pipe":                   {e, "mine", "pipe", "", "not a regular file"},
		"NUL":                      {e, "mine", "nul", "", "NUL"},
		"too long":                 {e, "mine", "long", "", "more than 65536 bytes"},
		"a missing domain":         {e, "gone", "x", "", "no such file"},
		"no domain":                {e, "", "x", "", "cannot be the name of a directory"},
		"the parent as domain":     {e, "..", "other/key", "", "cannot be the name of a directory"},
		"no directory":             {none, "mine", "bare", "", "this cell has no --secrets directory"},
	} {
		s := sh(`echo "[$S]" | tr '\n' '|'`)
		s.Domain, s.Workload.Secrets = c.domain, []action.SecretFile{{Name: "S", File: c.file}}
		s.Workload.Env = []action.Variable{{Name: "S", Value: "weaker"}}
		id := strings.ReplaceAll(name, " ", "-")
		got := launch(t, c.e, id, s)
		if c.problem != "" {
			if r := got.Result; !r.Failed || !strings.Contains(r.Reason, c.problem) || !strings.Contains(r.Reason, "secret S") ||
				strings.Contains(r.Reason, "hunter2") {
				t.Errorf("%s: %+v", name, r)
			}
			continue
		}
		if out := lines(t, c.e, id, logstore.Stdout); !slices.Equal(out, []string{c.want + "|"}) {
			t.Errorf("%s: %q, %+v", name, out, got.Result)
		}
	}
	if err := os.WriteFile(at("bare"), []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := sh(`echo "$S"`)
	s.Domain, s.Workload.Secrets = "mine", []action.SecretFile{{Name: "S", File: "bare"}}
	launch(t, e, "again", s)
	if out := lines(t, e, "again", logstore.Stdout); !slices.Equal(out, []string{"changed"}) {
		t.Errorf("%q", out)
	}
}
