package removal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// nest makes nested directories below an open directory, with a file in each.
func nest(t *testing.T, dir string, levels int) {
	t.Helper()
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	for range levels {
		must(t, unix.Mkdirat(at, "d", 0o755), unix.Mknodat(at, "f", unix.S_IFREG|0o600, 0))
		next, err := unix.Openat(at, "d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		must(t, err, unix.Close(at))
		at = next
	}
	must(t, unix.Close(at))
}

func setFlags(t *testing.T, path string, flags int) {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	err = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags)
	must(t, f.Close())
	if errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPERM) {
		t.Skip("skipped: this file system or user has no attributes: ", err)
	}
	must(t, err)
}

func mount(t *testing.T, source, at, kind string, flags uintptr) {
	t.Helper()
	if err := unix.Mount(source, at, kind, flags, ""); err != nil {
		t.Skip("skipped: nothing can be mounted here: ", err)
	}
	t.Cleanup(func() {
		for unix.Unmount(at, unix.MNT_DETACH) == nil {
		}
	})
}

// TestTreeRemoves all that a program may leave, and nothing beside it.
func TestTreeRemoves(t *testing.T) {
	const immutable, appendOnly = unix.STATX_ATTR_IMMUTABLE, unix.STATX_ATTR_APPEND
	for name, fill := range map[string]func(t *testing.T, dir, beside string){
		"nothing": func(t *testing.T, dir, _ string) { must(t, os.Remove(dir)) },
		"a file":  func(t *testing.T, dir, _ string) { must(t, os.Remove(dir), os.WriteFile(dir, nil, 0o600)) },
		"a pipe":  func(t *testing.T, dir, _ string) { must(t, unix.Mkfifo(dir+"/p", 0o600)) },
		"a link":  func(t *testing.T, dir, beside string) { must(t, os.Symlink(beside, dir+"/l")) },
		"many entries": func(t *testing.T, dir, _ string) {
			for i := range 3000 {
				must(t, os.WriteFile(dir+"/"+strconv.Itoa(i), nil, 0o600))
			}
		},
		"a deep tree": func(t *testing.T, dir, _ string) { nest(t, dir, 1500) },
		"deep trees with the names of moved ones": func(t *testing.T, dir, _ string) {
			must(t, os.MkdirAll(dir+"/.deep-1/x", 0o700), os.WriteFile(dir+"/.deep-2", nil, 0o600))
			nest(t, dir, 200)
		},
		"a deep tree of append-only directories": func(t *testing.T, dir, _ string) {
			nest(t, dir, 100)
			setFlags(t, dir+strings.Repeat("/d", 40), appendOnly)
			setFlags(t, dir+strings.Repeat("/d", 33), immutable)
		},
		"no modes": func(t *testing.T, dir, _ string) {
			nest(t, dir, 3)
			must(t, os.Chmod(dir+"/d/d", 0), os.Chmod(dir+"/d", 0), os.Chmod(dir, 0))
		},
		"an append-only directory": func(t *testing.T, dir, _ string) {
			nest(t, dir, 2)
			setFlags(t, dir+"/d", appendOnly)
		},
		"an immutable directory": func(t *testing.T, dir, _ string) { nest(t, dir, 2); setFlags(t, dir, immutable) },
		"an immutable file": func(t *testing.T, dir, _ string) {
			must(t, os.WriteFile(dir+"/f", nil, 0o600))
			setFlags(t, dir+"/f", immutable)
		},
		"a file with two names": func(t *testing.T, dir, _ string) {
			must(t, os.WriteFile(dir+"/f", nil, 0o600), os.Link(dir+"/f", dir+"/g"))
			setFlags(t, dir+"/f", appendOnly)
		},
		"a mount on it": func(t *testing.T, dir, _ string) { mount(t, "z", dir, "tmpfs", 0) },
		"two mounts on it": func(t *testing.T, dir,
			_ string) {
			mount(t, "z", dir, "tmpfs", 0)
			mount(t, "z", dir, "tmpfs", 0)
		},
		"a mount below": func(t *testing.T, dir, _ string) { nest(t, dir, 2); mount(t, "z", dir+"/d", "tmpfs", 0) },
		"a directory beside": func(t *testing.T, dir,
			beside string) {
			nest(t, dir, 1)
			mount(t, beside, dir+"/d", "", unix.MS_BIND)
		},
		"a covered mount": func(t *testing.T, dir, beside string) {
			nest(t, dir, 1)
			mount(t, beside, dir+"/d", "", unix.MS_BIND)
			mount(t, "z", dir, "tmpfs", 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			dir, beside := root+"/dir", root+"/dir2"
			must(t, os.Mkdir(dir, 0o755), os.MkdirAll(beside+"/keep", 0o755))
			fill(t, dir, beside)
			must(t, Tree(dir))
			if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("it is still there: %v", err)
			}
			if _, err := os.Lstat(beside + "/keep"); err != nil {
				t.Errorf("beside it: %v", err)
			}
		})
	}
}

// TestTreeHoldsFewDescriptors at any depth.
func TestTreeHoldsFewDescriptors(t *testing.T) {
	dir := t.TempDir() + "/dir"
	must(t, os.Mkdir(dir, 0o755))
	nest(t, dir, 1000)
	var was unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	open, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	few := was
	few.Cur = uint64(len(open) + openMost + 10)
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
	err = Tree(dir)
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was), err)
}

// TestTreeEntersNoMount: a mount that cannot be removed keeps its content.
func TestTreeEntersNoMount(t *testing.T) {
	root := t.TempDir()
	must(t, os.MkdirAll(root+"/dir/d", 0o755), os.MkdirAll(root+"/beside/keep", 0o755))
	mount(t, root+"/beside", root+"/dir/d", "", unix.MS_BIND)
	parent, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	defer unix.Close(parent)
	r := &remover{top: -1}
	if r.entry(parent, "dir", 0); !r.lasts(parent, "dir") || !errors.Is(r.err, unix.EBUSY) {
		t.Errorf("a directory with a mount: %v", r.err)
	}
	if _, err := os.Lstat(root + "/beside/keep"); err != nil {
		t.Error(err)
	}
}

// TestAttributesOfAFileWithAnotherNameStay, as that may be another program's file.
func TestAttributesOfAFileWithAnotherNameStay(t *testing.T) {
	root := t.TempDir()
	must(t, os.Mkdir(root+"/dir", 0o755), os.WriteFile(root+"/dir/f", nil, 0o600), os.Link(root+"/dir/f", root+"/other"))
	setFlags(t, root+"/other", unix.STATX_ATTR_IMMUTABLE)
	t.Cleanup(func() { setFlags(t, root+"/other", 0) })
	must(t, Tree(root+"/dir"))
	if err := os.WriteFile(root+"/other", []byte("x"), 0o600); !errors.Is(err, unix.EPERM) {
		t.Errorf("the other name lost its attribute: %v", err)
	}
}

// TestErrorIsShort, however deep the cause is and whatever it is called.
func TestErrorIsShort(t *testing.T) {
	long := strings.Repeat("/"+strings.Repeat("x", 200), 15)
	if got := shorten(long); len(got) > 4*nameMost || !strings.HasPrefix(long, got[:100]) {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	r := &remover{}
	r.fail("remove", filepath.Base(strings.Repeat("\xff", 255)), unix.EBUSY)
	if len(r.err.Error()) > 5*nameMost || !errors.Is(r.err, unix.EBUSY) {
		t.Errorf("%d bytes: %v", len(r.err.Error()), r.err)
	}
}
