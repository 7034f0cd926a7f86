// Package registrypb holds the protobuf records of the worker registry: members
// and the version of their list. Only package registry uses it.
package registrypb

//go:generate sh -c "protoc -I . -I ../../wire/proto --plugin=protoc-gen-go=$(go tool -n protoc-gen-go) --go_out=. --go_opt=paths=source_relative cantina_registry.proto"
