// Package registrypb holds the protobuf records of the worker registry: members
// and the version of their list. Only package registry uses it.
package registrypb

//go:generate ../../scripts/protoc cantina_registry.proto
