// Package timetablepb holds the generated records of schedules. Only package
// timetable uses it.
package timetablepb

//go:generate sh -c "protoc -I . -I ../../wire/proto --plugin=protoc-gen-go=$(go tool -n protoc-gen-go) --go_out=. --go_opt=paths=source_relative timetable.proto"
