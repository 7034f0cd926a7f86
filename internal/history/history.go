// Package history compares the decisions of a package in long random histories with its earlier
// ones: a test prints each decision, and a file has the digest of the output. It detects every
// change of a rule that one of the histories meets, and reports the place, not the reason: other
// tests decide which result is right.
//
// After an intended change, CANTINA_HISTORY=store stores the digests again. To see the change,
// CANTINA_HISTORY=DIRECTORY writes the histories there: once before, once after.
package history

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Book has the histories of a test.
type Book struct {
	file string
	want map[string]string
	got  []string
}

// Open reads the digests in a file.
func Open(t testing.TB, file string) *Book {
	t.Helper()
	b := &Book{file: file, want: map[string]string{}}
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, digest, _ := strings.Cut(strings.TrimSpace(line), " ")
		b.want[name] = digest
	}
	return b
}

// Check compares a history with its digest.
func (b *Book) Check(t testing.TB, name, text string) {
	t.Helper()
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:16]
	b.got = append(b.got, name+" "+digest)
	switch to := os.Getenv("CANTINA_HISTORY"); {
	case to == "store":
	case to != "":
		if err := os.WriteFile(filepath.Join(to, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	case digest != b.want[name] && testing.Short(): // one is enough for a mutation run
		t.Fatalf("history %s is another one: see the comment of package history", name)
	case digest != b.want[name]:
		t.Errorf("history %s is another one: see the comment of package history", name)
	}
}

// Close stores the digests if requested, and fails for one that has no history any more.
func (b *Book) Close(t testing.TB) {
	t.Helper()
	if os.Getenv("CANTINA_HISTORY") == "store" {
		slices.Sort(b.got)
		if err := os.WriteFile(b.file, []byte(strings.Join(b.got, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if len(b.got) != len(b.want) {
		t.Errorf("%d histories, and %d digests", len(b.got), len(b.want))
	}
}
