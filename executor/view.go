package executor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"cantina/action"
	"cantina/executor/isolate"
)

// rootFolder is where a container with a root of its own finds its folder.
const rootFolder = "/cantina"

// makeView prepares what the container will see.
func (c *container) makeView() error {
	w := &c.spec.Workload
	if w.Isolation != action.IsolationNamespaces && w.Isolation != action.IsolationRootfs {
		return nil
	}
	if c.e.spaces == nil {
		return errors.New("this machine has no name spaces for the cell")
	}
	shared := !c.single()
	if w.Isolation == action.IsolationNamespaces {
		c.view = isolate.Namespaces(c.e.spaces, c.folder, w.OwnNet, shared)
		return nil
	}
	lower, release, err := c.e.image(w.Rootfs)
	if err != nil {
		return fmt.Errorf("rootfs %s: %w", w.Rootfs, err)
	}
	c.lower, c.release = lower, release
	r := isolate.Root{Lower: lower, Upper: c.below("upper"), Work: c.below("work"), Merged: c.below("merged"),
		Folder: c.below("folder"), Inside: rootFolder, OwnNet: w.OwnNet}
	if !w.OwnNet {
		r.Hostnet = []string{"/etc/resolv.conf", "/etc/hosts"}
	}
	for _, d := range []string{r.Upper, r.Work, r.Merged, r.Folder} {
		if err := os.Mkdir(d, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("make root: %w", err)
		}
	}
	c.rootDir = r.Folder
	c.view = isolate.Rootfs(c.e.spaces, r, shared)
	return nil
}

func (c *container) below(name string) string { return filepath.Join(c.folder, name) }

// insideFolder is the container's folder as its processes see it.
func (c *container) insideFolder() string {
	if c.spec.Workload.Isolation == action.IsolationRootfs {
		return rootFolder
	}
	return c.folder
}

// credential finds a user in the account files that the container sees: those of
// the topmost folder of its image that has them.
func (c *container) credential(user string) (*syscall.Credential, error) {
	if c.spec.Workload.Isolation != action.IsolationRootfs {
		return credential("", user)
	}
	for _, d := range c.lower {
		if _, err := os.Stat(filepath.Join(d, "etc/passwd")); err == nil {
			return credential(d, user)
		}
	}
	return credential(c.folder, user)
}

// image finds the folders of a root file system, the topmost first.
func (e *Executor) image(ref string) ([]string, func(), error) {
	if st, err := os.Stat(ref); err == nil && st.IsDir() && filepath.IsAbs(ref) {
		return []string{ref}, func() {}, nil
	}
	return nil, nil, errors.New("not a folder")
}
