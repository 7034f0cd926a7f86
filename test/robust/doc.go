// Package robust holds tests of the real program under faults: processes that are
// killed or stopped, links that are cut, input that is wrong. It has no code of its
// own; `make test` runs the short form, `CANTINA_SOAK=1` (make soak) the long one.
//
// Every test starts real processes of cantina, and looks at what is left of them:
// control groups, processes, mounts. Whether work ran twice is not asked of
// cantina: the work itself holds a lock of the kernel while it runs and writes its
// id into a file.
//
// Cells that are cut off, or whose leader is killed, have a network namespace each,
// with a link to a bridge of the test's own (network).
//
// A failure prints the seed; CANTINA_SEED=N repeats its choices.
package robust
