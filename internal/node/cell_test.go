package node

import (
	"log/slog"
	"os"
	"testing"

	"cantina/internal/run"
)

// TestACellWithoutServersOpensNothing: a mistake in the flags leaves no executor behind
// that holds the directory.
func TestACellWithoutServersOpensNothing(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenCell(t.Context(), CellConfig{Name: "c", Dir: dir, Log: slog.New(slog.DiscardHandler),
		Clock: run.Bubble()}); err == nil {
		t.Fatal("a cell without servers")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}
