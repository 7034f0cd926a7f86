package isolate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Root is a root file system of a container.
type Root struct {
	Lower        []string // directories of the image, the topmost first
	Upper        string   // receives the container's changes
	Work         string   // overlayfs's own; on the same file system as Upper
	Merged       string   // where the root is put together
	ContainerDir string   // the container's directory, bound at Inside
	Inside       string   // absolute path within the root; empty = not bound
	Dir          string   // a directory of the root that is made where the image has none; empty = none
	Binds        []Bind
	OwnNet       bool
	Hostnet      []string // files of the host that the root gets with the host's network
	Hosts        string   // content of /etc/hosts where neither image nor host have one; empty = there is none
}

// Rootfs is a view of a root file system, with its own processes.
func Rootfs(h *Host, r Root, shared bool) *View {
	return newView(h, r.OwnNet, shared, private, r.mount)
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
func (r Root) mount() error {
	for _, f := range []func() error{r.overlay, r.devices, r.bindDir, r.hostFiles, r.volumes, r.system} {
		if err := f(); err != nil {
			return err
		}
	}
	if _, err := r.dir("proc", 0o555); err != nil {
		return err
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

// volumes puts the binds into the root, after the cell has made its own files there.
func (r Root) volumes() error {
	all, done, err := trees(r.Binds)
	if err != nil {
		return err
	}
	defer done()
	return attach(r.Merged, all)
}

// dir makes a directory of the root, in which something is mounted, and returns its path
// on the machine. No link of the image leads there.
func (r Root) dir(name string, mode os.FileMode) (string, error) {
	root, err := os.OpenRoot(r.Merged)
	if err != nil {
		return "", fmt.Errorf("make /%s: %w", name, err)
	}
	defer func() { _ = root.Close() }() // a directory
	if err := root.Mkdir(name, mode); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("make /%s: %w", name, err)
	}
	info, err := root.Lstat(name)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("the root file system has something else of that name: %v", info.Mode().Type())
	}
	if err != nil {
		return "", fmt.Errorf("make /%s: %w", name, err)
	}
	return filepath.Join(r.Merged, name), nil
}

// system mounts /sys, which shows the network that the thread is in, and changes nothing.
func (r Root) system() error {
	sys, err := r.dir("sys", 0o555)
	if err != nil {
		return err
	}
	if err := unix.Mount("sysfs", sys, "sysfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC,
		""); err != nil {
		return fmt.Errorf("mount /sys: %w", err)
	}
	return nil
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
	dev, err := r.dir("dev", 0o755)
	if err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", dev, "tmpfs", unix.MS_NOSUID, "mode=755,size=64k"); err != nil {
		return fmt.Errorf("mount /dev: %w", err)
	}
	for _, d := range devices {
		if err := bindFile("/dev/"+d, filepath.Join(dev, d)); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2",
		"ptmx": "pts/ptmx"} {
		if err := os.Symlink(target, filepath.Join(dev, name)); err != nil {
			return fmt.Errorf("make /dev/%s: %w", name, err)
		}
	}
	if err := os.Mkdir(filepath.Join(dev, "pts"), 0o755); err != nil {
		return fmt.Errorf("make /dev/pts: %w", err)
	}
	if err := unix.Mount("devpts", filepath.Join(dev, "pts"), "devpts", unix.MS_NOSUID|unix.MS_NOEXEC,
		"newinstance,ptmxmode=0666,mode=0620"); err != nil {
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

// bindDir puts the container's directory into the root.
func (r Root) bindDir() error {
	if r.Inside == "" {
		return nil
	}
	to, err := r.dir(strings.TrimPrefix(r.Inside, "/"), 0o755)
	if err != nil {
		return err
	}
	if err := unix.Mount(r.ContainerDir, to, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", r.ContainerDir, err)
	}
	return nil
}

// hostFiles adds the files that the root's network needs, if the image has none: those of the
// host, with the host's network, and the names of the loopback.
func (r Root) hostFiles() error {
	root, err := os.OpenRoot(r.Merged)
	if err != nil {
		return fmt.Errorf("enter root: %w", err)
	}
	defer func() { _ = root.Close() }() // a directory
	texts := map[string][]byte{}
	if r.Hosts != "" {
		texts["/etc/hosts"] = []byte(r.Hosts)
	}
	for _, f := range r.Hostnet {
		if b, err := os.ReadFile(f); err == nil {
			texts[f] = b
		}
	}
	if r.Dir != "" { // when it cannot be made, the start of the program fails
		_ = root.MkdirAll(strings.TrimPrefix(r.Dir, "/"), 0o755)
	}
	for f, b := range texts {
		name := strings.TrimPrefix(f, "/")
		if info, err := root.Lstat(name); err == nil && info.Size() > 0 { // tools leave an empty one in images
			continue
		}
		if err := errors.Join(root.MkdirAll(filepath.Dir(name), 0o755), root.WriteFile(name, b, 0o644)); err != nil {
			return fmt.Errorf("make %s: %w", f, err)
		}
	}
	return nil
}
