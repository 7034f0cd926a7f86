package store

import (
	"context"
	"time"
)

// LeaseID names a lease of a backend; 0 is none.
type LeaseID int64

// Entry is one key of a backend.
type Entry struct {
	Key   string
	Value []byte
	// Created and Modified are the store revisions of the write that created the
	// key and of the one that put this value.
	Created, Modified int64
	// Lease is the lease the key lives on; 0 for none.
	Lease LeaseID
}

// Check is the property that a Condition tests.
type Check int

// The conditions of a transaction.
const (
	// ValueIs holds when the key exists with this value.
	ValueIs Check = iota
	// CreatedAt holds when the key exists and was created at this revision;
	// revision 0 holds when there is no such key.
	CreatedAt
)

// Condition is one comparison of a transaction.
type Condition struct {
	Key     string
	Check   Check
	Value   []byte
	Created int64
}

// Write is one write of a transaction; a nil Value deletes the key.
type Write struct {
	Key   string
	Value []byte
	Lease LeaseID
}

// Txn is an atomic transaction: if every condition of If is true, all of Then is written at one
// revision; else the keys of Else are read, nothing is written. No key is in Then twice.
type Txn struct {
	If   []Condition
	Then []Write
	Else []string
}

// TxnAnswer is the certain answer to a Txn.
type TxnAnswer struct {
	// Done is true when the conditions held.
	Done bool
	// Revision is the store revision of the write, or of the read.
	Revision int64
	// Found has the keys of Else that exist, when Done is false.
	Found []Entry
}

// Query requests the keys from From (inclusive) to To (exclusive), in order, at most Limit (0:
// all). A Revision other than 0 reads the past, as long as it is not compacted (ErrCompacted).
// Every read is linearizable.
type Query struct {
	From, To string
	Limit    int
	Revision int64
}

// Page is the answer to a Query.
type Page struct {
	Entries []Entry
	// Revision is the store revision the read was done at.
	Revision int64
	// More is true when Limit cut the answer.
	More bool
}

// Limits are the limits of one transaction of a backend.
type Limits struct {
	// Ops is the largest number of writes.
	Ops int
	// Bytes is the largest size of a transaction, as estimated by this package.
	Bytes int
}

// KV are the keys of a backend.
//
// An error of Txn leaves the outcome unknown, but for those that wrap ErrTooLarge
// or ErrFull: these are certain not to be applied.
type KV interface {
	Txn(ctx context.Context, t Txn) (TxnAnswer, error)
	Range(ctx context.Context, q Query) (Page, error)
	// Changed returns when the key was written or deleted after the revision, or
	// when that may be so; the caller reads again.
	Changed(ctx context.Context, key string, after int64) error
}

// Leases are the leases of a backend. A key put with a lease is deleted when the
// lease ends.
type Leases interface {
	// Grant makes a new lease. The TTL in the response may be longer than requested.
	Grant(ctx context.Context, ttl time.Duration) (LeaseID, time.Duration, error)
	// KeepAlive restarts the TTL; ErrLeaseGone is certain.
	KeepAlive(ctx context.Context, id LeaseID) (time.Duration, error)
	// Revoke ends a lease; ending one that is gone is no error.
	Revoke(ctx context.Context, id LeaseID) error
}

// Backend is one store: an embedded etcd member, an operator's etcd cluster, or
// the memory twin. All pass the suite of package storetest.
type Backend interface {
	KV
	Leases
	// Limits are the limits of one transaction.
	Limits() Limits
	// Cluster names the store; it is constant while the backend lives, and differs
	// between two stores that were created separately.
	Cluster(ctx context.Context) (string, error)
}
