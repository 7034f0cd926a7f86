package cgroup

import (
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Victims names the processes that the kernel killed in the group for lack of memory, "tail (pid
// 17)", as far as the kernel's log still has them. It needs permission to read that log.
func (g *Group) Victims() []string {
	name := filepath.Base(g.dir)
	if d := g.SlotDirs()["memory"]; d != "" {
		name = filepath.Base(d)
	}
	fd, err := openFile("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var out []string
	buf := make([]byte, 8192)
	for {
		n, err := unix.Read(fd, buf) // one record
		switch {
		case err == unix.EINTR || err == unix.EPIPE: // EPIPE: overwritten meanwhile
			continue
		case err != nil || n <= 0:
			return out
		}
		if v := victim(string(buf[:n]), name); v != "" {
			out = append(out, v)
		}
	}
}

// victim reads one record of the kernel's log about the group name.
func victim(record, name string) string {
	_, text, ok := strings.Cut(record, ";oom-kill:")
	if !ok {
		return ""
	}
	text, _, _ = strings.Cut(text, "\n")
	fields := map[string]string{}
	for f := range strings.SplitSeq(text, ",") {
		if k, v, ok := strings.Cut(f, "="); ok {
			fields[k] = v
		}
	}
	if filepath.Base(fields["task_memcg"]) != name || fields["task"] == "" {
		return ""
	}
	return fields["task"] + " (pid " + fields["pid"] + ")"
}
