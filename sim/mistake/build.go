package mistake

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"cantina/internal/mutate"
)

// clause is the package clause of a file.
var clause = regexp.MustCompile(`(?m)^package \w+`)

// Sources returns the files below the module's root with all mistakes planted. Files that check
// the selected one import this package.
func Sources(root string) (map[string]string, error) {
	files, err := mutate.Patched(root, Patches())
	for path, text := range files {
		if at := clause.FindStringIndex(text); at != nil && strings.Contains(text, "mistake.") {
			files[path] = text[:at[1]] + `; import "cantina/sim/mistake"` + text[at[1]:]
		}
	}
	return files, err
}

// Programs are builds with all mistakes planted.
type Programs struct {
	Simulator string // `cantina sim` alone
	Search    string // the tests of package worker
}

// Build makes both programs in dir.
func Build(root, dir string) (Programs, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return Programs{}, err
	}
	files, err := Sources(root)
	if err != nil {
		return Programs{}, err
	}
	texts := map[string]string{}
	for path, text := range files {
		texts[filepath.Join(root, path)] = text
	}
	overlay, remove, err := mutate.Overlay(texts)
	if err != nil {
		return Programs{}, err
	}
	defer remove()
	p := Programs{filepath.Join(dir, "simulator"), filepath.Join(dir, "search")}
	for _, args := range [][]string{
		{"build", "-overlay=" + overlay, "-o", p.Simulator, "./internal/mutate/simulate"},
		{"test", "-c", "-vet=off", "-overlay=" + overlay, "-o", p.Search, "./worker"},
	} {
		cmd := exec.Command("go", args...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			return Programs{}, fmt.Errorf("the sources with all mistakes (%s): go %s: %w\n%s",
				strings.Join(slices.Sorted(maps.Keys(files)), ", "), args[0], err, out)
		}
	}
	return p, nil
}

// Environ is the environment of a program in which a mistake is on; "" = none.
func Environ(name string) []string { return append(os.Environ(), Variable+"="+name) }
