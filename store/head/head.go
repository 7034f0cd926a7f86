// Package head is the pure core of the store: the head record that fences every write of a leader,
// the rules of a win, and the machine that resolves a transaction with an unknown outcome.
//
// It decides; package store performs. It may be used by store and by the simulator. Source:
// docs/design/safety.md, Terms and Commits.
package head

import (
	"cmp"
	"errors"
	"fmt"

	"cantina/fence"
)

// Head is the record that every transaction of a leader compares and replaces.
// No two transactions ever put the same Head.
type Head struct {
	// Term is the term that wrote the head. Revision 0 means that no term of the
	// epoch has written yet.
	Term fence.Term
	// Seq counts the commits of the term; the win writes 0.
	Seq int64
	// Attempt numbers the transactions the term has sent; several attempts may
	// aim at the same Seq, one of them can land.
	Attempt int64
	// Restored: the content may be older than cells have seen (a restore, a move, or a store created
	// while cells of an older one may live). It is true until the initial wait has ended.
	Restored bool
	// Cluster is the identity of the store, the same in every head of it.
	Cluster fence.Cluster
	// Began is the create revision of the first term of the epoch: a row with a smaller revision was
	// written before the store was created, restored or moved.
	Began int64
}

// Errors of a win. Each ends the campaign.
var (
	// ErrWentBack reports a store whose head is older than one that was seen.
	ErrWentBack = errors.New("store went back")
	// ErrDisplaced reports that another server leads.
	ErrDisplaced = errors.New("displaced by another leader")
)

// Evidence is a candidate's information about the store on which it has just been elected.
type Evidence struct {
	// Exists is false when the store has no head: it was created just now.
	Exists bool
	// Head is the head as read at or after the election.
	Head Head
	// Elected is the create revision of the candidate's election key.
	Elected int64
	// Moved is true when the store is not the one, or not in the place, that this
	// server remembers.
	Moved bool
	// Seen is the highest term that this server has seen in this store, or got from a cell of it.
	Seen fence.Term
	// NewCluster is the operator's declaration that no cell of an older store is alive.
	NewCluster bool
	// Unix is the time now, in seconds.
	Unix int64
	// Fresh is the identity of a store that has none yet: random.
	Fresh fence.Cluster
}

// Win returns the head that begins a term: strictly greater than the one read
// and than any this server remembers, with Seq 0. The epoch rises when the store
// is new, was moved, or went back; then Restored is set, except for a new store
// with NewCluster. A mark left by a restore stays. The error is ErrDisplaced when
// Elected is no revision.
func Win(e Evidence) (Head, error) {
	if e.Elected <= 0 {
		return Head{}, fmt.Errorf("win at revision %d: %w", e.Elected, ErrDisplaced)
	}
	won := Head{Term: fence.Term{Epoch: e.Head.Term.Epoch, Revision: e.Elected}, Restored: e.Head.Restored,
		Cluster: cmp.Or(e.Head.Cluster, e.Fresh), Began: e.Head.Began}
	if e.Head.Term.Revision == 0 {
		won.Began = e.Elected
	}
	if e.Exists && !e.Moved && e.Head.Term.Less(won.Term) && e.Head.Term.Compare(e.Seen) >= 0 {
		return won, nil
	}
	won.Term.Epoch = NextEpoch(max(e.Head.Term.Epoch, e.Seen.Epoch), e.Unix)
	won.Began = e.Elected
	won.Restored = e.Exists || e.Seen != fence.Term{} || !e.NewCluster
	return won, nil
}

// NextEpoch returns the epoch after old at the given time: max(old+1, unix).
func NextEpoch(old, unix int64) int64 { return max(old+1, unix) }

// Restore returns the head of a restored store: a raised epoch without a term, marked Restored, of
// the same cluster. The zero Head means "no head".
func Restore(old Head, unix int64) Head {
	return Head{Term: fence.Term{Epoch: NextEpoch(old.Term.Epoch, unix)}, Restored: true, Cluster: old.Cluster}
}
