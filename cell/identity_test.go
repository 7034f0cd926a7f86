package cell

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cantina/fault"
	"cantina/worker"
)

// TestACreditRewritesNoIdentity: the changes of each heartbeat are stored without another file. The credit outlives
// the process under the same boot only, and a damaged one has expired.
func TestACreditRewritesNoIdentity(t *testing.T) {
	d := diskIdentity(t.TempDir())
	file := func() (os.FileInfo, []byte) {
		t.Helper()
		at := filepath.Join(string(d), identityFile)
		info, err := os.Stat(at)
		text, err2 := os.ReadFile(at)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		return info, text
	}
	id := Identity{DirID: "f", Boot: "x"}.next("x", "p")
	if err := d.Save(id, true); err != nil {
		t.Fatal(err)
	}
	info, text := file()
	for _, id.Deadline = range []time.Duration{1 << 62, time.Hour, 0, 7} {
		id.Promise = id.Deadline / 2
		if err := d.Save(id, false); err != nil {
			t.Fatal(err)
		}
		if got, err := d.Read(); err != nil || !reflect.DeepEqual(got, id) {
			t.Errorf("saved %+v, read %+v %v", id, got, err)
		}
		if now, same := file(); !os.SameFile(info, now) || string(text) != string(same) {
			t.Errorf("the identity was written: %s", same)
		}
	}
	if later := id.next("x", "q").next("y", "r"); !slices.Equal(later.Earlier, []worker.Proc{"p", "q"}) {
		t.Errorf("earlier sessions: %v", later.Earlier)
	}
	long := id
	for i := range 2 * mostEarlier {
		long = long.next("x", worker.Proc(strconv.Itoa(i)))
	}
	if n := len(long.Earlier); n != mostEarlier || long.Earlier[n-1] != worker.Proc(strconv.Itoa(2*mostEarlier-2)) {
		t.Errorf("%d earlier sessions, the last %s", n, long.Earlier[n-1])
	}
	if same := id.next("x", "q"); same.Deadline != 7 || same.Promise != 3 {
		t.Errorf("a process of the same boot: %+v", same)
	}
	id = id.next("y", "q") // the machine was started again, and its first process got no credit
	if id.Deadline != 0 || id.Promise != 0 {
		t.Errorf("a process of another boot: %+v", id)
	}
	if err := d.Save(id, true); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Read(); err != nil || !reflect.DeepEqual(got, id) {
		t.Errorf("the deadline of another boot: %+v %v", got, err)
	}
	for _, text := range []string{"", "{", strings.Repeat("\x00", 200), `{"boot":"y","deadline":-5}`} {
		if err := os.WriteFile(filepath.Join(string(d), creditFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := d.Read(); err != nil || got.Deadline != 1 {
			t.Errorf("damaged %q: %+v %v", text, got, err)
		}
	}
}

// TestCopiedDirCountsAsNew: a copy of a data directory, beside the original or on another machine, claims nothing
// from the original. Its lock and its boot prove nothing about the original's processes. A moved directory keeps
// its identity.
func TestCopiedDirCountsAsNew(t *testing.T) {
	top := t.TempDir()
	a, b := filepath.Join(top, "a"), filepath.Join(top, "b")
	if err := errors.Join(os.Mkdir(a, 0o700), os.Mkdir(b, 0o700)); err != nil {
		t.Fatal(err)
	}
	was := Identity{DirID: "f", Started: 3, Proc: "p", Boot: "x", Epoch: 2, Deadline: time.Hour}
	for _, durable := range []bool{true, false} {
		if err := diskIdentity(a).Save(was, durable); err != nil {
			t.Fatal(err)
		}
		if id, err := diskIdentity(a).Read(); err != nil || !reflect.DeepEqual(id, was) {
			t.Errorf("%+v %v", id, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(a, identityFile))
	if err == nil {
		err = os.WriteFile(filepath.Join(b, identityFile), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	id, err := diskIdentity(b).Read()
	if err != nil || !id.Copied || id.DirID == was.DirID || id.Proc != "" || id.Started != 0 || id.Epoch != 0 {
		t.Errorf("a copy is %+v %v", id, err)
	}
	if err := diskIdentity(b).Save(id, true); err != nil {
		t.Fatal(err)
	}
	if again, err := diskIdentity(b).Read(); err != nil || again.DirID != id.DirID || again.Copied {
		t.Errorf("later it is %+v %v", again, err)
	}
	moved := filepath.Join(top, "c")
	if err := os.Rename(a, moved); err != nil {
		t.Fatal(err)
	}
	if id, err := diskIdentity(moved).Read(); err != nil || !reflect.DeepEqual(id, was) {
		t.Errorf("moved: %+v %v", id, err)
	}
}

// TestADirectoryBelongsToOneName: another cell does not use it. A copy belongs to none.
func TestADirectoryBelongsToOneName(t *testing.T) {
	top := t.TempDir()
	a, b := filepath.Join(top, "a"), filepath.Join(top, "b")
	if err := errors.Join(os.Mkdir(a, 0o700), os.Mkdir(b, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(CheckName(a, "c1"), CheckName(filepath.Join(top, "none"), "c1")); err != nil || NameOf(a) != "" {
		t.Errorf("a new directory: %v, %q", err, NameOf(a))
	}
	if err := diskIdentity(a).Save(Identity{DirID: "f", Name: "c1"}, true); err != nil {
		t.Fatal(err)
	}
	if err := CheckName(a, "c1"); err != nil || NameOf(a) != "c1" {
		t.Errorf("its own: %v, %q", err, NameOf(a))
	}
	err := CheckName(a, "c9")
	if !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), "belongs to cell c1: use --name c1") {
		t.Errorf("another: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(a, identityFile))
	if err == nil {
		err = os.WriteFile(filepath.Join(b, identityFile), text, 0o600)
	}
	if err = errors.Join(err, CheckName(b, "c9")); err != nil {
		t.Errorf("a copy: %v", err)
	}
	if err := os.WriteFile(filepath.Join(b, identityFile), []byte("{"), 0o600); err != nil || NameOf(b) != "" {
		t.Errorf("a damaged one: %v, %q", err, NameOf(b))
	}
	if left, err := os.ReadDir(b); err != nil || len(left) != 1 {
		t.Errorf("it was changed: %v, %v", left, err)
	}
}

// TestAnUnsyncedIdentityIsReadBack: the next process of the directory of a simulated cell finds what the
// last one saved, durable or not.
func TestAnUnsyncedIdentityIsReadBack(t *testing.T) {
	d := UnsyncedIdentity(t.TempDir())
	id, err := d.Read()
	if err != nil {
		t.Fatal(err)
	}
	for i, durable := range []bool{true, false, true, true} {
		if durable {
			id.Epoch = 1000 - id.Epoch // the third text is shorter than the second
		}
		id.Deadline = time.Duration(i)
		if err := d.Save(id, durable); err != nil {
			t.Fatal(err)
		}
		if got, err := d.Read(); err != nil || !reflect.DeepEqual(got, id) {
			t.Errorf("%+v %v, not %+v", got, err, id)
		}
	}
}
