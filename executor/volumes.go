package executor

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"cantina/action"
	"cantina/executor/isolate"
)

// ErrVolume reports a volume that the cell does not give.
var ErrVolume = errors.New("cannot give a volume")

// volumeDir is a directory at which and below which volumes are allowed.
type volumeDir struct {
	action.VolumeDir
	real string // its path without links at the start of the cell: a later link on it is not followed
}

// open checks the directories of Config.Volumes. None overlaps another one, or the cell's own directories: a
// container that may write to one must not reach the others.
func (vs *volumes) open() error {
	own := map[string]string{"data directory": vs.e.cfg.Dir}
	if vs.e.cfg.Secrets != "" {
		dir, err := realDir(vs.e.cfg.Secrets)
		if err != nil {
			return fmt.Errorf("secrets: %w", err)
		}
		own["directory of secrets"] = dir
	}
	if n := len(vs.e.cfg.Volumes); n > action.MaxVolumes {
		return fmt.Errorf("volumes: %d directories, at most %d are allowed", n, action.MaxVolumes)
	}
	for _, d := range vs.e.cfg.Volumes {
		dir, err := realDir(d.Path)
		if err != nil {
			return fmt.Errorf("volumes: %w", err)
		}
		for what, o := range own {
			if overlap(dir, o) {
				return fmt.Errorf("volumes: %s overlaps the %s %s", d.Path, what, o)
			}
		}
		for _, o := range vs.dirs {
			if overlap(dir, o.real) || overlap(d.Path, o.Path) {
				return fmt.Errorf("volumes: %s overlaps %s", d.Path, o.Path)
			}
		}
		vs.dirs = append(vs.dirs, volumeDir{d, dir})
	}
	return nil
}

// realDir is the path of a directory without links.
func realDir(path string) (string, error) {
	dir, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = &os.PathError{Op: "open", Path: path, Err: syscall.ENOTDIR}
	}
	return dir, err
}

func overlap(a, b string) bool { return action.Below(a, b) || action.Below(b, a) }

// binds are the mounts of the volumes of a workload.
func (vs *volumes) binds(w *action.Workload) ([]isolate.Bind, error) {
	if len(w.Volumes) == 0 {
		return nil, nil
	}
	if err := w.CheckVolumes(); err != nil {
		return nil, err
	}
	if os.Getuid() != 0 || vs.e.spaces == nil {
		return nil, fmt.Errorf("%w: mounts need a cell that runs as root, with namespaces", ErrVolume)
	}
	out := make([]isolate.Bind, 0, len(w.Volumes))
	for _, v := range w.Volumes {
		d, err := vs.dirOf(v)
		if err == nil && w.Isolation == action.IsolationNamespaces && overlap(v.Container, vs.e.cfg.Dir) {
			err = fmt.Errorf("the path %s in the container overlaps the cell's data directory", v.Container)
		}
		if err != nil {
			return nil, fmt.Errorf("%w %s: %w", ErrVolume, v.Host, err)
		}
		rel, err := filepath.Rel(d.Path, v.Host)
		if err != nil {
			return nil, err
		}
		out = append(out, isolate.Bind{Root: d.real, Path: rel, Target: v.Container, ReadOnly: v.ReadOnly})
	}
	return out, nil
}

// dirOf is the directory that allows a volume.
func (vs *volumes) dirOf(v action.Volume) (volumeDir, error) {
	var names []string
	for _, d := range vs.dirs {
		switch names = append(names, d.String()); {
		case !action.Below(d.Path, v.Host):
		case d.ReadOnly && !v.ReadOnly:
			return d, fmt.Errorf("this cell allows it only with :ro (read_only: true)")
		default:
			return d, nil
		}
	}
	if names == nil {
		return volumeDir{}, errors.New("this cell allows no volumes; see cantina cell --volumes")
	}
	return volumeDir{}, fmt.Errorf("this cell allows only %s; see cantina cell --volumes", strings.Join(names, ", "))
}

// inVolume reports whether a path of a container is in one of its volumes.
func inVolume(list []action.Volume, name string) bool {
	return slices.ContainsFunc(list, func(v action.Volume) bool { return action.Below(v.Container, path.Clean(name)) })
}
