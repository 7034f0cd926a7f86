package cgroup

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
)

func TestParseHost(t *testing.T) {
	mounts := `25 1 0:22 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
26 1 0:23 /docker/abc /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
27 1 0:24 / /mnt/with\040space rw - cgroup2 cgroup2 rw
28 1 0:25 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
`
	groups := "4:memory:/svc/x\n3:cpu,cpuacct:/docker/abc/y\n1:name=systemd:/\n0::/u\n"
	parsed, err := mountinfo.GetMountsFromReader(strings.NewReader(mounts), nil)
	if err != nil {
		t.Fatal(err)
	}
	h := parseHost(parsed, groups)
	if h.Unified == nil || h.Unified.SelfDir() != "/mnt/with space/u" {
		t.Errorf("unified = %+v", h.Unified)
	}
	if d := h.V1["memory"].SelfDir(); d != "/sys/fs/cgroup/memory/svc/x" {
		t.Errorf("memory = %s", d)
	}
	if d := h.V1["cpu"].SelfDir(); d != "/sys/fs/cgroup/cpu,cpuacct/y" {
		t.Errorf("cpu = %s", d)
	}
	if len(h.V1) != 3 {
		t.Errorf("controllers = %v", h.V1)
	}
}

func TestSelfDirOutsideMount(t *testing.T) {
	m := Mount{Dir: "/sys/fs/cgroup", Root: "/a/b", Self: "/a"}
	if d := m.SelfDir(); d != "" {
		t.Errorf("SelfDir = %q, want none", d)
	}
}

func TestEscapeIsInjectiveAndSafe(t *testing.T) {
	long := make([]byte, 300)
	for i := range long {
		long[i] = 'a'
	}
	seen := map[string]string{}
	for _, s := range []string{"", "a", ".", "..", ".a", "a/b", "a%2Fb", "a b", "ä", string(long), string(long) + "b",
		"b-1.2.3"} {
		e := Escape(s)
		if o, ok := seen[e]; ok {
			t.Errorf("%q and %q both become %q", o, s, e)
		}
		seen[e] = s
		if e == "" || e[0] == '.' || len(e) > 255 {
			t.Errorf("Escape(%q) = %q is no directory name", s, e)
		}
		for _, c := range []byte(e) {
			if c == '/' {
				t.Errorf("Escape(%q) = %q holds a slash", s, e)
			}
		}
	}
}

func TestVictim(t *testing.T) {
	record := "6,1234,5678,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0," +
		"oom_memcg=/a/slot-x-1,task_memcg=/a/slot-x-1,task=tail,pid=17,uid=0\n SUBSYSTEM=x\n"
	if got := victim(record, "slot-x-1"); got != "tail (pid 17)" {
		t.Errorf("victim = %q", got)
	}
	for _, other := range []string{"slot-x-11", "a"} {
		if got := victim(record, other); got != "" {
			t.Errorf("victim of %s = %q", other, got)
		}
	}
	if got := victim("6,1,1,-;hello", "slot-x-1"); got != "" {
		t.Errorf("victim = %q", got)
	}
}

// TestMachinesThatCannotTrack: each is refused with the reason, and with the remedy where there is one.
func TestMachinesThatCannotTrack(t *testing.T) {
	for name, c := range map[string]struct {
		host Host
		text string
	}{
		"v1 alone": {Host{V1: map[string]*Mount{"memory": {Dir: t.TempDir(), Root: "/", Self: "/"}}},
			"cgroup v2 is not mounted (as root: mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 cgroup2 " +
				"/sys/fs/cgroup/unified)"},
		"old kernel": {Host{Unified: &Mount{Dir: t.TempDir(), Root: "/", Self: "/"}}, "the kernel is older than 5.14"},
		"group elsewhere": {Host{Unified: &Mount{Dir: t.TempDir(), Root: "/a", Self: "/b"}},
			"own group /b is not visible below"},
		"mount point gone": {Host{Unified: &Mount{Dir: filepath.Join(t.TempDir(), "gone"), Root: "/", Self: "/"}},
			"no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			tree, err := Open(c.host, "id", Options{})
			if !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("opened %v: %v", tree, err)
			}
		})
	}
}
