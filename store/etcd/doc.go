// Package etcd is the store's backend on etcd: an embedded single member inside a server's data
// directory (Start), or an operator's cluster (Dial). One Backend serves both; only the limits of
// a transaction differ.
//
// The embedded member has no listener and no port: it is called in the process. It syncs every
// commit to disk, keeps few entries in memory, compacts and defragments itself (Member.Run), and
// never ends its process: after a fatal error of etcd (a full or broken disk) every call fails
// with store.ErrBroken or store.ErrFull.
//
//	Start ──▶ serving ── free space or quota used up ──▶ refusing writes (store.ErrFull)
//	serving ── fatal error of etcd ──▶ broken (store.ErrBroken): only a new process helps
//	serving ── Close ──▶ closed
//
// Only package node, cmd and tests open backends. Facts: etcd documentation 3.7, "Maintenance",
// "Hardware recommendations", "API guarantees".
package etcd
