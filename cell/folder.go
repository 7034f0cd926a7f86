package cell

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cantina/worker"
	"cantina/workerset"
)

// Folder keeps what a cell has to know of the processes before it. Dir has one on
// the disk; a simulator has another.
type Folder interface {
	// Read returns what was saved last; a new folder has an identity with a name.
	Read() (Identity, error)
	// Save replaces it. With durable set it outlives the machine when Save returns.
	Save(id Identity, durable bool) error
	// Boot names this boot of the machine.
	Boot() (string, error)
	// NewProc returns an id that no other process of any cell has.
	NewProc() worker.Proc
}

// Identity is what a cell's folder knows about the sessions begun on it. Proc,
// Started, the worker set and the epoch are durable before they are used; the
// deadline only has to outlive the process, not the machine.
type Identity struct {
	// Folder names the folder for ever.
	Folder string `json:"folder"`
	// Started counts the sessions begun on the folder.
	Started int64 `json:"started"`
	// Proc is the process id of the newest session, Boot the boot it ran under.
	Proc worker.Proc `json:"proc"`
	Boot string      `json:"boot"`
	// SetID and Epoch are what the newest leader gave.
	SetID workerset.ID `json:"set"`
	Epoch int64        `json:"epoch"`
	// Deadline (boot time) and Promise are those of the reaper.
	Deadline time.Duration `json:"deadline"`
	Promise  time.Duration `json:"promise"`
}

const identityFile = "identity.json"

// newID returns 16 random bytes in hexadecimal.
func newID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// diskFolder is a folder of the machine.
type diskFolder string

// Read reads the folder's identity; a new folder gets one. A file that
// cannot be read as one is set aside, never an obstacle: the folder then counts
// as new, and nothing of the old one can be claimed by it.
func (d diskFolder) Read() (Identity, error) {
	path := filepath.Join(string(d), identityFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return Identity{Folder: newID()}, nil
	}
	if err != nil {
		return Identity{}, fmt.Errorf("cell identity: %w", err)
	}
	var id Identity
	if json.Unmarshal(text, &id) != nil || id.Folder == "" {
		if err := os.Rename(path, path+".corrupt"); err != nil {
			return Identity{}, fmt.Errorf("cell identity: %w", err)
		}
		return Identity{Folder: newID()}, nil
	}
	return id, nil
}

// NewProc returns a random id.
func (diskFolder) NewProc() worker.Proc { return worker.Proc(newID()) }

// next is the identity of the next session of the folder.
func (id Identity) next(boot string, proc worker.Proc) Identity {
	id.Started++
	id.Proc, id.Boot = proc, boot
	return id
}

// keep takes over what the session knows.
func (id Identity) keep(k worker.Kept) Identity {
	id.SetID, id.Epoch, id.Deadline, id.Promise = k.SetID, k.Epoch, k.Deadline, k.Promise
	return id
}

// Save replaces the folder's file. With durable set it is on the disk when Save returns.
func (d diskFolder) Save(id Identity, durable bool) error {
	text, err := json.Marshal(id)
	if err == nil {
		err = replaceFile(filepath.Join(string(d), identityFile), text, durable)
	}
	if err != nil {
		return fmt.Errorf("cell identity: %w", err)
	}
	return nil
}

// replaceFile replaces the file at path: it has the old or the new text, whatever happens.
func replaceFile(path string, text []byte, durable bool) error {
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if durable {
		err = errors.Join(err, f.Sync())
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil || !durable {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Boot returns the kernel's id of this boot of the machine.
func (diskFolder) Boot() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("boot id: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
