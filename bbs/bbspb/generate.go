// Package bbspb holds the generated records of the bulletin board. Only package
// bbs uses it.
package bbspb

//go:generate sh -c "protoc -I . -I ../../wire/proto --plugin=protoc-gen-go=$(go tool -n protoc-gen-go) --go_out=. --go_opt=paths=source_relative cantina_board.proto"
