// Package storepb holds the generated records of the store: the envelope, the head, the value of
// the election key and the marker of a manifest. Only store and its subpackages use it; other
// packages use store.Encode and store.Decode.
package storepb

//go:generate ../../scripts/protoc store.proto
