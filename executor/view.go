package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"cantina/action"
	"cantina/executor/isolate"
	"cantina/executor/step"
)

// makeView prepares the container's view.
func (c *container) makeView() (err error) {
	w := &c.spec.Workload
	if c.files.binds, err = c.e.volumes.binds(w); err != nil {
		return err
	}
	if w.Isolation != action.IsolationNamespaces && w.Isolation != action.IsolationRootfs {
		return nil
	}
	if c.e.spaces == nil {
		return errors.New("this machine has no namespaces for the cell")
	}
	shared := !c.single()
	if w.Isolation == action.IsolationNamespaces {
		c.files.view = isolate.Namespaces(c.e.spaces, c.files.dir, c.files.binds, w.OwnNet, shared)
		return nil
	}
	if err := c.openImage(); err != nil {
		return err
	}
	if err := c.files.applyImage(); err != nil {
		return err
	}
	r := c.files.isolateRoot()
	for _, d := range []string{r.Upper, r.Work, r.Merged, r.ContainerDir} {
		if err := os.Mkdir(d, 0o755); errors.Is(err, os.ErrExist) {
			continue
		} else if err := errors.Join(err, os.Chmod(d, 0o755)); err != nil { // with any umask of the cell
			return fmt.Errorf("make root: %w", err)
		}
	}
	c.files.rootDir = r.ContainerDir
	c.files.view = isolate.Rootfs(c.e.spaces, *r, shared)
	return nil
}

// openImage makes the container's image available; a stop gives up waiting for it.
func (c *container) openImage() error {
	w := &c.spec.Workload
	if filepath.IsAbs(w.Rootfs) {
		c.starting.inPhase("unpacking image "+w.Rootfs, true)
	} else {
		c.starting.inPhase("pulling image "+w.Rootfs, true)
	}
	defer c.starting.inPhase("", true)
	ctx, release := until(c.stopC, nil)
	limited, cancel := ctx, context.CancelFunc(func() {})
	limit := shorter(w.TimeLimit, w.StartTimeout)
	if limit > 0 {
		limited, cancel = context.WithTimeout(ctx, limit-(c.e.clock.Boot()-c.begun))
	}
	img, err := c.e.images.Get(limited, w.Rootfs)
	late := err != nil && ctx.Err() == nil && limited.Err() != nil
	cancel()
	release()
	switch {
	case late && limit == w.TimeLimit:
		return fmt.Errorf("rootfs: %w: %v, while the image %s was made ready", step.ErrTimeLimit, limit, w.Rootfs)
	case late:
		return fmt.Errorf("rootfs: not RUNNING within the start timeout of %v, while the image %s was made ready", limit,
			w.Rootfs)
	case err != nil:
		return fmt.Errorf("rootfs: %w", err)
	}
	c.files.release, c.files.image = img.Close, img.Settings
	for _, l := range slices.Backward(img.Layers) { // the kernel wants the topmost first
		c.files.lower = append(c.files.lower, l)
	}
	return nil
}
