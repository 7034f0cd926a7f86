// Package schedulerpb holds the generated records of the batch scheduler. Only
// package scheduler uses it.
package schedulerpb

//go:generate sh -c "protoc -I . -I ../../wire/proto --plugin=protoc-gen-go=$(go tool -n protoc-gen-go) --go_out=. --go_opt=paths=source_relative scheduler.proto"
