package removal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Mounts lists the mounts on a directory and below it, in the order of mounting, as this process
// sees them. dir is absolute and has no links in it.
func Mounts(dir string) ([]string, error) {
	mounts, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		return m.Mountpoint != dir && !strings.HasPrefix(m.Mountpoint, dir+"/"), false
	})
	var out []string
	for _, m := range mounts {
		out = append(out, m.Mountpoint)
	}
	return out, err
}

// unmountRounds is how often the mounts are listed: one that covers others may have to go first.
const unmountRounds = 3

// unmount takes away what a program has mounted on a directory or below it. These file systems are
// not the directory's own: they are not emptied.
func unmount(dir string) error {
	var last error
	for range unmountRounds {
		mounts, err := Mounts(dir)
		if err != nil {
			return fmt.Errorf("list mounts: %w", err)
		}
		if len(mounts) == 0 {
			return nil
		}
		for _, at := range slices.Backward(mounts) {
			// EINVAL: it has gone with another one.
			if err := unix.Unmount(at, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && err != unix.EINVAL {
				last = fmt.Errorf("unmount %s: %w", shorten(at), err)
			}
		}
	}
	mounts, err := Mounts(dir)
	if err != nil {
		return fmt.Errorf("list mounts: %w", err)
	}
	if len(mounts) > 0 && last == nil {
		last = fmt.Errorf("unmount %s: %w", shorten(mounts[0]), unix.EBUSY)
	}
	if len(mounts) > 0 {
		return last
	}
	return nil
}
