// Package spec reads cantina.yaml: what an owner wants of one domain.
//
//	text ──► nodes with positions ──► field structs ──► services, tasks, jobs
//	     syntax              form                  meaning
//
// Each stage reports all that it finds, with file, line, column and path, and a
// guess what was meant; nothing half-read leaves the package. Reading is strict:
// an unknown field, a wrong type, a bare number where a unit belongs, or a value
// that cannot be, is an error. No text is expanded or interpolated: what stands in
// the file is what the program gets, byte by byte.
//
// The field structs (fields.go) are the one description of the syntax: the parser,
// the JSON Schema for editors and the tables of docs/spec.md come from them. Input
// is foreign: size, depth, aliases and the number of reported problems are bounded,
// and time grows in proportion to the size.
//
// The CLI calls Parse before it sends a file, and the server calls it again on what
// arrives. It has no state.
package spec
