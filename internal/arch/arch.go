// Package arch has the rules of the code as tests: the imports that a core package may have, the
// shells that may import another, and a doc comment for every package and exported name. It has no
// code of its own; its tests read the whole module.
package arch
