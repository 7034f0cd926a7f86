// Package fence holds the values that order everything a leader does: the term
// of a leader and the invocation that one term hands out for one attempt to run
// one piece of work.
//
// Both are plain comparable values. Any package, core or shell, may use them;
// the package decides nothing.
package fence

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrMalformed reports a text that is not a term or an invocation.
var ErrMalformed = errors.New("malformed fence")

// Term identifies one leadership. Terms are totally ordered; a higher term
// displaces every lower one. The zero Term is lower than any real one and means
// "no leader seen yet".
type Term struct {
	// Epoch is the age of the store: it grows when a store is restored, moved or created again (Unix
	// seconds at that time, or the old epoch plus one).
	Epoch int64
	// Revision is the create revision of the election key of the leader.
	Revision int64
}

// Compare returns -1, 0 or +1 as t is lower than, equal to or higher than u.
func (t Term) Compare(u Term) int {
	return cmp.Or(cmp.Compare(t.Epoch, u.Epoch), cmp.Compare(t.Revision, u.Revision))
}

// Less reports whether t is lower than u.
func (t Term) Less(u Term) bool { return t.Compare(u) < 0 }

// IsZero reports whether no leader has been seen.
func (t Term) IsZero() bool { return t == Term{} }

// String prints the term as "epoch.revision".
func (t Term) String() string { return fmt.Sprintf("%d.%d", t.Epoch, t.Revision) }

// ParseTerm is the inverse of Term.String. It returns ErrMalformed.
func ParseTerm(s string) (Term, error) {
	var t Term
	e, r, _ := strings.Cut(s, ".") // without a point the revision is empty, which is no number
	var err1, err2 error
	t.Epoch, err1 = strconv.ParseInt(e, 10, 64)
	t.Revision, err2 = strconv.ParseInt(r, 10, 64)
	if err1 != nil || err2 != nil {
		return Term{}, fmt.Errorf("term %q: %w", s, ErrMalformed)
	}
	return t, nil
}

// Cluster is the identity of a store: random, made with its first head record, kept in backups,
// unchanged by a restore. Terms and invocations of two clusters must not be compared: compare the
// clusters first. Empty means "of no cluster yet".
type Cluster string

// Bounds of a term that can be: how far an epoch may lie ahead of the present in seconds
// (the clock of the server that named it was wrong, by a year at most), and how many
// revisions one epoch lasts at most (years of the fastest store).
const (
	epochAhead    = 366 * 24 * 3600
	mostRevisions = 1 << 42
)

// Believable reports whether the store in which own is a term can have given a term, as far as
// numbers show, at the time unix in seconds. A term that is impossible is refused: it must neither
// end a leader nor bind a cell.
func Believable(t, own Term, unix int64) bool {
	return t.Epoch >= 0 && t.Revision >= 0 && t.Epoch <= max(own.Epoch, unix)+epochAhead &&
		t.Revision <= max(own.Revision, 0)+mostRevisions
}

// Invocation is one attempt to run one piece of work, never reused: the term that started it and a
// counter within that term (from 1). A process finds its own in the environment variable
// CANTINA_FENCE; a data store may compare it, because later invocations of the same work always
// compare higher. The zero Invocation means "none".
type Invocation struct {
	Term    Term
	Counter int64
}

// Compare returns -1, 0 or +1 as i was handed out before, is equal to, or was
// handed out after j.
func (i Invocation) Compare(j Invocation) int {
	return cmp.Or(i.Term.Compare(j.Term), cmp.Compare(i.Counter, j.Counter))
}

// IsZero reports whether there is no invocation.
func (i Invocation) IsZero() bool { return i == Invocation{} }

// String prints the invocation as "epoch.revision.counter", the value of
// CANTINA_FENCE.
func (i Invocation) String() string { return fmt.Sprintf("%s.%d", i.Term, i.Counter) }

// ParseInvocation is the inverse of Invocation.String. It returns ErrMalformed.
func ParseInvocation(s string) (Invocation, error) {
	counter := s[strings.LastIndexByte(s, '.')+1:]
	t, err := ParseTerm(strings.TrimSuffix(s, "."+counter))
	n, err2 := strconv.ParseInt(counter, 10, 64)
	if err != nil || err2 != nil {
		return Invocation{}, fmt.Errorf("invocation %q: %w", s, ErrMalformed)
	}
	return Invocation{Term: t, Counter: n}, nil
}
