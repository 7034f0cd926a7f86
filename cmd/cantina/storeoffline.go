package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"cantina/api"
	"cantina/internal/guard"
	"cantina/internal/run"
	"cantina/store"
	"cantina/store/datadir"
	"cantina/store/etcd"
)

// place selects the store of an offline verb: the data directory of a stopped server, or an
// operator's etcd.
type place struct {
	data      string
	endpoints []string
	tls       guard.TLSFiles
	empty     bool // a directory that is not there is made: it is to be filled
}

func (p *place) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.data, "data", "", "data directory of the dev or server")
	f.StringSliceVar(&p.endpoints, "etcd-endpoints", nil, "instead of --data: members of an external etcd cluster")
	f.StringVar(&p.tls.Cert, "etcd-cert", "", "client certificate for that etcd")
	f.StringVar(&p.tls.Key, "etcd-key", "", "private key of the certificate")
	f.StringVar(&p.tls.CA, "etcd-ca", "", "CA certificate used to verify that etcd")
}

// open opens the store and calls f with it.
func (p *place) open(ctx context.Context, f func(context.Context, *store.Store) error) error {
	if (p.data == "") == (len(p.endpoints) == 0) {
		return failf(api.ExitUsage, "either --data or --etcd-endpoints is required")
	}
	if p.data != "" {
		return p.openDir(ctx, f)
	}
	conf, err := p.tls.Client()
	if err != nil {
		return failf(api.ExitUsage, "%v", err)
	}
	cluster, err := etcd.Dial(etcd.ClusterConfig{Endpoints: p.endpoints, TLS: conf})
	if err != nil {
		return failf(api.ExitConnection, "%v", err)
	}
	return errors.Join(use(ctx, cluster.Backend(), false, f), cluster.Close())
}

// errRunning reports a data directory whose store is in use by a running server.
var errRunning = errors.New("a server is running on it")

func (p *place) openDir(ctx context.Context, f func(context.Context, *store.Store) error) error {
	if info, err := os.Stat(p.data); !p.empty && (err != nil || !info.IsDir()) {
		return failf(api.ExitUsage, "--data %q: no such directory", p.data)
	}
	path, exists, err := datadir.Locate(p.data)
	if err != nil {
		return failf(api.ExitUsage, "--data: %v", err)
	}
	if !exists && !p.empty {
		return failf(api.ExitFailed, "--data %s: no store found; expected it in %s", p.data, filepath.Join(path, "etcd"))
	}
	dir, err := datadir.Open(path)
	if errors.Is(err, datadir.ErrInUse) {
		return failf(api.ExitFailed, "%w: %v", errRunning, err)
	}
	if err != nil {
		return failf(api.ExitFailed, "%v", err)
	}
	member, err := etcd.Start(ctx, dir, etcd.MemberConfig{})
	if err != nil {
		return failf(api.ExitFailed, "%v", errors.Join(err, dir.Close()))
	}
	running, end := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- member.Run(running) }()
	err = use(ctx, member.Backend(), true, f)
	end()
	if rerr := <-done; rerr != nil && !errors.Is(rerr, context.Canceled) {
		err = errors.Join(err, rerr)
	}
	return errors.Join(err, member.Close(), dir.Close())
}

// hasStore reports whether the server's part of a data directory has an embedded store.
func hasStore(path string) (bool, error) {
	_, err := os.Stat(filepath.Join(path, "etcd"))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// use calls f with a store. sole: no other process can access it.
func use(ctx context.Context, b *etcd.Backend, sole bool, f func(context.Context, *store.Store) error) error {
	s, err := store.New(b, store.Config{Sole: sole, Clock: run.Kernel()})
	if err != nil {
		return err
	}
	if err := f(ctx, s); err != nil {
		return failf(api.ExitFailed, "%w", err)
	}
	return nil
}

func offlineVerbs(c *cli) []*cobra.Command {
	return []*cobra.Command{backupVerb(c), verifyVerb(c), restoreVerb(c), markVerb(c)}
}

func markVerb(c *cli) *cobra.Command {
	p := &place{}
	cmd := &cobra.Command{
		Use: "mark-restored", Short: "Mark a store that was rolled back or copied outside of cantina",
		Args: atMost(0, "none"),
		Long: "Use mark-restored after an etcd snapshot was restored or a data directory was copied back, " +
			"before a server starts on it. The store may then be older than the work on cells.",
		Example: "  cantina store mark-restored --data /var/lib/cantina",
		RunE: func(*cobra.Command, []string) error {
			return p.open(c.ctx, func(ctx context.Context, s *store.Store) error {
				term, err := s.MarkRestored(ctx)
				if err != nil {
					return err
				}
				epoch := fmt.Sprint(term.Epoch)
				c.notef("marked as restored; epoch of the next term: %s\n", epoch)
				return answer(c, factTable("epoch"), textFields(map[string]string{"epoch": epoch}))
			})
		},
	}
	p.flags(cmd)
	return c.writing(cmd)
}
