// Package bbspb holds the generated records of the bulletin board. Only package
// bbs uses it.
package bbspb

//go:generate ../../scripts/protoc cantina_board.proto
