package executor

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"cantina/cgroup"
)

// dirID is the random name of the data directory in the hierarchies.
func (r *recovery) dirID() (string, error) {
	if id, ok, err := r.formerID(); ok || err != nil {
		return id, err
	}
	raw := make([]byte, 8)
	rand.Read(raw)
	id := hex.EncodeToString(raw)
	return id, replaceFile(r.e.path("id"), []byte(id+"\n"))
}

// formerID is a predecessor's name of the data directory. If its file is damaged, it is found in
// other places: the file of the previous cell, the records of kept containers, and last the groups
// themselves. So live work is never mistaken for an unrelated process's.
func (r *recovery) formerID() (id string, ok bool, err error) {
	b, err := os.ReadFile(r.e.path("id"))
	if unread(err) {
		return "", false, err
	}
	if id = strings.TrimSpace(string(b)); err == nil && validID(id) {
		return id, true, nil
	}
	for _, find := range []func() (string, error){r.idFromPrevious, r.idFromRecords, r.idFromGroups} {
		id, err := find()
		if err != nil {
			return "", false, err
		}
		if !validID(id) {
			continue
		}
		r.e.log.Warn("identity of the data directory was damaged; recovered", "id", id)
		if err := replaceFile(r.e.path("id"), []byte(id+"\n")); err != nil {
			r.e.log.Warn("cannot save the identity of the data directory", "error", err)
		}
		return id, true, nil
	}
	return "", false, nil
}

func validID(id string) bool {
	raw, err := hex.DecodeString(id)
	return err == nil && len(raw) == 8
}

func (r *recovery) idFromPrevious() (string, error) {
	var l previous
	b, err := os.ReadFile(r.e.path("previous"))
	if unread(err) {
		return "", err
	}
	if err != nil || json.Unmarshal(b, &l) != nil {
		return "", nil
	}
	return filepath.Base(l.Tracker), nil
}

// idFromRecords goes by the groups of kept containers: <id>/<class>/<container>.
func (r *recovery) idFromRecords() (string, error) {
	records, err := r.keptRecords()
	for _, name := range slices.Sorted(maps.Keys(records)) {
		if id := filepath.Base(filepath.Dir(filepath.Dir(records[name].Group))); validID(id) {
			return id, nil
		}
	}
	return "", err
}

// idFromGroups looks for groups that no cell holds and that have this directory for their
// owner, or shims that serve containers of this directory.
func (r *recovery) idFromGroups() (string, error) {
	host, err := cgroup.Detect()
	if err != nil {
		return "", err
	}
	owner, err := r.owner()
	if err != nil {
		return "", err
	}
	for _, a := range host.Abandoned() {
		if a.Owner == owner {
			return a.ID, nil
		}
		for _, pid := range a.Kept() {
			if r.servesUs(pid) {
				return a.ID, nil
			}
		}
	}
	return "", nil
}

// servesUs reports whether a process is a shim of a container of this directory.
func (r *recovery) servesUs(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	args := strings.Split(string(b), "\x00")
	return err == nil && len(args) >= 3 && args[1] == "shim" && filepath.Dir(args[2]) == r.e.path("keep")
}

// owner is the record at the groups: the data directory, by its number, so that moving it does no
// harm.
func (r *recovery) owner() (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(r.e.cfg.Dir, &st); err != nil {
		return "", err
	}
	boot, err := r.e.boot()
	return fmt.Sprintf("%s %d:%d", boot, st.Dev, st.Ino), err
}
