package api_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"cantina/api"
)

// The table of errors in docs/api.md is made from the table in the code;
// CANTINA_UPDATE=1 writes it.
func TestErrorTableIsUpToDate(t *testing.T) {
	const page, begin, end = "../docs/api.md", "<!-- errors: begin -->\n", "<!-- errors: end -->"
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(old), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatal("docs/api.md has lost its marks")
	}
	var b strings.Builder
	b.WriteString("| code | HTTP | Connect | exit code of the CLI | hint |\n|---|---|---|---|---|\n")
	seen := map[string]bool{}
	for _, c := range api.Classes() {
		if seen[c.Code] {
			t.Errorf("code %s stands twice", c.Code)
		}
		seen[c.Code] = true
		fmt.Fprintf(&b, "| `%s` | %d | %s | %d | %s |\n", c.Code, c.Status, c.Connect, c.Exit, c.Hint)
	}
	want := before + begin + b.String() + end + after
	if want == string(old) {
		return
	}
	if os.Getenv("CANTINA_UPDATE") == "" {
		t.Fatal("docs/api.md is old: run CANTINA_UPDATE=1 go test ./api")
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
