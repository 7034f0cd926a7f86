// Package packaging makes the files of a release: archives, Debian packages, container images, a software bill of
// materials, and checksums. The same source gives the same bytes on every machine with the same toolchain: no file
// has a time, a name or an order of its own.
package packaging
