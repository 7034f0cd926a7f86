package workerset

import (
	"cmp"
	"errors"
	"hash/fnv"

	"cantina/fence"
)

// ErrCorrupt reports an identifier of a worker set that no correct peer sends:
// two sets under one version, or two versions exactly half the number space
// apart. The input is refused; nothing is changed.
var ErrCorrupt = errors.New("impossible worker set")

// Hash is an incremental, invertible, order-independent hash of a set of cell
// processes: the count, and for two independent hashes of each process id the
// wrap-around sum and the exclusive or (Bistro worker-set consensus, "Each
// worker stores a hash of the entire worker set"). The zero Hash is the hash of
// the empty set. Removing is the exact inverse of adding.
type Hash struct {
	// Count is the number of members.
	Count int
	// Sum1, Xor1, Sum2, Xor2 combine the two hashes of each member.
	Sum1, Xor1, Sum2, Xor2 uint64
}

// Add returns the hash of the set with one more member.
func (h Hash) Add(proc string) Hash {
	a, b := hashes(proc)
	return Hash{h.Count + 1, h.Sum1 + a, h.Xor1 ^ a, h.Sum2 + b, h.Xor2 ^ b}
}

// Remove returns the hash of the set without a member. Removing from the empty
// set returns ErrCorrupt.
func (h Hash) Remove(proc string) (Hash, error) {
	if h.Count == 0 {
		return h, ErrCorrupt
	}
	a, b := hashes(proc)
	return Hash{h.Count - 1, h.Sum1 - a, h.Xor1 ^ a, h.Sum2 - b, h.Xor2 ^ b}, nil
}

func hashes(proc string) (uint64, uint64) {
	a, b := fnv.New64a(), fnv.New64()
	a.Write([]byte(proc))
	b.Write([]byte{0x5c})
	b.Write([]byte(proc))
	return mix(a.Sum64()), mix(b.Sum64())
}

// mix spreads the low entropy of FNV over all bits, so that sums of hashes of
// similar ids do not cancel.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// ID names one version of a worker set, as the leader of one term counted it.
// Every cell keeps the newest one that its leader sent and shows it to the next
// leader. The zero ID means "no set seen".
type ID struct {
	// Leader is the term whose leader counted the versions. With the list as witness only its epoch
	// is set: the list outlives a term.
	Leader fence.Term
	// Version grows by one with each change of the set, and wraps around.
	Version uint64
	// Hash is the hash of the set's members.
	Hash Hash
}

// IsZero reports whether no set has been seen.
func (i ID) IsZero() bool { return i == ID{} }

// Compare orders identifiers of any origin, for sorted output only; versions of
// one leader are compared with Earlier.
func (i ID) Compare(j ID) int {
	return cmp.Or(i.Leader.Compare(j.Leader), cmp.Compare(i.Version, j.Version),
		cmp.Compare(i.Hash.Count, j.Hash.Count), cmp.Compare(i.Hash.Sum1, j.Hash.Sum1),
		cmp.Compare(i.Hash.Xor1, j.Hash.Xor1), cmp.Compare(i.Hash.Sum2, j.Hash.Sum2),
		cmp.Compare(i.Hash.Xor2, j.Hash.Xor2))
}

// Earlier reports whether version a comes before version b on the circle of 64 bit numbers.
// Versions exactly half the circle apart have no order: ErrCorrupt.
func Earlier(a, b uint64) (bool, error) {
	d := int64(a - b)
	if d == -1<<63 {
		return false, ErrCorrupt
	}
	return d < 0, nil
}
