package cell

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"cantina/fault"
	"cantina/fence"
	"cantina/internal/space"
	"cantina/worker"
	"cantina/workerset"
)

// DirID stores a cell's data about earlier processes. Dir has one on the disk; a simulator has
// another.
type IdentityStore interface {
	// Read returns the last saved identity; a new directory has one with a name.
	Read() (Identity, error)
	// Save replaces it. With durable set it outlives the machine when Save returns. Otherwise only
	// Deadline and Promise have changed, and these outlive the process.
	Save(id Identity, durable bool) error
	// Boot names this boot of the machine.
	Boot() (string, error)
	// NewProc returns an id that no other process of any cell has.
	NewProc() worker.Proc
}

// Identity is a cell directory's data about the sessions begun on it. Proc, Started, the worker
// set and the epoch are durable before they are used; the deadline only must outlive the process,
// not the machine.
type Identity struct {
	// DirID identifies the directory permanently.
	DirID string `json:"dir_id"`
	// Name is the cell's, since the first start on the directory.
	Name worker.CellName `json:"name,omitempty"`
	// Cluster is the one that the directory's cell belongs to, since its first join; durable
	// before it is used.
	Cluster fence.Cluster `json:"cluster,omitempty"`
	// Started counts the sessions begun on the directory.
	Started int64 `json:"started"`
	// Proc is the process id of the newest session, Boot the boot it ran under.
	Proc worker.Proc `json:"proc"`
	Boot string      `json:"boot"`
	// Earlier are the process ids of the sessions before it, the newest last, mostEarlier at most.
	Earlier []worker.Proc `json:"earlier,omitempty"`
	// SetID and Epoch are those of the newest leader.
	SetID workerset.ID `json:"set"`
	Epoch int64        `json:"epoch"`
	// Deadline (boot time) and Promise are those of the reaper.
	Deadline time.Duration `json:"-"`
	Promise  time.Duration `json:"-"`
	// Copied: the directory read is a copy of another, and counts as new.
	Copied bool `json:"-"`
}

// page is the file of an identity. Inode and Born name the file itself: one in a copy of
// the directory, or in one restored from a backup, has others.
type page struct {
	Identity
	Inode uint64 `json:"inode,omitempty"`
	Born  int64  `json:"born_ns,omitempty"` // 0 where the file system does not know it
}

const identityFile = "identity.json"

// credit is the file of Deadline and Promise, which change with each heartbeat. It is overwritten
// in place, in one write and padded to one size, so that a process that ends leaves the old or the
// new text. Another boot of the machine ignores it.
type credit struct {
	Boot     string        `json:"boot"`
	Deadline time.Duration `json:"deadline"`
	Promise  time.Duration `json:"promise"`
}

const creditFile = "credit.json"

// newID returns 16 random bytes in hexadecimal.
func newID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// diskIdentity is a directory of the machine.
type diskIdentity string

// Read reads the directory's identity; a new directory gets one. An unreadable file is moved away,
// and never prevents the start. Then the directory counts as new, and it cannot claim work of the
// old one. The same applies to a copy of a directory, whose lock proves nothing about the
// processes of the original.
func (d diskIdentity) Read() (Identity, error) {
	path := filepath.Join(string(d), identityFile)
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return Identity{DirID: newID()}, nil
	}
	if err != nil {
		return Identity{}, fmt.Errorf("cell identity: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return Identity{}, fmt.Errorf("cell identity: %w", err)
	}
	inode, born, err := nameOf(f)
	if err != nil {
		return Identity{}, fmt.Errorf("cell identity: %w", err)
	}
	var p page
	if json.Unmarshal(text, &p) != nil || p.DirID == "" {
		if err := os.Rename(path, path+".corrupt"); err != nil {
			return Identity{}, fmt.Errorf("cell identity: %w", err)
		}
		return Identity{DirID: newID()}, nil
	}
	if p.Inode != inode || p.Born != born {
		return Identity{DirID: newID(), Cluster: p.Cluster, Copied: true}, nil
	}
	c, err := d.credit(p.Boot)
	p.Deadline, p.Promise = c.Deadline, c.Promise
	return p.Identity, err
}

// NameOf returns the name of the cell that a data directory belongs to; "" if it belongs to none, or
// is a copy. It changes nothing.
func NameOf(dir string) worker.CellName {
	f, err := os.Open(filepath.Join(dir, identityFile))
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	inode, born, bad := nameOf(f)
	var p page
	if err != nil || bad != nil || json.Unmarshal(text, &p) != nil || p.Inode != inode || p.Born != born {
		return ""
	}
	return p.Name
}

// CheckName reports a data directory that belongs to a cell of another name. Work that was started
// there is known under that name: under another it would be lost while it runs.
func CheckName(dir string, name worker.CellName) error {
	if of := NameOf(dir); of != "" && of != name {
		return fault.As(fmt.Errorf("data directory %s belongs to cell %s: use --name %s, or another directory for "+
			"cell %s", dir,
			of, of, name), fault.ErrInvalid)
	}
	return nil
}

// credit reads the deadline that was set under a boot of the machine. A damaged one has passed: to
// end work too early is safe.
func (d diskIdentity) credit(boot string) (credit, error) {
	text, err := os.ReadFile(filepath.Join(string(d), creditFile))
	if errors.Is(err, os.ErrNotExist) {
		return credit{}, nil
	}
	if err != nil {
		return credit{}, fmt.Errorf("cell identity: %w", err)
	}
	var c credit
	switch {
	case json.Unmarshal(text, &c) != nil || c.Deadline < 0 || c.Promise < 0:
		return credit{Deadline: 1}, nil
	case c.Boot != boot:
		return credit{}, nil
	}
	return c, nil
}

// saveCredit overwrites it.
func (d diskIdentity) saveCredit(c credit) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(string(d), creditFile), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(fmt.Appendf(nil, "%-199s\n", text), 0)
	return errors.Join(err, f.Close())
}

// nameOf returns the inode of a file, and its birth time in ns; 0 if unknown.
func nameOf(f *os.File) (inode uint64, born int64, err error) {
	var x unix.Statx_t
	if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &x); err != nil {
		return 0, 0, fmt.Errorf("stat %s: %w", f.Name(), err)
	}
	if x.Mask&unix.STATX_BTIME != 0 {
		born = x.Btime.Sec*1e9 + int64(x.Btime.Nsec)
	}
	return x.Ino, born, nil
}

// NewProc returns a random id.
func (diskIdentity) NewProc() worker.Proc { return worker.Proc(newID()) }

// next is the identity of the next session of the directory. A deadline counts only under the boot
// of the machine that it was set under.
func (id Identity) next(boot string, proc worker.Proc) Identity {
	if id.Boot != boot {
		id.Deadline, id.Promise = 0, 0
	}
	if id.Proc != "" {
		id.Earlier = append(slices.Clone(id.Earlier[max(0, len(id.Earlier)+1-mostEarlier):]), id.Proc)
	}
	id.Started++
	id.Proc, id.Boot = proc, boot
	return id
}

// mostEarlier bounds Identity.Earlier.
const mostEarlier = 1000

// keep stores the session's data.
func (id Identity) keep(k worker.Kept) Identity {
	id.Cluster, id.SetID, id.Epoch, id.Deadline, id.Promise = k.Cluster, k.SetID, k.Epoch, k.Deadline, k.Promise
	return id
}

// Save replaces the directory's files, that of the identity only with durable set: it is on the
// disk when Save returns. The files always have the old or the new text.
func (d diskIdentity) Save(id Identity, durable bool) error { return d.store(id, durable, d.save) }

// store saves the credit, and the identity by save with durable set.
func (d diskIdentity) store(id Identity, durable bool, save func(Identity) error) error {
	err := d.saveCredit(credit{id.Boot, id.Deadline, id.Promise})
	if err == nil && durable {
		err = save(id)
	}
	if err != nil {
		return fmt.Errorf("cell identity: %w", err)
	}
	return nil
}

func (d diskIdentity) save(id Identity) error {
	path := filepath.Join(string(d), identityFile)
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	size, err := write(f, id)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	// For the next session, on a disk that may be full by then; without it that waits for space.
	_ = space.Reserve(path+".new", size+identityGrowth)
	dir, err := os.Open(string(d))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// UnsyncedIdentity returns the identity of a directory whose cell's containers do not outlive its
// process, as those of simulated cells: it outlives the process, not the machine. Thousands of
// cells on one disk would wait for it at each change of the worker set.
func UnsyncedIdentity(dir string) IdentityStore { return unsyncedIdentity{diskIdentity(dir)} }

type unsyncedIdentity struct{ diskIdentity }

// Save overwrites the directory's files in place, each in one write, and padded so that none shrinks.
func (d unsyncedIdentity) Save(id Identity, durable bool) error {
	return d.store(id, durable, d.overwrite)
}

func (d unsyncedIdentity) overwrite(id Identity) error {
	f, err := os.OpenFile(filepath.Join(string(d.diskIdentity), identityFile), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	text, err := pageOf(f, id)
	if err == nil {
		size := max(int(info.Size()), len(text)+1)
		_, err = f.WriteAt(fmt.Appendf(nil, "%-*s\n", size-1, text), 0)
	}
	return errors.Join(err, f.Close())
}

// identityGrowth is more than an identity grows by from one session to the next.
const identityGrowth = 4 << 10

// write writes the page of an identity into its own file, and returns its size.
func write(f *os.File, id Identity) (int64, error) {
	text, err := pageOf(f, id)
	if err != nil {
		return 0, err
	}
	if _, err = f.Write(append(text, '\n')); err == nil {
		err = f.Truncate(int64(len(text)) + 1)
	}
	return int64(len(text)) + 1, err
}

// pageOf is the text of an identity in a file.
func pageOf(f *os.File, id Identity) ([]byte, error) {
	p := page{Identity: id}
	var err error
	if p.Inode, p.Born, err = nameOf(f); err != nil {
		return nil, err
	}
	return json.Marshal(p)
}

// Boot returns the kernel's id of this boot of the machine.
func (diskIdentity) Boot() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("boot id: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
