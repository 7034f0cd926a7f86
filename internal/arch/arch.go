// Package arch holds the rules of the code as tests: what a core package may
// import, which shell may know which, that every package and exported name says
// what it is for. It has no code of its own; its tests read the whole module.
package arch
