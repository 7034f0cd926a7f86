package etcd

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/schema"

	"cantina/store"
)

// soleName is the name of a member without others.
const soleName = "cantina"

// recorded is the cluster that the directory of a member records.
type recorded struct {
	id      types.ID
	members map[types.ID]*membership.Member
	removed bool // this member was
}

// readRecorded reads the members that the database of a stopped member has. A directory without one has none; a
// file that cannot be read is left to etcd, which refuses it.
func readRecorded(dir string) (r recorded, err error) {
	l, err := readLog(datadir.ToWALDir(dir))
	if err != nil || l.member == 0 {
		return recorded{}, nil
	}
	r.id = types.ID(l.member)
	database := filepath.Join(datadir.ToSnapDir(dir), "db")
	if info, err := os.Stat(database); err != nil || info.Size() == 0 {
		return r, nil
	}
	defer notRead(&err)
	db, err := bbolt.Open(database, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return r, nil
	}
	defer db.Close()
	r.members = map[types.ID]*membership.Member{}
	err = db.View(func(tx *bbolt.Tx) error {
		if b := tx.Bucket(schema.MembersRemoved.Name()); b != nil {
			r.removed = b.Get(schema.BackendMemberKey(r.id)) != nil
		}
		b := tx.Bucket(schema.Members.Name())
		if b == nil {
			return nil
		}
		return b.ForEach(func(_, v []byte) error {
			m := &membership.Member{}
			if err := json.Unmarshal(v, m); err != nil {
				return fmt.Errorf("member in %s: %w", database, err)
			}
			r.members[m.ID] = m
			return nil
		})
	})
	return r, err
}

// list returns the members as in a list of members.
func (r recorded) list() string {
	var all []string
	for _, m := range r.members {
		all = append(all, MemberAddress{m.Name, peerOf(m)}.String())
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// peerOf is the address of a member without the scheme.
func peerOf(m *membership.Member) string {
	if len(m.PeerURLs) == 0 {
		return ""
	}
	_, address, _ := strings.Cut(m.PeerURLs[0], "://")
	return address
}

// check returns nil if a directory may be started as this membership.
func (p *Membership) check(dir string) error {
	r, err := readRecorded(dir)
	if err != nil {
		return err
	}
	return p.fits(dir, r)
}

// fits returns nil if a directory may be started as this membership; nil membership = without other members.
func (p *Membership) fits(dir string, r recorded) error {
	own := r.members[r.id]
	root := filepath.Dir(filepath.Dir(dir))
	switch {
	case r.removed:
		return badList("the member of %s was removed from its cluster: to add it again, run cantina server members add "+
			"NAME=HOST:PORT, move %s away, and start with --join", root, dir)
	case own == nil:
		return nil
	case p == nil && len(r.members) > 1:
		return badList("%s belongs to member %s of several (%s): start it with --initial-cluster", root, own.Name, r.list())
	case p == nil:
		return nil
	case len(r.members) == 1 && len(p.Members) > 1:
		return badList("%s has the store of a single server: start it with its own entry alone (--initial-cluster %s), then "+
			"add the others with cantina server members add", root, p.ownText())
	case own.Name != "" && own.Name != soleName && own.Name != p.Name:
		return badList("%s belongs to member %s and not to %s: set --name %s, or choose another directory", root, own.Name,
			p.Name, own.Name)
	case len(p.Members) > 1 && !p.shares(r):
		return badList("%s belongs to another cluster (%s): choose another directory, or correct --initial-cluster", root,
			r.list())
	}
	return nil
}

func (p *Membership) ownText() string {
	own, err := p.Own()
	if err != nil {
		return p.Name + "=HOST:PORT"
	}
	return own.String()
}

// shares reports that the list has another member of the recorded cluster. A list may be old: members were added
// or removed since.
func (p *Membership) shares(r recorded) bool {
	for id, m := range r.members {
		if id != r.id && slices.ContainsFunc(p.Members, func(a MemberAddress) bool { return a.Peer == peerOf(m) }) {
			return true
		}
	}
	return false
}

// emptied refuses to begin a new cluster in a directory whose member has served before: its files are gone, and
// with them entries that it may have acknowledged.
func (p *Membership) emptied(dir string, memory store.Memory) error {
	if p == nil || p.Join {
		return nil
	}
	if memo, err := memory.Load(); err != nil || memo.Cluster == "" {
		return err
	}
	if _, err := os.Stat(datadir.ToMemberDir(dir)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return badList("%s belongs to a member that has served, and its files in %s are missing: replace it. Run cantina "+
		"server members remove %s, then add %s, move the directory away, and start with --join",
		filepath.Dir(filepath.Dir(dir)), dir, p.Name, p.ownText())
}
