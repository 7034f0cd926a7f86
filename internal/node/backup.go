package node

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"cantina/bbs"
	"cantina/leader"
	"cantina/registry"
	"cantina/scheduler"
	"cantina/store"
	"cantina/store/datadir"
	"cantina/timetable"
)

// The backup of a store that a server has open is taken by the server: the embedded member
// has no listener, and its files belong to one process.

// serveBackups writes a backup to each process that connects to the socket of the data
// directory, which only the owner of the directory reaches. One that is torn has no end, and
// its reader sees that.
func (s *Server) serveBackups(ctx context.Context, st *store.Store) error {
	ln, err := s.dir.Listen(ctx)
	if err != nil {
		s.log.Warn("store backup --data will not work while this server runs", "error", err)
		<-ctx.Done()
		return ctx.Err()
	}
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	var calls sync.WaitGroup
	defer calls.Wait()
	for {
		conn, err := ln.Accept()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("backup socket: %w", err)
		}
		calls.Go(func() { s.serveBackup(ctx, st, conn) })
	}
}

// backupLimit bounds one backup: nothing is compacted meanwhile, and its reader may hang.
const backupLimit = 30 * time.Minute

func (s *Server) serveBackup(ctx context.Context, st *store.Store, conn net.Conn) {
	ctx, cancel := context.WithTimeout(ctx, backupLimit)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	defer conn.Close()
	rows, revision, err := st.Backup(ctx, conn)
	if err != nil {
		s.log.Warn("backup", "error", err)
		return
	}
	s.log.Info("backup taken", "rows", rows, "revision", revision)
}

// RunningBackup requests a backup from the server that holds a data directory. The caller closes
// it, and verifies its content.
func RunningBackup(ctx context.Context, path string) (io.ReadCloser, error) {
	return datadir.Dial(ctx, path)
}

// CheckRow reports that a row means nothing to this version.
func CheckRow(r store.Row) error {
	if strings.HasPrefix(r.Key, store.ManifestPrefix) {
		return nil
	}
	if _, ok, err := scheduler.ReadRow(r.Key, r.Value); ok {
		return err
	}
	if _, ok, err := timetable.ReadRow(leader.TimetableContents{}, r.Key, r.Value); ok {
		return err
	}
	if x, err := registry.Decode(r); x != nil || err != nil {
		return err
	}
	if !bbs.Owns(r.Key) {
		return nil // of a later version, perhaps
	}
	_, err := bbs.Decode(r)
	return err
}

// Alone reports whether a row marks a cluster that dev made, and that only dev may lead.
func Alone(r store.Row) bool {
	x, err := registry.Decode(r)
	_, is := x.(registry.Alone)
	return is && err == nil
}
