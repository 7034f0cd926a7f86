package plan

// Write has the options that every writing call carries beside its arguments.
type Write struct {
	// Key makes the call happen at most once: a second call with the same key gets
	// the first one's answer. It is checked inside the commit. Empty = none.
	Key string
	// Expect is the revision that the resource, or the domain, must have; 0 = any. Otherwise
	// ErrRevision.
	Expect int64
	// By names the caller, for the audit log.
	By string
}

// Range selects one page of a list in the order of its keys.
type Range struct {
	After string // the key before the first wanted one; empty = from the start
	Limit int    // 1 … MaxPage; the handler has put in the default
}

// Page is one page of a list of committed rows.
type Page[T any] struct {
	Items []T
	// Next is the Range.After of the next page; empty = last page.
	Next string
	// Revision is the store's revision that the page shows.
	Revision int64
}
