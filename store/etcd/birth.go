package etcd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/storage/datadir"
)

// The first start of etcd does not survive every kill: between the creation of its log and the
// first entry in it, it leaves a member that never elects itself. So a file beside the member's
// directory marks a member that has never served. Then no write can have been acknowledged, and
// the directory is created again. A directory without that file is never deleted.
//
// One of several members may have voted, or acknowledged entries to another one, before it served. It is created
// again only while its log has neither.

// unborn is the path of that file.
func unborn(dir string) string { return dir + ".unborn" }

// conceive readies the directory for a first start, unless there is a member in it
// that has served, or one of several that has voted.
func conceive(dir string, several bool) error {
	_, err := os.Stat(unborn(dir))
	switch {
	case err == nil && several && !blank(dir):
		return nil
	case err == nil:
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("begin anew: %w", err)
		}
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	if _, err := os.Stat(dir); err == nil || !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(unborn(dir), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Close(), syncDir(filepath.Dir(dir))); err != nil {
		return err
	}
	return os.Mkdir(dir, 0o700)
}

// born records durably that the member serves.
func born(dir string) error {
	err := os.Remove(unborn(dir))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return errors.Join(err, syncDir(filepath.Dir(dir)))
}

// syncDir makes the names in a directory durable.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// blank reports that the log of a member has no entry and no term: it has promised nothing to others.
func blank(dir string) bool {
	l, err := readLog(datadir.ToWALDir(dir))
	if errors.Is(err, os.ErrNotExist) {
		return true
	}
	return err == nil && l.last == 0 && !l.voted
}
