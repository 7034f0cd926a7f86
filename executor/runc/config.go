// Package runc runs one program of a container with a root of its own by the program
// runc, from inside the container's own control group.
//
// Cantina-reaper does it, as a process of the container: it gives runc a view of the
// machine in which the container's group is the only control group there is, so that
// runc touches no other; it has runc make the container, puts the program into the
// limits, lets it go, waits for it, and ends as the program did:
//
//	cell ──start──▶ cantina-reaper runc ──▶ runc create ──▶ limits ──▶ runc start ──▶ wait
//	     ◀── Started (pid, or why not) ──────────────────────────────────┘
//
// What runc writes (its configuration with the environment, its state) lies in a memory
// file system that only that process sees, and is gone with it: nothing is left on disk,
// whatever is killed.
//
// The executor and cantina-reaper use this package.
package runc

import (
	"encoding/json"
	"fmt"

	"cantina/executor/isolate"
)

// Spec is what runc shall run.
type Spec struct {
	Program string // path of runc
	Scratch string // an empty folder, for runc's own files
	Root    string // the root file system, put together
	Folder  string // the container's folder, bound at Inside; empty = none
	Inside  string

	Path     string
	Args     []string // without the program's own name
	Dir      string
	Env      []string // NAME=value
	UID, GID uint32
	Groups   []uint32 // supplementary ones
	Status   bool     // descriptor 3 goes to the program
	// OpenFiles are the soft and the hard limit of open files.
	OpenFiles [2]uint64
	Cell      int // its pid
	// ParentDeath is sent to the program when the cell is gone; 0 = none.
	ParentDeath int
	// Slots are the v1 control groups that limit the program, by controller. The
	// processes that only bring it up stay out of them.
	Slots map[string]string
}

// Started is what came of it.
type Started struct {
	Pid   int
	Error string // empty when the program runs
}

// The parts of the configuration that are used here. (Open Container Initiative,
// Runtime Specification, config.json.)
type config struct {
	Version  string  `json:"ociVersion"`
	Process  process `json:"process"`
	Root     root    `json:"root"`
	Hostname string  `json:"hostname,omitempty"`
	Mounts   []mount `json:"mounts"`
	Linux    linux   `json:"linux"`
}

type process struct {
	User struct {
		UID    uint32   `json:"uid"`
		GID    uint32   `json:"gid"`
		Groups []uint32 `json:"additionalGids,omitempty"`
	} `json:"user"`
	Args            []string            `json:"args"`
	Env             []string            `json:"env"`
	Cwd             string              `json:"cwd"`
	Capabilities    map[string][]string `json:"capabilities"`
	Rlimits         []rlimit            `json:"rlimits"`
	NoNewPrivileges bool                `json:"noNewPrivileges"`
}

type rlimit struct {
	Type string `json:"type"`
	Soft uint64 `json:"soft"`
	Hard uint64 `json:"hard"`
}

type root struct {
	Path string `json:"path"`
}

type mount struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type"`
	Source      string   `json:"source"`
	Options     []string `json:"options,omitempty"`
}

type linux struct {
	CgroupsPath string      `json:"cgroupsPath"`
	Resources   resources   `json:"resources"`
	Namespaces  []namespace `json:"namespaces"`
	Masked      []string    `json:"maskedPaths"`
	ReadOnly    []string    `json:"readonlyPaths"`
}

type resources struct {
	Devices []device `json:"devices"`
}

type device struct {
	Allow  bool   `json:"allow"`
	Access string `json:"access"`
}

type namespace struct {
	Type string `json:"type"`
}

// group is where runc puts the container: below the only group that it sees.
const group = "/init"

// encode makes the configuration. Capabilities are those that the caller has, as they
// are without runc; the network is the caller's, who is in the container's own already.
func (s *Spec) encode(capabilities []string) ([]byte, error) {
	c := config{Version: "1.0.2", Root: root{s.Root}}
	p := &c.Process
	p.User.UID, p.User.GID, p.User.Groups = s.UID, s.GID, s.Groups
	p.Args = append([]string{s.Path}, s.Args...)
	p.Env, p.Cwd, p.NoNewPrivileges = s.Env, s.Dir, true
	p.Rlimits = []rlimit{{"RLIMIT_NOFILE", s.OpenFiles[0], s.OpenFiles[1]}}
	p.Capabilities = map[string][]string{"bounding": capabilities}
	if s.UID == 0 {
		p.Capabilities["effective"], p.Capabilities["permitted"] = capabilities, capabilities
	}
	c.Mounts = []mount{
		{"/proc", "proc", "proc", []string{"nosuid", "noexec", "nodev"}},
		{"/sys", "sysfs", "sysfs", []string{"nosuid", "noexec", "nodev", "ro"}},
		{"/dev", "tmpfs", "tmpfs", []string{"nosuid", "mode=755", "size=64k"}},
		{"/dev/pts", "devpts", "devpts", []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
		{"/dev/shm", "tmpfs", "tmpfs", []string{"nosuid", "nodev", "mode=1777"}},
	}
	if s.Folder != "" {
		c.Mounts = append(c.Mounts, mount{s.Inside, "bind", s.Folder, []string{"bind", "rw"}})
	}
	// A rule for all devices needs no filter, which is a matter of the kernel's.
	c.Linux = linux{CgroupsPath: group, Resources: resources{[]device{{true, "rwm"}}},
		Namespaces: []namespace{{"pid"}, {"mount"}, {"ipc"}, {"uts"}},
		Masked:     inProc(isolate.ProcMasked),
		ReadOnly:   inProc(isolate.ProcReadOnly)}
	b, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("configure runc: %w", err)
	}
	return b, nil
}

func inProc(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = "/proc/" + n
	}
	return out
}

// names are the capabilities of Linux by number (include/uapi/linux/capability.h).
var names = [...]string{"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP", "LINUX_IMMUTABLE",
	"NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE",
	"SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE",
	"AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF", "CHECKPOINT_RESTORE"}

// named lists the capabilities of a set.
func named(set uint64) []string {
	out := []string{}
	for i, n := range names {
		if set&(1<<i) != 0 {
			out = append(out, "CAP_"+n)
		}
	}
	return out
}
