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
	"cantina/store/etcd"
	"cantina/store/folder"
)

// place says which store an offline verb works on: the data folder of a server that
// does not run, or an operator's etcd.
type place struct {
	data      string
	endpoints []string
	tls       guard.TLSFiles
	empty     bool // a folder that is not there is made: it is to be filled
}

func (p *place) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.data, "data", "", "data folder of the server, which must not run")
	f.StringSliceVar(&p.endpoints, "etcd-endpoints", nil, "instead: members of an etcd of your own")
	f.StringVar(&p.tls.Cert, "etcd-cert", "", "certificate for that etcd")
	f.StringVar(&p.tls.Key, "etcd-key", "", "key of the certificate")
	f.StringVar(&p.tls.CA, "etcd-ca", "", "authority of that etcd")
}

// open opens the store and calls f with it.
func (p *place) open(ctx context.Context, f func(context.Context, *store.Store) error) error {
	if (p.data == "") == (len(p.endpoints) == 0) {
		return failf(api.ExitUsage, "give --data or --etcd-endpoints")
	}
	if p.data != "" {
		return p.openFolder(ctx, f)
	}
	conf, err := p.tls.Client()
	if err != nil {
		return failf(api.ExitUsage, "%v", err)
	}
	cluster, err := etcd.Dial(etcd.ClusterConfig{Endpoints: p.endpoints, TLS: conf})
	if err != nil {
		return failf(api.ExitConnection, "%v", err)
	}
	return errors.Join(use(ctx, cluster.Backend(), f), cluster.Close())
}

func (p *place) openFolder(ctx context.Context, f func(context.Context, *store.Store) error) error {
	path := p.data
	if info, err := os.Stat(path); !p.empty && (err != nil || !info.IsDir()) {
		return failf(api.ExitUsage, "--data %q: there is no such folder", path)
	}
	if info, err := os.Stat(filepath.Join(path, "server", "etcd")); err == nil && info.IsDir() {
		path = filepath.Join(path, "server") // the folder of a dev: the store is the server's half
	}
	dir, err := folder.Open(path)
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
	err = use(ctx, member.Backend(), f)
	end()
	if rerr := <-done; rerr != nil && !errors.Is(rerr, context.Canceled) {
		err = errors.Join(err, rerr)
	}
	return errors.Join(err, member.Close(), dir.Close())
}

func use(ctx context.Context, b *etcd.Backend, f func(context.Context, *store.Store) error) error {
	s, err := store.New(b, store.Config{Clock: run.Kernel()})
	if err != nil {
		return err
	}
	if err := f(ctx, s); err != nil {
		return failf(api.ExitFailed, "%v", err)
	}
	return nil
}

func (c *cli) offlineVerbs() []*cobra.Command {
	return []*cobra.Command{c.backupVerb(), c.restoreVerb(), c.markVerb()}
}

func (c *cli) backupVerb() *cobra.Command {
	p := &place{}
	cmd := &cobra.Command{
		Use: "backup FILE", Short: "Write the whole store to a file", Args: exactly(1, "FILE"),
		Long:    "backup writes all rows as they were at one moment. With --etcd-endpoints it disturbs no running server; with --data the server must not run.",
		Example: "  cantina store backup --data /var/lib/cantina before.backup",
		RunE: func(_ *cobra.Command, args []string) error {
			return p.open(c.ctx, func(ctx context.Context, s *store.Store) error { return c.backup(ctx, s, args[0]) })
		},
	}
	p.flags(cmd)
	return cmd
}

// backup writes beside the file and renames, so that a half one never bears its name.
func (c *cli) backup(ctx context.Context, s *store.Store, name string) error {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	rows, revision, err := s.Backup(ctx, f)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	c.notef("%s: %d rows at revision %d\n", name, rows, revision)
	return nil
}

func (c *cli) restoreVerb() *cobra.Command {
	p := &place{empty: true}
	cmd := &cobra.Command{
		Use: "restore FILE", Short: "Put a backup into an empty store", Args: exactly(1, "FILE"),
		Long: "restore fills an empty store from a backup and marks it: the next leader starts nothing that may still run before every cell has reported, or the longest promise\n" +
			"to a cell has passed, because the backup may be older than what cells do. A store that is not empty is refused.",
		Example: "  cantina store restore --data /var/lib/cantina-new before.backup",
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := os.Open(args[0])
			if err != nil {
				return failf(api.ExitUsage, "%v", err)
			}
			defer f.Close()
			return p.open(c.ctx, func(ctx context.Context, s *store.Store) error {
				rows, err := s.LoadBackup(ctx, f)
				if err == nil {
					c.notef("%d rows restored; the next leader waits before it starts what may still run\n", rows)
				}
				return err
			})
		},
	}
	p.flags(cmd)
	return cmd
}

func (c *cli) markVerb() *cobra.Command {
	p := &place{}
	cmd := &cobra.Command{
		Use: "mark-restored", Short: "Say that the store was rolled back or moved by other means", Args: atMost(0, "none"),
		Long:    "After an etcd snapshot was restored, or a data folder was copied back, the store may be older than what cells do. mark-restored says so, before a server starts on it.",
		Example: "  cantina store mark-restored --data /var/lib/cantina",
		RunE: func(*cobra.Command, []string) error {
			return p.open(c.ctx, func(ctx context.Context, s *store.Store) error {
				term, err := s.MarkRestored(ctx)
				if err == nil {
					c.notef("marked; the next term is of epoch %s\n", fmt.Sprint(term.Epoch))
				}
				return err
			})
		},
	}
	p.flags(cmd)
	return cmd
}
