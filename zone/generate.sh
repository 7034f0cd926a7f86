#!/bin/sh
# Copies the time zone database of the Go distribution, and writes its version.
set -eu
lib="$(go env GOROOT)/lib/time"
cp "$lib/zoneinfo.zip" .
chmod 644 zoneinfo.zip
sed -n s/^DATA=//p "$lib/update.bash" > zoneinfo.version
