package mutate

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Patch puts a new text in the place of an old one that occurs exactly once in its file.
type Patch struct {
	Name string // purpose of the patch
	File string // below the module's root
	Old  string
	New  string
}

// Patched returns the files of patches with all of them applied, by path below root. It changes
// nothing on disk. The error names each patch whose old text does not occur exactly once, and each
// that overlaps another.
func Patched(root string, patches []Patch) (map[string]string, error) {
	files := map[string][]Patch{}
	for _, p := range patches {
		files[p.File] = append(files[p.File], p)
	}
	out := map[string]string{}
	var errs []error
	for file, ps := range files {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", ps[0].Name, err))
			continue
		}
		out[file], err = apply(string(text), ps)
		errs = append(errs, err)
	}
	return out, errors.Join(errs...)
}

// apply replaces the old texts at their positions before any of them is replaced.
func apply(text string, patches []Patch) (string, error) {
	at := func(p Patch) int { return strings.Index(text, p.Old) }
	var errs []error
	for _, p := range patches {
		if n := strings.Count(text, p.Old); n != 1 {
			errs = append(errs, fmt.Errorf("%s: %s has the old text of the patch %d times, want once; correct the patch:\n%s",
				p.Name, p.File, n, p.Old))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	patches = slices.SortedFunc(slices.Values(patches), func(a, b Patch) int { return cmp.Compare(at(a), at(b)) })
	var out strings.Builder
	done := 0
	for i, p := range patches {
		from := at(p)
		if from < done {
			return "", fmt.Errorf("%s: %s: the old text of the patch lies over that of %s:\n%s", p.Name, p.File,
				patches[i-1].Name, p.Old)
		}
		out.WriteString(text[done:from] + p.New)
		done = from + len(p.Old)
	}
	return out.String() + text[done:], nil
}
