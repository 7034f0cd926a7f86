package isolate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Root is a root file system of a container.
type Root struct {
	Lower   []string // folders of the image, the topmost first
	Upper   string   // takes what the container changes
	Work    string   // overlayfs's own; on the same file system as Upper
	Merged  string   // where the root is put together
	Folder  string   // the container's folder, bound at Inside
	Inside  string   // absolute path within the root; empty = not bound
	OwnNet  bool
	Hostnet []string // files of the host that the root gets with the host's network
}

// Rootfs is a view of a root file system, with processes of its own.
func Rootfs(h *Host, r Root, shared bool) *View {
	return newView(h, r.OwnNet, shared, private, func() error { return r.mount(h.OwnProc) })
}

// Assembled is a view of the machine in which the root of a container has been put
// together at its place, for a program that makes it the container's: runc.
func Assembled(h *Host, r Root, shared bool) *View {
	return newView(h, r.OwnNet, shared, private, r.overlay, r.hostFiles)
}

// overlay puts the root together.
func (r Root) overlay() error {
	opts := "lowerdir=" + joinLower(r.Lower) + ",upperdir=" + escape(r.Upper) + ",workdir=" + escape(r.Work)
	if err := unix.Mount("overlay", r.Merged, "overlay", 0, opts); err != nil {
		return fmt.Errorf("mount overlay: %w", err)
	}
	return nil
}

// mount puts the root together and makes it the thread's.
func (r Root) mount(ownProc bool) error {
	for _, f := range []func() error{r.overlay, r.devices, r.bindFolder, r.hostFiles} {
		if err := f(); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(r.Merged, "proc"), 0o555); err != nil {
		return fmt.Errorf("make /proc: %w", err)
	}
	if !ownProc {
		if err := unix.Mount("/proc", filepath.Join(r.Merged, "proc"), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind /proc: %w", err)
		}
	}
	if err := unix.Chdir(r.Merged); err != nil {
		return fmt.Errorf("enter root: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the old root: %w", err)
	}
	return unix.Chdir("/")
}

func joinLower(dirs []string) string {
	out := make([]string, len(dirs))
	for i, d := range dirs {
		out[i] = escape(d)
	}
	return strings.Join(out, ":")
}

// escape protects the characters that separate options of overlayfs.
func escape(s string) string { return strings.NewReplacer(`\`, `\\`, ":", `\:`, ",", `\,`).Replace(s) }

var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// devices makes a small /dev of the host's harmless devices.
func (r Root) devices() error {
	dev := filepath.Join(r.Merged, "dev")
	if err := os.MkdirAll(dev, 0o755); err != nil {
		return fmt.Errorf("make /dev: %w", err)
	}
	if err := unix.Mount("tmpfs", dev, "tmpfs", unix.MS_NOSUID, "mode=755,size=64k"); err != nil {
		return fmt.Errorf("mount /dev: %w", err)
	}
	for _, d := range devices {
		if err := bindFile("/dev/"+d, filepath.Join(dev, d)); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"} {
		if err := os.Symlink(target, filepath.Join(dev, name)); err != nil {
			return fmt.Errorf("make /dev/%s: %w", name, err)
		}
	}
	if err := os.Mkdir(filepath.Join(dev, "pts"), 0o755); err != nil {
		return fmt.Errorf("make /dev/pts: %w", err)
	}
	if err := unix.Mount("devpts", filepath.Join(dev, "pts"), "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"); err != nil {
		return fmt.Errorf("mount /dev/pts: %w", err)
	}
	if err := os.Mkdir(filepath.Join(dev, "shm"), 0o1777); err != nil {
		return fmt.Errorf("make /dev/shm: %w", err)
	}
	return mountTmp(filepath.Join(dev, "shm"))
}

func bindFile(from, to string) error {
	f, err := os.OpenFile(to, os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("bind %s: %w", from, err)
	}
	f.Close()
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", from, err)
	}
	return nil
}

// bindFolder puts the container's folder into the root.
func (r Root) bindFolder() error {
	if r.Inside == "" {
		return nil
	}
	to := filepath.Join(r.Merged, r.Inside)
	if err := os.MkdirAll(to, 0o755); err != nil {
		return fmt.Errorf("bind %s: %w", r.Folder, err)
	}
	if err := unix.Mount(r.Folder, to, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", r.Folder, err)
	}
	return nil
}

// hostFiles gives the root what its network needs from the host, where the image
// has nothing of its own.
func (r Root) hostFiles() error {
	for _, f := range r.Hostnet {
		to := filepath.Join(r.Merged, f)
		b, err := os.ReadFile(f)
		if _, serr := os.Lstat(to); err != nil || serr == nil {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return fmt.Errorf("copy %s: %w", f, err)
		}
		if err := os.WriteFile(to, b, 0o644); err != nil {
			return fmt.Errorf("copy %s: %w", f, err)
		}
	}
	return nil
}
