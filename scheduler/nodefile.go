package scheduler

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cantina/batch"
)

// filesEvery is how often the files of node sources are looked at.
const filesEvery = 2 * time.Second

// maxFile limits a file of nodes, in bytes.
const maxFile = 1 << 30

// ErrFile reports a file of nodes that cannot be read.
var ErrFile = errors.New("cannot read nodes")

// stampOf changes when a file of the sources changes; empty = there is no file.
func stampOf(spec *batch.ForestSpec) string {
	var b strings.Builder
	for i := range spec.Sources {
		if spec.Sources[i].Kind != batch.SourceFile {
			continue
		}
		info, err := os.Stat(spec.Sources[i].File)
		if err != nil {
			fmt.Fprintf(&b, "%v;", err)
			continue
		}
		inode := uint64(0)
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			inode = st.Ino
		}
		fmt.Fprintf(&b, "%d %d %d;", info.ModTime().UnixNano(), info.Size(), inode)
	}
	return b.String()
}

// fileNodes reads a file of nodes. Only a regular file is read: another one may never end.
func fileNodes(levels []string, name string) (nodes []batch.NodeSpec, note string, err error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrFile, err)
	}
	defer f.Close()
	switch info, err := f.Stat(); {
	case err != nil:
		return nil, "", fmt.Errorf("%w: %w", ErrFile, err)
	case !info.Mode().IsRegular():
		return nil, "", fmt.Errorf("%w: %s is not a regular file", ErrFile, name)
	case info.Size() > maxFile:
		return nil, "", fmt.Errorf("%w: %s has %d bytes, at most %d", ErrFile, name, info.Size(), maxFile)
	}
	content, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrFile, err)
	}
	if nodes, note, err = batch.FileNodes(levels, name, content); err != nil {
		return nil, "", fmt.Errorf("file %s: %w", name, err)
	}
	if note != "" {
		note = fmt.Sprintf("file %s: %s", name, note)
	}
	return nodes, note, nil
}
