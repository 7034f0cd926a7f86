package logstore

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"cantina/internal/run"
)

// ErrLocked: another process has the directory open.
var ErrLocked = errors.New("output directory in use")

// Open opens the store in dir, which it creates if needed. Torn tails of a dead process are cut,
// its active segments sealed, unreadable indexes rebuilt; unreadable files are left out and
// logged. It fails only if the directory cannot be used at all (ErrLocked, or the system's error).
// It starts nothing: call Run.
func Open(dir string, cfg Config) (*Store, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("open output store: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	st := &Store{cfg: cfg, lock: lock,
		dir: directory{path: dir, log: cfg.Log, nextID: 1, own: map[key][]*segment{}},
		sources: sources{live: map[key]*source{}, ends: map[key]time.Time{}, openAt: map[key]*segment{},
			owed: map[key]debt{}}}
	st.shared = sharedLog{dir: &st.dir, full: cfg.Shared}
	st.retention = retention{cfg: cfg, dir: &st.dir, sources: &st.sources, shared: &st.shared}
	if err := st.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("open output store %s: %w", dir, err), lock.Close())
	}
	return st, nil
}

func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("open output store: %w", err)
	}
	if err := run.Lock(f); err != nil {
		return nil, errors.Join(fmt.Errorf("open output store %s: %w", dir, ErrLocked), f.Close())
	}
	return f, nil
}

// found is the directory's files of one segment.
type found struct {
	g        *segment
	log, idx bool
}

func (st *Store) load() error {
	all, err := listSegments(st.dir.path)
	if err != nil {
		return err
	}
	var torn []*repair
	for _, f := range all {
		st.dir.nextID = max(st.dir.nextID, f.g.id+1)
		r, err := st.loadOne(f)
		if err != nil {
			st.cfg.Log.Warn("output segment left out", "segment", f.g.path("log"), "error", err)
			continue
		}
		if r != nil {
			torn = append(torn, r)
		}
		st.pos.advance(f.g.last)
		if r == nil && f.g.first == 0 {
			continue
		}
		st.dir.segments = append(st.dir.segments, f.g)
	}
	for _, r := range torn {
		st.finish(r)
	}
	st.dir.connect(st.sources.found)
	return nil
}

// listSegments reads the directory; leftovers of an interrupted index write are removed.
func listSegments(dir string) ([]*found, error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	byID := map[uint64]*found{}
	for _, n := range names {
		part := strings.Split(n.Name(), ".")
		if len(part) != 3 || part[1] != "s" && part[1] != "o" {
			continue
		}
		id, err := strconv.ParseUint(part[0], 16, 64)
		if err != nil {
			continue
		}
		f := byID[id]
		if f == nil {
			f = &found{g: &segment{id: id, own: part[1] == "o", dir: dir}}
			byID[id] = f
		}
		switch part[2] {
		case "log":
			f.log = true
		case "idx":
			f.idx = true
		case "tmp":
			if err := os.Remove(filepath.Join(dir, n.Name())); err != nil {
				return nil, err
			}
		}
	}
	all := make([]*found, 0, len(byID))
	for _, f := range byID {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b *found) int { return cmp.Compare(a.g.id, b.g.id) })
	return all, nil
}

// loadOne loads a segment by its index, or by its data when it has no good one.
func (st *Store) loadOne(f *found) (*repair, error) {
	if f.idx {
		err := f.g.loadIndex(!f.log)
		if err == nil {
			return nil, nil
		}
		st.cfg.Log.Warn("output index unreadable", "index", f.g.path("idx"), "error", err)
		if !f.log {
			return nil, errors.Join(err, os.Remove(f.g.path("idx")))
		}
	}
	if !f.log {
		return nil, fs.ErrNotExist
	}
	*f.g = segment{id: f.g.id, own: f.g.own, dir: f.g.dir, entries: map[string][]*entry{}}
	return f.g.rebuild()
}

// loadIndex loads the head, and of an own segment the entry.
func (g *segment) loadIndex(collected bool) error {
	f, err := os.Open(g.path("idx"))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	h, err := g.readHead(f)
	if err != nil {
		return err
	}
	if collected {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		g.collected = info.ModTime().UTC()
	}
	if !g.own {
		return nil
	}
	g.order, err = readEntries(f, h, func(*entry) bool { return true })
	if err == nil && len(g.order) != 1 {
		err = errFormat
	}
	if err == nil {
		g.owner = g.order[0].source
		g.entries = map[string][]*entry{g.owner.ID: g.order}
	}
	return err
}

// resume gives a new source the numbers at which its predecessor stopped: of an
// own segment, of the active shared one, or where a dead process left it open.
func (st *Store) resume(s *source) {
	k := s.info.key()
	q := &query{ids: map[string]bool{k.id: true}}
	_, at := st.sources.ended(k)
	look := []*segment{st.shared.active(), at, nil}
	for _, g := range st.dir.ofOwner(k) {
		data, _ := g.onDisk()
		s.owned += data
		look[2] = g
	}
	for _, g := range look {
		if g == nil {
			continue
		}
		entries, err := g.matching(q)
		if err != nil {
			st.cfg.Log.Warn("output of an earlier process unreadable", "container", k.id, "error", err)
		}
		for _, e := range entries {
			if e.source.key() == k && e.seqNext > s.seq {
				s.seq, s.cums = e.seqNext, e.cums
			}
		}
	}
}
