// Package cgroup puts the processes of a container into their own control groups, finds, freezes,
// signals and kills them there, and limits their usage.
//
// The unified hierarchy (v2), also without controllers, is the tracker: it determines which
// processes belong to a container and when none is left. Limits come from the controllers of v2 if
// they are available, else from v1.
//
//	<tracker>/<own group>/cantina/<directory id>/<class>/<container>
//	<v1 controller>/<own group>/cantina/<directory id>/slot-<n>
//
// A class is a set of containers that end together; the reaper acts on whole classes. The limit
// slots of v1 are pooled: one container after the other uses a slot, because creating and removing
// three groups costs more than starting a small program. Tracker groups are never pooled.
package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// ErrUnusable reports that no hierarchy can be used for tracking.
var ErrUnusable = errors.New("no usable control groups")

// Mount is one mounted hierarchy and the group of this process in it.
type Mount struct {
	Dir         string   // mount point
	Root        string   // which group is mounted there
	Self        string   // group of this process, as the kernel names it
	Controllers []string // v1 only
}

// SelfDir is the directory of this process's own group; empty when the mount does
// not show it.
func (m Mount) SelfDir() string {
	rel, err := filepath.Rel(m.Root, m.Self)
	if err != nil || strings.HasPrefix(rel, "..") {
		return ""
	}
	return filepath.Join(m.Dir, rel)
}

// Host has the control groups that a machine offers.
type Host struct {
	Unified *Mount            // nil when v2 is not mounted
	V1      map[string]*Mount // by controller
}

// Detect reads which hierarchies are mounted and where this process is in them.
func Detect() (Host, error) {
	mounts, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return Host{}, fmt.Errorf("detect control groups: %w", err)
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return Host{}, fmt.Errorf("detect control groups: %w", err)
	}
	return parseHost(mounts, string(groups)), nil
}

func parseHost(mounts []*mountinfo.Info, groups string) Host {
	h := Host{V1: map[string]*Mount{}}
	self := map[string]string{} // controller (or "" for v2) → group
	for line := range strings.Lines(groups) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for _, c := range strings.Split(parts[1], ",") {
			self[c] = parts[2]
		}
	}
	for _, i := range mounts {
		m := &Mount{Dir: i.Mountpoint, Root: i.Root}
		switch i.FSType {
		case "cgroup2":
			if g, ok := self[""]; ok && h.Unified == nil {
				m.Self = g
				h.Unified = m
			}
		case "cgroup":
			h.addV1(m, i.VFSOptions, self)
		}
	}
	return h
}

func (h *Host) addV1(m *Mount, options string, self map[string]string) {
	for _, c := range strings.Split(options, ",") {
		g, ok := self[c]
		if !ok || c == "" || h.V1[c] != nil || strings.HasPrefix(c, "name=") {
			continue
		}
		m.Self = g
		m.Controllers = append(m.Controllers, c)
		h.V1[c] = m
	}
}
