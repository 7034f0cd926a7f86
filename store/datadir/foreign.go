package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrWrongKind reports a data directory of a process of another kind: of a cell for a server, or of a
// server or dev for a cell.
var ErrWrongKind = errors.New("data directory of another process")

// WrongKind is the error of Locate and ForCell; it is ErrWrongKind.
type WrongKind struct {
	// Root is the data directory, Found the file or directory in it that shows its kind.
	Root, Found string
	// Cell: it belongs to a cell; else to a server or dev.
	Cell bool
}

// Error returns the remedy.
func (e *WrongKind) Error() string {
	above := filepath.Dir(e.Root)
	switch {
	case e.Cell && filepath.Base(e.Root) == cellPart && isDir(filepath.Join(above, serverPart)):
		return fmt.Sprintf("data directory %s belongs to a cell (%s): give the directory above, --data %s",
			e.Root, e.Found, above)
	case e.Cell:
		return fmt.Sprintf("data directory %s belongs to a cell (%s) and not to a server: choose another", e.Root, e.Found)
	}
	return fmt.Sprintf("data directory %s holds the store of a server (%s): choose another for the cell, like %s",
		e.Root, e.Found, filepath.Join(e.Root, cellPart))
}

// Is makes errors.Is find ErrWrongKind.
func (e *WrongKind) Is(target error) bool { return target == ErrWrongKind }

// cellPart is the name of the cell's part of the data directory of a dev.
const cellPart = "cell"

// ofCell are the names of what a cell makes in its data directory first.
var ofCell = []string{"identity.json", "executor"}

// notOfCell refuses the data directory of a cell.
func notOfCell(root string) error {
	for _, name := range ofCell {
		if found := filepath.Join(root, name); exists(found) {
			return &WrongKind{Root: root, Found: found, Cell: true}
		}
	}
	return nil
}

// ForCell refuses a data directory in which a server or dev has its store: a cell would put its own
// files beside it. Nothing is changed.
func ForCell(root string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	server := filepath.Join(root, serverPart)
	for _, found := range []string{
		filepath.Join(server, storeName), filepath.Join(server, memoName), filepath.Join(root, storeName),
		filepath.Join(root, memoName),
	} {
		if exists(found) {
			return &WrongKind{Root: root, Found: found}
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
