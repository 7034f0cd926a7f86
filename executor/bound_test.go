package executor

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cantina/action"
	"cantina/logstore"
	"cantina/resource"
)

// TestALargeResultIsAnError: a result is whole, or it is an error that gives the maximum size.
func TestALargeResultIsAnError(t *testing.T) {
	e := testExecutor(t, nil)
	for n, want := range map[int]error{0: nil, MaxResult: nil, MaxResult + 1: ErrResult, 3 * MaxResult: ErrResult} {
		id := fmt.Sprint("r", n)
		s := sh(fmt.Sprintf("head -c %d /dev/zero >r", n))
		s.Workload.ResultFile = "r"
		launch(t, e, id, s)
		text, err := e.ResultFile(id)
		if !errors.Is(err, want) || err == nil && len(text) != n || err != nil &&
			(len(text) > 0 || !strings.Contains(err.Error(), "more than 51200 bytes")) {
			t.Errorf("%d bytes: %d, %v", n, len(text), err)
		}
	}
}

// TestUnpackedDownloadsAreBounded: by the cell, or by the disk that the work asked for.
func TestUnpackedDownloadsAreBounded(t *testing.T) {
	bomb := filepath.Join(tempDir(t), "x.zip")
	f, err := os.Create(bomb)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	for i := range 4 {
		w, err := z.Create(fmt.Sprint("f", i))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(w, zeros{}, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	e := testExecutor(t, func(c *Config) { c.UnpackMax = 3 << 20 })
	for name, c := range map[string]struct {
		disk int
		fine bool
	}{"the cell's bound": {0, false}, "more disk": {64, true}, "less disk": {2, false}} {
		s := sh("ls")
		if c.disk > 0 {
			s.Workload.Resources = resource.Amounts{resource.DiskMB: c.disk}
		}
		s.Workload.Setup = &action.Action{Download: &action.Download{From: "file://" + bomb, To: "in", Unpack: true,
			AllowUnpinned: true}}
		got := launch(t, e, strings.ReplaceAll(name, " ", "-"), s)
		if got.Result.Failed == c.fine || !c.fine && !strings.Contains(got.Result.Reason, "too large when unpacked") &&
			!strings.Contains(got.Result.Reason, "disk") {
			t.Errorf("%s: %+v %q", name, got.Result, lines(t, e, got.ID, logstore.Stderr))
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
