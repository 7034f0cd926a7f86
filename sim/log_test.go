package sim

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestExpectedWarningsExist finds each warning that the simulator expects in the source of the shells: a message
// that was reworded there would be a violation here.
func TestExpectedWarningsExist(t *testing.T) {
	var source strings.Builder
	for _, dir := range []string{"auctioneer", "bbs", "leader", "registry", "scheduler", "timetable"} {
		files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %d files", dir, err, len(files))
		}
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			source.Write(text)
		}
	}
	for _, message := range append([]string{"row quarantined"}, worldly...) {
		if !strings.Contains(source.String(), strconv.Quote(message)) {
			t.Errorf("no shell logs %q", message)
		}
	}
}
