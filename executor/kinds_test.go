package executor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cantina/action"
)

// TestAKindThatFailsIsWithdrawn: by name and with its reason, alone, and until it works again.
func TestAKindThatFailsIsWithdrawn(t *testing.T) {
	e := testExecutor(t, nil)
	if os.Getuid() == 0 && e.spaces != nil {
		e.kinds.testEach(t.Context())
		if got := e.Withdrawn(); len(got) != 0 {
			t.Fatalf("withdrawn: %v", got)
		}
		program := filepath.Join(e.path("test-root"), testProgram)
		if err := os.WriteFile(program, []byte("no program"), 0o755); err != nil {
			t.Fatal(err)
		}
		e.kinds.testEach(t.Context())
		if got := e.Withdrawn(); len(got) != 1 || !strings.Contains(got[action.KindRootfs], "its test failed") {
			t.Errorf("withdrawn: %v", got)
		}
		if err := os.Remove(program); err != nil {
			t.Fatal(err)
		}
		e.kinds.testEach(t.Context())
		if got := e.Withdrawn(); len(got) != 0 {
			t.Errorf("withdrawn: %v", got)
		}
		if n := len(e.List()); n != 0 {
			t.Errorf("%d containers are listed", n)
		}
	}
	e.spaces = nil
	e.kinds.testEach(t.Context())
	got := e.Withdrawn()
	for _, kind := range []string{action.KindNamespaces, action.KindOwnNet, action.KindRootfs} {
		if !strings.Contains(got[kind], "no namespaces") {
			t.Errorf("%s: %q", kind, got[kind])
		}
	}
}
