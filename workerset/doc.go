// Package workerset decides, from hashes that every cell keeps, when a leader knows all the cells
// that may be running work. It also decides when a new cell may take its first work without
// endangering the next leader's decision (Bistro worker-set consensus). It is no consensus
// protocol between replicas.
//
// The package is pure: no clock, no I/O. Its values are owned by one caller and changed in place.
// Package worker calls it; any package may use ID and Hash.
package workerset
