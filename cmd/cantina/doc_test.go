package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// The list of verbs in docs/cli.md is made from the verbs; CANTINA_UPDATE=1 writes
// it.
func TestVerbsInDocsAreUpToDate(t *testing.T) {
	const page, begin, end = "../../docs/cli.md", "<!-- verbs: begin -->\n", "<!-- verbs: end -->"
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(old), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatal("docs/cli.md has lost its marks")
	}
	var b strings.Builder
	b.WriteString("| verb | what it does |\n|---|---|\n")
	c := &cli{environment: environment{Getenv: func(string) string { return "" }}, ctx: context.Background()}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			if len(sub.Commands()) == 0 || sub.Annotations[reads] != "" || sub.Annotations[runs] != "" {
				use := strings.TrimPrefix(sub.Parent().CommandPath()+" "+sub.Use, "cantina ")
				fmt.Fprintf(&b, "| `%s` | %s |\n", strings.ReplaceAll(use, "|", "\\|"), sub.Short)
			}
			walk(sub)
		}
	}
	walk(rootCommand(c))
	want := before + begin + b.String() + end + after
	if want == string(old) {
		return
	}
	if os.Getenv("CANTINA_UPDATE") == "" {
		t.Fatal("docs/cli.md is old: run CANTINA_UPDATE=1 go test ./cmd/cantina")
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
