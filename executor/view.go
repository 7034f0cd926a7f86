package executor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	if err := c.openImage(); err != nil {
		return err
	}
	r := c.isolateRoot()
	for _, d := range []string{r.Upper, r.Work, r.Merged, r.Folder} {
		if err := os.Mkdir(d, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("make root: %w", err)
		}
	}
	c.rootDir = r.Folder
	c.view = isolate.Rootfs(c.e.spaces, *r, shared)
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
		if _, err := os.Lstat(filepath.Join(d, "etc/passwd")); err == nil {
			return credential(d, user)
		}
	}
	return credential(c.folder, user)
}

// openImage makes the container's image available; a stop gives up waiting for it.
func (c *container) openImage() error {
	ctx, release := c.untilStopped(nil)
	img, err := c.e.images.Get(ctx, c.spec.Workload.Rootfs)
	release()
	if err != nil {
		return fmt.Errorf("rootfs: %w", err)
	}
	c.release, c.imageEnv, c.imageUser = img.Close, img.Settings.Env, img.Settings.User
	for _, l := range slices.Backward(img.Layers) { // the kernel wants the topmost first
		c.lower = append(c.lower, l)
	}
	return nil
}
