// Package timetablepb holds the generated records of schedules. Only package
// timetable uses it.
package timetablepb

//go:generate ../../scripts/protoc timetable.proto
