package executor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"cantina/internal/run"
)

const (
	// remainsDir has the directories of containers that could not be removed.
	remainsDir = "remains"
	// removeAgain is how often the removal of these is tried.
	removeAgain = time.Minute
)

// Remains is the directory of a data directory in which a cell keeps those of earlier containers
// that it could not remove.
func Remains(dir string) string { return filepath.Join(dir, remainsDir) }

// open finds the remains of earlier processes.
func (r *remains) open() error {
	if err := os.MkdirAll(r.e.path(remainsDir), 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(r.e.path(remainsDir))
	for _, d := range entries {
		r.known[filepath.Join(r.e.path(remainsDir), d.Name())] = nil
	}
	return err
}

// discard removes a directory or a file that a container could write, or moves it out of the way.
func (r *remains) discard(path string) {
	if err := r.remove(path); err != nil {
		r.keep(path, err)
		return
	}
	r.mu.Lock()
	delete(r.known, path)
	r.mu.Unlock()
}

// keep notes why a path could not be removed, after it was moved out of the way if possible.
func (r *remains) keep(path string, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if filepath.Dir(path) != r.e.path(remainsDir) {
		r.serial++
		to := filepath.Join(r.e.path(remainsDir), fmt.Sprintf("%s-%d", r.e.generation, r.serial))
		if unix.Rename(path, to) == nil {
			delete(r.known, path)
			path = to
		}
	}
	if r.known[path] == nil { // a warning each time would hide the first one
		r.e.log.Warn("cannot remove directory; trying again later", "path", path, "error", cause)
	}
	r.known[path] = cause
}

// mkdir makes the directory of a container. What an earlier one has left there is removed first.
func (r *remains) mkdir(path string) error {
	err := os.Mkdir(path, 0o755)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	r.discard(path)
	return os.Mkdir(path, 0o755)
}

// unused returns an error if a path still has what could not be removed there.
func (r *remains) unused(path string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.known[path]; err != nil {
		return fmt.Errorf("an earlier container's directory %s cannot be removed: %w", path, err)
	}
	return nil
}

// retry removes the remains now and then.
func (r *remains) retry(ctx context.Context) error {
	for {
		for _, path := range r.paths() {
			r.again(path)
		}
		if err := run.Pause(ctx, removeAgain); err != nil {
			return nil
		}
	}
}

// again tries once more to remove a path, unless a container may get its name: then the start of
// that one does it.
func (r *remains) again(path string) {
	if filepath.Dir(path) != r.e.path(remainsDir) && !strings.HasPrefix(filepath.Base(path), ".") {
		return
	}
	if err := r.remove(path); err != nil {
		r.keep(path, err)
		return
	}
	r.mu.Lock()
	delete(r.known, path)
	r.mu.Unlock()
	r.e.log.Info("removed directory", "path", path)
}

// paths lists the remains.
func (r *remains) paths() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.known))
}

// left returns one sentence about each path that could not be removed.
func (r *remains) left() (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, path := range slices.Sorted(maps.Keys(r.known)) {
		if err := r.known[path]; err != nil {
			out = append(out, fmt.Sprintf("%s: %v", path, err))
		}
	}
	return out
}
