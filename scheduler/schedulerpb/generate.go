// Package schedulerpb holds the generated records of the batch scheduler. Only
// package scheduler uses it.
package schedulerpb

//go:generate ../../scripts/protoc scheduler.proto
