package executor

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"cantina/action"
)

// accounts is a user database: the files passwd and group.
type accounts struct {
	open func(file string) (*os.File, error) // by its base name
	of   string                              // " of the root file system", or ""
}

// hostAccounts is the user database of the machine.
func hostAccounts() accounts {
	return accounts{open: func(file string) (*os.File, error) { return os.Open(filepath.Join("/etc", file)) }}
}

// rootAccounts is that of a root file system of dirs, the topmost first.
func rootAccounts(dirs []string) accounts {
	open := func(file string) (*os.File, error) { return openLayered(dirs, file) }
	return accounts{open: open, of: " of the root file system"}
}

// openLayered opens a file of /etc as an overlay of dirs shows it. No link of an image leads out
// of its root.
func openLayered(dirs []string, file string) (*os.File, error) {
	for _, d := range dirs {
		etc := filepath.Join(d, "etc")
		info, err := os.Lstat(etc)
		if err != nil {
			continue
		}
		if _, err = os.Lstat(filepath.Join(etc, file)); err == nil || !info.IsDir() {
			return openBelow(d, filepath.Join("etc", file)) // a whiteout is no plain file
		}
		var opaque [1]byte
		if n, err := unix.Lgetxattr(etc, "trusted.overlay.opaque", opaque[:]); err == nil && n == 1 && opaque[0] == 'y' {
			break
		}
	}
	return nil, &fs.PathError{Op: "open", Path: "/etc/" + file, Err: os.ErrNotExist}
}

// maxAccounts is how much of an account file is read: 4 MiB.
const maxAccounts = 4 << 20

// row is one line of an account file.
type row struct {
	number int // from 1 on
	fields []string
}

// rows reads an account file and returns the lines that a test accepts; one that is not
// there is empty.
func (db accounts) rows(file string, accept func(line string) bool) ([]row, error) {
	f, err := db.open(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("/etc/%s%s: %w", file, db.of, plain(err))
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxAccounts+1))
	if err == nil && len(b) > maxAccounts {
		err = fmt.Errorf("larger than %d MiB", maxAccounts>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("/etc/%s%s: %w", file, db.of, plain(err))
	}
	var out []row
	number := 0
	for line := range strings.Lines(string(b)) {
		number++
		if line = strings.TrimRight(line, "\r\n"); accept(line) {
			out = append(out, row{number, strings.Split(line, ":")})
		}
	}
	return out, nil
}

// lookUp finds the line of an account by its name, or by its number when it has none.
func (db accounts) lookUp(file string, a action.Account) (row, bool, error) {
	want := strconv.FormatUint(uint64(a.Number), 10)
	found, err := db.rows(file, func(line string) bool {
		name, rest, _ := strings.Cut(line, ":")
		if a.Name != "" {
			return name == a.Name
		}
		_, rest, _ = strings.Cut(rest, ":")
		number, _, _ := strings.Cut(rest, ":")
		return number == want
	})
	if err != nil || len(found) == 0 {
		return row{}, false, err
	}
	return found[0], true, nil
}

// id reads the number in a field of a line.
func (db accounts) id(file string, r row, field int, what string) (uint32, error) {
	text := ""
	if field < len(r.fields) {
		text = r.fields[field]
	}
	n, err := action.ParseID(text)
	if err != nil {
		return 0, fmt.Errorf("/etc/%s%s, line %d, %s: its %s %q: %w", file, db.of, r.number, r.fields[0], what, text, err)
	}
	return n, nil
}

// find finds the user that text names. A number needs no line: its group has the same one
// then. A user without a group has those of the database; one with a group has that alone.
func (db accounts) find(text string) (account, error) {
	u, err := action.ParseUser(text)
	if err != nil {
		return account{}, err
	}
	a, err := db.user(u.Account)
	if err == nil && u.Group != nil {
		a.cred.Gid, err = db.group(*u.Group)
	} else if err == nil && a.name != "" {
		a.cred.Groups, err = db.groups(a.name)
	}
	if err != nil {
		return account{}, fmt.Errorf("user %q: %w", text, err)
	}
	return a, nil
}

func (db accounts) user(who action.Account) (account, error) {
	r, known, err := db.lookUp("passwd", who)
	if err != nil {
		return account{}, err
	}
	a := account{cred: &syscall.Credential{Uid: who.Number, Gid: who.Number}, home: "/"}
	if !known && who.Name != "" {
		return account{}, fmt.Errorf("it is not in /etc/passwd%s", db.of)
	}
	if !known {
		return a, nil
	}
	if a.cred.Uid, err = db.id("passwd", r, 2, "uid"); err != nil {
		return account{}, err
	}
	if a.cred.Gid, err = db.id("passwd", r, 3, "gid"); err != nil {
		return account{}, err
	}
	a.name, a.shell = r.fields[0], "/bin/sh" // passwd(5): an empty field is this one
	if len(r.fields) > 5 && r.fields[5] != "" {
		a.home = r.fields[5]
	}
	if len(r.fields) > 6 && r.fields[6] != "" {
		a.shell = r.fields[6]
	}
	return a, nil
}

func (db accounts) group(who action.Account) (uint32, error) {
	if who.Name == "" {
		return who.Number, nil
	}
	r, known, err := db.lookUp("group", who)
	if err != nil {
		return 0, err
	}
	if !known {
		return 0, fmt.Errorf("group %q is not in /etc/group%s", who.Name, db.of)
	}
	return db.id("group", r, 2, "gid")
}

// groups are the supplementary groups of a user.
func (db accounts) groups(name string) ([]uint32, error) {
	rows, err := db.rows("group", func(line string) bool {
		members := line[strings.LastIndexByte(line, ':')+1:]
		return strings.Contains(members, name) && strings.Count(line, ":") >= 3 &&
			slices.Contains(strings.Split(members, ","), name)
	})
	var out []uint32
	for _, r := range rows {
		n, err := db.id("group", r, 2, "gid")
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, err
}

// accounts is the user database that the container's programs see.
func (fl *files) accounts() accounts {
	if fl.spec.Workload.Isolation != action.IsolationRootfs {
		return hostAccounts()
	}
	return rootAccounts(append([]string{fl.below("upper")}, fl.lower...))
}

// user names the user that runs a program: that of its step, its workload, its image, or the
// cell's default; empty = the cell itself.
func (fl *files) user(r *action.Run) string {
	switch w := &fl.spec.Workload; {
	case r.User != "":
		return r.User
	case w.User != "":
		return w.User
	}
	return cmp.Or(fl.image.User, fl.e.cfg.User)
}

// self is the cell's own user.
func (db accounts) self() account {
	a, err := db.user(action.Account{Number: uint32(os.Getuid())})
	if err != nil { // it runs all the same
		a = account{home: "/"}
	}
	a.cred = nil
	return a
}

// identify finds the user that runs a program.
func (fl *files) identify(r *action.Run) (account, error) {
	db, user := fl.accounts(), fl.user(r)
	if user == "" && fl.spec.Workload.Isolation != action.IsolationRootfs {
		return fl.e.self(), nil
	}
	if user == "" {
		return db.self(), nil
	}
	a, err := db.find(user)
	if err != nil {
		switch {
		case r.User != "" || fl.spec.Workload.User != "":
		case fl.image.User != "":
			err = fmt.Errorf("USER of the image: %w", err)
		default:
			err = fmt.Errorf("the cell's --default-user: %w", err)
		}
		return account{}, err
	}
	if os.Geteuid() == 0 {
		return a, nil
	}
	if int(a.cred.Uid) != os.Getuid() || int(a.cred.Gid) != os.Getgid() {
		return account{}, fmt.Errorf("user %q: only a cell that runs as root can run programs as another user, "+
			"and this one runs as uid %d, gid %d", user, os.Getuid(), os.Getgid())
	}
	a.cred = nil
	return a, nil
}

// checkUser refuses a default user that is none.
func (e *Executor) checkUser() error {
	if e.cfg.User == "" {
		return nil
	}
	f := files{order: &order{e: e}}
	_, err := f.identify(&action.Run{})
	return err
}

// giveDir lets the user of a program write in the container's directory. It belongs to the
// workload's user; files that other users of the container make there are their own, as in /tmp.
func (fl *files) giveDir(cred *syscall.Credential, workloads bool) error {
	if cred == nil {
		return nil
	}
	var st unix.Stat_t
	dir := fl.root()
	err := unix.Lstat(dir, &st)
	switch {
	case err != nil || st.Uid == cred.Uid && st.Gid == cred.Gid || cred.Uid == 0:
	case workloads:
		err = os.Lchown(dir, int(cred.Uid), int(cred.Gid))
	case st.Mode&0o7777 != 0o1777:
		err = unix.Chmod(dir, 0o1777)
	}
	if err != nil {
		return fmt.Errorf("give the directory to uid %d: %w", cred.Uid, err)
	}
	return nil
}
