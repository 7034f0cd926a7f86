package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"cantina/api"
	"cantina/internal/node"
	"cantina/store"
	"cantina/store/datadir"
)

func backupVerb(c *cli) *cobra.Command {
	p, force := &place{}, false
	cmd := &cobra.Command{
		Use: "backup FILE", Short: "Write the whole store to a file", Args: exactly(1, "FILE"),
		Long: "backup writes a consistent copy of all rows, verifies it, and then renames it to FILE. It does " +
			"not disturb a running server. With --data, the running server takes the backup; run the verb " +
			"on its machine and as its user. With --etcd-endpoints, backup reads that etcd. An existing " +
			"FILE is kept unless --force is given.",
		Example: "  cantina store backup --data /var/lib/cantina before.backup",
		RunE: func(_ *cobra.Command, args []string) error {
			name := args[0]
			if err := free(name, force); err != nil {
				return err
			}
			return writeBackup(c, name, force, func(ctx context.Context, w io.Writer) error { return p.backup(ctx, w) })
		},
	}
	p.flags(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "overwrite FILE")
	return c.writing(cmd)
}

// free refuses a name that is taken.
func free(name string, force bool) error {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return failf(api.ExitUsage, "%v", err)
	case !info.Mode().IsRegular():
		return failf(api.ExitUsage, "%s is not a file", name)
	case !force:
		return failf(api.ExitUsage, "%s exists; choose another name, or overwrite it with --force", name)
	}
	return nil
}

// backup writes a backup of the store, also of one that a running server has.
func (p *place) backup(ctx context.Context, w io.Writer) error {
	err := p.open(ctx, func(ctx context.Context, s *store.Store) error {
		_, _, err := s.Backup(ctx, w)
		return err
	})
	if !errors.Is(err, errRunning) {
		return err
	}
	path, _, lerr := datadir.Locate(p.data)
	if lerr != nil {
		return lerr
	}
	a, aerr := node.RunningBackup(ctx, path)
	if aerr != nil {
		return failf(api.ExitFailed, "%v; backup failed: %v", err, aerr)
	}
	_, err = io.Copy(w, a)
	return errors.Join(err, a.Close())
}

// backupTries is how often a backup is started again if its revision was compacted meanwhile.
const backupTries = 5

// writeBackup writes a temporary file beside the file, verifies it, and renames it, so that an
// incomplete or damaged backup never has the name.
func writeBackup(c *cli, name string, force bool, take func(context.Context, io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return failf(api.ExitUsage, "%v", err)
	}
	for try := 1; ; try++ {
		err = take(c.ctx, f)
		if !errors.Is(err, store.ErrCompacted) || try == backupTries {
			break
		}
		if _, err = f.Seek(0, io.SeekStart); err == nil {
			err = f.Truncate(0)
		}
		if err != nil {
			break
		}
	}
	var info store.BackupInfo
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		info, err = verify(f, nil)
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = install(f.Name(), name, force)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	c.notef("%s: %s\n", name, described(info))
	return backupAnswer(c, name, info)
}

// backupAnswer names unreadable rows of a backup, and prints the backup if -o asks for it.
func backupAnswer(c *cli, name string, info store.BackupInfo) error {
	noteUnreadable(c, info)
	return answer(c, factTable("file", "rows", "revision"),
		fact(map[string]any{"file": name, "rows": int(info.Rows), "revision": int(info.Revision)}))
}

// install durably gives the file its name, which must not exist.
func install(from, name string, force bool) error {
	if err := free(name, force); err != nil {
		return err
	}
	if err := os.Rename(from, name); err != nil {
		return failf(api.ExitFailed, "%v", err)
	}
	d, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// verify reads a backup from its beginning to its end, and goes back to its beginning. see, when
// set, is given each row.
func verify(f *os.File, see func(store.Row)) (store.BackupInfo, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return store.BackupInfo{}, err
	}
	info, err := store.VerifyBackup(f, func(r store.Row) error {
		if see != nil {
			see(r)
		}
		return node.CheckRow(r)
	})
	if err != nil {
		return info, failf(api.ExitFailed, "%s: %v", f.Name(), err)
	}
	_, err = f.Seek(0, io.SeekStart)
	return info, err
}

func described(i store.BackupInfo) string {
	return fmt.Sprintf("%d rows at revision %d of cluster %s, term %s, taken %s", i.Rows, i.Revision, i.Cluster, i.Term,
		i.Taken.UTC().Format(time.RFC3339))
}

// noteUnreadable names the rows of a good backup that mean nothing to this version.
func noteUnreadable(c *cli, i store.BackupInfo) {
	const named = 5
	for _, key := range i.Unreadable[:min(named, len(i.Unreadable))] {
		c.notef("WARNING: row %s cannot be read; it is damaged, or from a newer version (cantina store "+
			"quarantine show)\n", key)
	}
	if more := len(i.Unreadable) - named; more > 0 {
		c.notef("WARNING: and %d more rows\n", more)
	}
}

func verifyVerb(c *cli) *cobra.Command {
	return c.writing(&cobra.Command{
		Use: "verify FILE", Short: "Verify a backup file", Args: exactly(1, "FILE"),
		Long: "verify checks the format, the checksum over all rows and each single row of a backup, " +
			"and restores nothing.",
		Example: "  cantina store verify before.backup",
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := os.Open(args[0])
			if err != nil {
				return failf(api.ExitUsage, "%v", err)
			}
			defer f.Close()
			info, err := verify(f, nil)
			if err != nil {
				return err
			}
			c.notef("%s is valid: %s\n", args[0], described(info))
			return backupAnswer(c, args[0], info)
		},
	})
}

func restoreVerb(c *cli) *cobra.Command {
	p, renew := &place{empty: true}, false
	cmd := &cobra.Command{
		Use: "restore FILE", Short: "Restore a backup into an empty store", Args: exactly(1, "FILE"),
		Long: "restore verifies a backup and writes it to an empty store; a store with rows is refused. Use " +
			"the same --data as for dev or server. The backup may be older than the work on cells. So the " +
			"next leader waits for every cell, at most for the longest promise, before it starts work that " +
			"may still run. The store keeps the cluster identity and its cells; --new-identity makes it a " +
			"second cluster.",
		Example: "  cantina store restore --data /var/lib/cantina-new before.backup",
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := os.Open(args[0])
			if err != nil {
				return failf(api.ExitUsage, "%v", err)
			}
			defer f.Close()
			alone := false
			info, err := verify(f, func(r store.Row) { alone = alone || node.Alone(r) && !renew })
			if err != nil {
				return err
			}
			return p.open(c.ctx, func(ctx context.Context, s *store.Store) error {
				load := s.LoadBackup
				if renew {
					load = s.LoadBackupAsNew
				}
				rows, err := load(ctx, f)
				if err != nil {
					return err
				}
				c.notef("%d rows restored; the next leader waits for its cells before it starts work that may still run\n", rows)
				switch {
				case p.data == "":
				case alone:
					c.notef("store restored to %s; start it with: cantina dev --data %s (it belongs to a dev; for a server, "+
						"restore with --new-identity)\n", filepath.Join(p.data, "server"), p.data)
				default:
					c.notef("store restored to %s; start it with: cantina dev --data %s, or cantina server --data %s\n",
						filepath.Join(p.data, "server"), p.data, p.data)
				}
				return backupAnswer(c, args[0], info)
			})
		},
	}
	p.flags(cmd)
	cmd.Flags().BoolVar(&renew, "new-identity", false,
		"create a new cluster identity: cells of the original cluster do not belong to it")
	return c.writing(cmd)
}
