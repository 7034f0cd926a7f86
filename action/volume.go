package action

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Volume is a file or a directory of the cell's machine that a container has at a path of its own.
type Volume struct {
	Host      string // absolute path on the machine
	Container string // absolute path in the container
	ReadOnly  bool
}

const (
	// MaxVolumes is how many volumes a workload may have, and how many directories a cell may allow.
	MaxVolumes = 64
	// maxPath is the longest path of a volume in bytes.
	maxPath = 1024
	// onlyRead is behind a path that may not be written.
	onlyRead = ":ro"
)

// ErrVolume reports a volume that no cell can have.
var ErrVolume = errors.New("not a valid volume")

// String is the volume as a flag has it: HOST:CONTAINER or HOST:CONTAINER:ro.
func (v Volume) String() string { return v.Host + ":" + suffixed(v.Container, v.ReadOnly) }

func suffixed(p string, readOnly bool) string {
	if readOnly {
		return p + onlyRead
	}
	return p
}

// ParseVolume reads HOST:CONTAINER, HOST:CONTAINER:ro or HOST:CONTAINER:rw.
func ParseVolume(text string) (Volume, error) {
	parts := strings.Split(text, ":")
	var v Volume
	if n := len(parts); n == 3 && (parts[2] == "ro" || parts[2] == "rw") {
		v.ReadOnly, parts = parts[2] == "ro", parts[:2]
	}
	if len(parts) != 2 {
		return v, fmt.Errorf("%.100q: %w: must be HOST:CONTAINER or HOST:CONTAINER:ro", text, ErrVolume)
	}
	v.Host, v.Container = untrailed(parts[0]), untrailed(parts[1])
	return v, v.Check()
}

// untrailed is a path without the slash that completion leaves behind a directory.
func untrailed(p string) string {
	if len(p) > 1 {
		return strings.TrimSuffix(p, "/")
	}
	return p
}

// Check refuses paths that no cell and no container can have.
func (v Volume) Check() error {
	bad := func(name, p, format string, args ...any) error {
		return fmt.Errorf("%s %.100q: %w: %s", name, p, ErrVolume, fmt.Sprintf(format, args...))
	}
	for _, x := range [...]struct{ name, path string }{{"host", v.Host}, {"container", v.Container}} {
		if problem := pathProblem(x.path); problem != "" {
			return bad(x.name, x.path, "%s", problem)
		}
	}
	if v.Container == "/" {
		return bad("container", v.Container, "must be below /")
	}
	for _, own := range [...]string{"/proc", "/sys", "/dev"} {
		if Below(own, v.Container) {
			return bad("container", v.Container, "%s belongs to the container itself", own)
		}
	}
	return nil
}

// pathProblem is why a path cannot be one of a volume, or "".
func pathProblem(p string) string {
	switch {
	case !strings.HasPrefix(p, "/"):
		return "must be an absolute path"
	case len(p) > maxPath:
		return fmt.Sprintf("must not be longer than %d bytes", maxPath)
	case strings.ContainsAny(p, ":\x00") || !utf8.ValidString(p):
		return "must be UTF-8, without colon and NUL"
	case path.Clean(p) != p:
		return "must be without .., . and empty parts, like " + path.Clean(p)
	}
	return ""
}

// rootDir is the path of the container's own directory in a root file system.
const rootDir = "/cantina"

// CheckVolumes refuses volumes that no cell can give the workload.
func (w *Workload) CheckVolumes() error {
	if len(w.Volumes) == 0 {
		return nil
	}
	var errs []error
	if len(w.Volumes) > MaxVolumes {
		errs = append(errs, fmt.Errorf("%d volumes, at most %d: %w", len(w.Volumes), MaxVolumes, ErrVolume))
	}
	if w.Isolation != IsolationNamespaces && w.Isolation != IsolationRootfs {
		errs = append(errs, fmt.Errorf("%w: isolation %v has no mounts; use isolation namespaces or rootfs", ErrVolume,
			w.Isolation))
	}
	for i, v := range w.Volumes {
		err := v.Check()
		switch {
		case err != nil:
		case w.Isolation == IsolationRootfs && Below(rootDir, v.Container):
			err = fmt.Errorf("container %.100q: %w: %s is the container's own directory", v.Container, ErrVolume, rootDir)
		case slices.ContainsFunc(w.Volumes[:i], func(o Volume) bool { return o.Container == v.Container }):
			err = fmt.Errorf("container %.100q: %w: there are two of this path", v.Container, ErrVolume)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// HostPaths are the paths that the workload needs of its cell, in order, with :ro behind those that it only reads.
func (w *Workload) HostPaths() []string {
	var out []string
	for _, v := range w.Volumes {
		out = append(out, suffixed(v.Host, v.ReadOnly))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// VolumeDir is a directory of a cell: volumes are allowed at its path and below it.
type VolumeDir struct {
	Path     string
	ReadOnly bool // only read-only ones
}

// String is the directory as a flag and a cell's report have it: PATH or PATH:ro.
func (d VolumeDir) String() string { return suffixed(d.Path, d.ReadOnly) }

// ParseVolumeDir reads PATH or PATH:ro.
func ParseVolumeDir(text string) (VolumeDir, error) {
	p, readOnly := strings.CutSuffix(text, onlyRead)
	d := VolumeDir{Path: untrailed(p), ReadOnly: readOnly}
	if problem := pathProblem(d.Path); problem != "" || strings.Contains(p, ",") {
		return d, fmt.Errorf("directory %.100q: %s", text, cmp.Or(problem, "must not have a comma"))
	}
	return d, nil
}

// VolumeAllowed reports whether a path of HostPaths is allowed by one of the directories that a cell reports.
func VolumeAllowed(dirs []string, need string) bool {
	p, readOnly := strings.CutSuffix(need, onlyRead)
	return slices.ContainsFunc(dirs, func(dir string) bool {
		dir, only := strings.CutSuffix(dir, onlyRead)
		return (readOnly || !only) && Below(dir, p)
	})
}

// Below reports whether a clean path is that of a directory or below it.
func Below(dir, p string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}
