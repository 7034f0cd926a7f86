// Package event is the hub of committed changes: what bbs, scheduler and registry
// publish after each commit, in the order of the store's revisions, and what the
// API streams to whoever listens.
//
//	publish(revision, events) ──► ring (bounded) ──► subscriptions
//
// The ring keeps the newest events. A subscription starts strictly after a
// revision, or at the tail; what the ring no longer holds, and what a slow reader
// did not take in time, is told as an explicit Gap, never left out in silence.
// Events replayed from any revision rebuild the same view (I13): every event
// carries the whole row.
//
// One Hub belongs to one term; a new leader begins at the revision of its load.
// What an event looks like on the wire is made once for all readers (Form).
//
// Publish never blocks. (Diego BBS, Events; holes: order, replay, heartbeat.)
package event
