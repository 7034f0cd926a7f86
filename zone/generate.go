package zone

// The database comes with the Go distribution, together with its version.
//
//go:generate ./generate.sh
