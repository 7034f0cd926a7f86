// Package storepb holds the generated records of the store: the envelope, the head, the value of
// the election key and the marker of a manifest. Only store and its subpackages use it; other
// packages use store.Encode and store.Decode.
package storepb

//go:generate sh -c "protoc --plugin=protoc-gen-go=$(go tool -n protoc-gen-go) --go_out=. --go_opt=paths=source_relative store.proto"
