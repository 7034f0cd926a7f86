// Package spec reads cantina.yaml: the desired state of one domain.
//
//	text ──► nodes with positions ──► field structs ──► services, tasks, jobs
//	     syntax              form                  meaning
//
// Each stage reports all errors that it finds, with file, line, column and path, and a suggestion;
// partly read files never leave the package. Reading is strict: an unknown field, a wrong type, a
// number without its unit, or an impossible value is an error. No text is expanded or
// interpolated: the program gets the text of the file, byte by byte.
//
// The field structs (fields.go) are the one description of the syntax: the parser, the JSON Schema
// for editors and the tables of docs/spec.md come from them. Input is foreign: size, depth,
// aliases and the number of reported problems are limited, and time grows in proportion to the
// size.
//
// The CLI calls Parse before it sends a file, and the server calls it again on the received file.
// It has no state.
package spec
