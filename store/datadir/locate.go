package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrElsewhere reports a data directory that holds a store in another place than the one
// where it is looked for.
var ErrElsewhere = errors.New("store in another place")

// serverPart is the name of the server's part of a data directory: dev, server and every verb
// of store find it there.
const serverPart = "server"

// storeName is the directory of the embedded member in it.
const storeName = "etcd"

// Elsewhere is the error of Locate; it is ErrElsewhere.
type Elsewhere struct {
	// Root is the data directory, Found the store in it, Want where it is looked for.
	Root, Found, Want string
}

// Error returns the remedy.
func (e *Elsewhere) Error() string {
	text := fmt.Sprintf("data directory %s holds a store in %s, and it is looked for in %s", e.Root, e.Found, e.Want)
	if filepath.Base(e.Root) == serverPart {
		return text + ": give the directory above, --data " + filepath.Dir(e.Root)
	}
	return fmt.Sprintf("%s: if that is the store you mean, move it (mkdir -p %s && mv %s %s); "+
		"else move it out of the data directory", text, filepath.Dir(e.Want), e.Found, filepath.Dir(e.Want))
}

// Is makes errors.Is find ErrElsewhere.
func (e *Elsewhere) Is(target error) bool { return target == ErrElsewhere }

// Locate returns the server's part of a data directory, in which the store is, and whether
// there is a store in it. A directory that holds one in another place is refused (*Elsewhere):
// else a server would begin with an empty one beside it. So is that of a cell (*WrongKind).
func Locate(root string) (path string, exists bool, err error) {
	root, err = filepath.Abs(root)
	if err != nil {
		return "", false, fmt.Errorf("data directory: %w", err)
	}
	if err := notOfCell(root); err != nil {
		return "", false, err
	}
	path = filepath.Join(root, serverPart)
	want := filepath.Join(path, storeName)
	exists = isDir(want)
	for _, name := range []string{storeName, memoName} {
		if _, err := os.Stat(filepath.Join(root, name)); err == nil {
			return "", false, &Elsewhere{Root: root, Found: filepath.Join(root, name), Want: want}
		}
	}
	if exists {
		return path, true, nil
	}
	// Below another part, or one level too deep: of a verb that was given DIR/server for DIR.
	for _, pattern := range []string{filepath.Join(root, "*"), filepath.Join(path, serverPart)} {
		others, err := filepath.Glob(filepath.Join(pattern, storeName, "member"))
		if err != nil {
			return "", false, fmt.Errorf("data directory %s: %w", root, err)
		}
		if len(others) > 0 {
			return "", false, &Elsewhere{Root: root, Found: filepath.Dir(others[0]), Want: want}
		}
	}
	return path, false, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
