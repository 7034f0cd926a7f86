package zone

// The database comes with the Go distribution, together with its version.
//
//go:generate sh -c "cp $(go env GOROOT)/lib/time/zoneinfo.zip . && chmod 644 zoneinfo.zip && sed -n s/^DATA=//p $(go env GOROOT)/lib/time/update.bash > zoneinfo.version"
