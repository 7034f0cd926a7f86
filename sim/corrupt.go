package sim

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"cantina/bbs"
	"cantina/fault"
	"cantina/leader"
	"cantina/lrp"
	disk "cantina/store"
	"cantina/timetable"
)

// corrupt makes a row of the board, of a drain or of a schedule unreadable: the next load
// quarantines it. Half of the times the leader dies, so that this is soon.
func (fs *faults) corrupt() {
	keys := slices.DeleteFunc(fs.w.store.texts(), func(key string) bool {
		return !bbs.Owns(key) && leader.DrainedCell(key) == "" && !timetable.Owns(key) ||
			fs.w.store.rows[key].(*saved).sound != nil
	})
	if len(keys) == 0 {
		return
	}
	key := keys[fs.w.rng.IntN(len(keys))]
	x := *fs.w.store.rows[key].(*saved)
	x.value, x.sound = []byte("garbage"), x.value
	fs.w.store.rows[key] = &x
	fs.corrupted++
	fs.w.trace("FAULT row %s is corrupt", key)
	if r := fs.w.leading(); r != nil {
		r.diesBy(500)
	}
}

// frozen: no action is taken for an index whose row, or whose service's, is quarantined.
func (r *leadership) frozen(x lrp.Index) bool {
	bad := r.bad[bbs.IndexRow(x.Key)] != nil
	for _, a := range x.Rows() {
		bad = bad || r.bad[bbs.ServiceRow(a.Service)] != nil
	}
	return bad
}

// repair is an operator who resolves quarantined rows: most are restored unchanged; rows that can
// be created again are sometimes dropped.
func (b *board) repair() {
	w := b.r.s.w
	for _, key := range slices.Sorted(maps.Keys(b.r.bad)) {
		if !w.calm && !w.chance(300) || b.r.bad[key].answered {
			continue
		}
		x, ok := w.store.rows[key].(*saved)
		drop := !ok || x.sound == nil || (strings.HasPrefix(key, "domain/") || strings.HasPrefix(key, "applied/")) &&
			w.chance(400)
		w.trace("operator: row %s is answered, dropped %v", key, drop)
		var err error
		switch name := leader.DrainedCell(key); {
		case name != "" && drop:
			b.drains.Drop(name, func(error) {})
		case timetable.Owns(key):
			err = b.r.times.Release(key, !drop, x.valueOf(), nil)
		case name != "":
			err = b.drains.Restore(name, disk.Row{Key: key, Value: x.sound}, func(error) {})
		case drop:
			err = b.Release(key, false, nil, nil)
		default:
			err = b.Release(key, true, x.sound, nil)
		}
		if errors.Is(err, fault.ErrQuarantined) {
			continue // it names work that one of several processes may have: tried again
		}
		if err != nil && !errors.Is(err, disk.ErrNotQuarantined) {
			w.fail("contract", "row %s cannot be answered: %v", key, err)
		}
	}
}

// valueOf is the row as it was before it was corrupt.
func (x *saved) valueOf() []byte {
	if x == nil {
		return nil
	}
	return x.sound
}
