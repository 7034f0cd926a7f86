#!/bin/sh
# Writes wire/cantinav1 from wire/proto. Needs protoc (Debian: protobuf-compiler, libprotobuf-dev);
# the Go plugins are tools of this module. Run it from anywhere.
set -eu
cd "$(dirname "$0")/.."
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
go build -o "$tools/protoc-gen-go" google.golang.org/protobuf/cmd/protoc-gen-go
go build -o "$tools/protoc-gen-connect-go" connectrpc.com/connect/cmd/protoc-gen-connect-go
PATH="$tools:$PATH" protoc -I wire/proto \
	--go_out=. --go_opt=module=cantina \
	--connect-go_out=. --connect-go_opt=module=cantina \
	wire/proto/cantina/v1/*.proto
gofmt -w wire/cantinav1
