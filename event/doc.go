// Package event is the hub of committed changes: bbs, scheduler and registry publish after each
// commit, in the order of the store's revisions, and the API streams the events to its readers.
//
//	publish(revision, events) ──► ring (bounded) ──► subscriptions
//
// The ring keeps the newest events. A subscription starts strictly after a revision, or at the
// tail. Events that the ring no longer holds, or that a slow reader did not take in time, are
// reported as an explicit Gap. No event is left out silently. Events replayed from any revision
// rebuild the same view (I13): every event carries the whole row.
//
// One Hub belongs to one term; a new leader begins at the revision of its load. The encoding of an
// event is made once for all readers (Form).
//
// Publish never blocks. (Diego BBS, Events; gaps: order, replay, heartbeat.)
package event
