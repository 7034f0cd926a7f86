package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"cantina/api"
	"cantina/internal/ca"
)

func caVerb(c *cli) *cobra.Command {
	dir := c.dataDir("ca")
	cmd := &cobra.Command{
		Use: "ca", Short: "Make the certificates of servers, cells and people",
		Long: "A certificate authority in a directory issues the certificates of mutual TLS. Its private key, ca.key,\n" +
			"stays in the directory. Servers, cells and clients need ca.pem, and a certificate and key each. They use\n" +
			"changed files from the next connection on, without a restart. Clients and cells read a changed ca.pem when\n" +
			"they start.\n\n" +
			"Certificates of another authority work as well: see cantina server --help.",
		Example: "  cantina ca init\n  cantina ca issue s1 --host 10.0.0.1\n  cantina ca issue me\n  cantina ca ls",
		Args:    cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVar(&dir, "dir", dir, "directory of the authority")
	cmd.AddCommand(caInit(c, &dir), caIssue(c, &dir), caLs(c, &dir))
	return cmd
}

func caInit(c *cli, dir *string) *cobra.Command {
	name := "cantina"
	cmd := &cobra.Command{
		Use: "init", Short: "Create a certificate authority", Args: cobra.NoArgs,
		Long: "ca init creates the authority: DIR/ca.pem, valid for ten years, and its private key DIR/ca.key. It does\n" +
			"not replace an authority.",
		Example: "  cantina ca init\n  cantina ca init --dir ./ca --name prod",
		RunE: func(*cobra.Command, []string) error {
			a, err := ca.Init(*dir, name, time.Now())
			if err != nil {
				return caFailed(err)
			}
			c.notef("certificate authority %s created in %s, valid until %s\nkeep %s secret, and back it up\n", name, *dir,
				a.Cert().NotAfter.UTC().Format(time.DateOnly), filepath.Join(*dir, "ca.key"))
			return answer(c, factTable("name", "directory"), textFields(map[string]string{"name": name, "directory": *dir}))
		},
	}
	cmd.Flags().StringVar(&name, "name", name, "name of the authority")
	return c.writing(cmd)
}

func caIssue(c *cli, dir *string) *cobra.Command {
	r, out, days := ca.Request{}, ".", 365
	cmd := &cobra.Command{
		Use: "issue NAME", Short: "Issue a certificate", Args: exactly(1, "the name of a server, a cell or a person"),
		Long: "ca issue writes NAME.pem and NAME.key. Give the addresses and host names of a server or a cell with\n" +
			"--host; a certificate without --host is for a client. Renew it with --replace: processes use the new files\n" +
			"at once.",
		Example: "  cantina ca issue s1 --host 10.0.0.1,s1.example.org --out /etc/cantina\n" +
			"  cantina ca issue me --days 30\n  cantina ca issue s1 --host 10.0.0.1 --out /etc/cantina --replace",
		RunE: func(_ *cobra.Command, args []string) error {
			a, err := ca.Open(*dir)
			if err != nil {
				return caFailed(err)
			}
			r.Name, r.Life = args[0], time.Duration(days)*24*time.Hour
			got, err := a.Issue(out, r, time.Now())
			if err != nil {
				return caFailed(err)
			}
			c.notef("certificate of %s, valid until %s; use: --tls-cert %s --tls-key %s --tls-ca %s\n", r.Name,
				got.NotAfter.UTC().Format(time.DateOnly), got.Cert, got.Key, a.CertPath())
			return answer(c, factTable("name", "cert", "key", "expires"), textFields(map[string]string{"name": r.Name,
				"cert": got.Cert, "key": got.Key, "ca": a.CertPath(), "expires": got.NotAfter.UTC().Format(time.RFC3339)}))
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&r.Hosts, "host", nil, "host names and IP addresses of a server or a cell (default: none, a client)")
	f.StringVar(&out, "out", out, "directory of the new files")
	numberVar(f, &days, "days", "", days, 1, 3650, "how long the certificate is valid, in days")
	f.BoolVar(&r.Replace, "replace", false, "replace files of that name")
	return c.writing(cmd)
}

func caLs(c *cli, dir *string) *cobra.Command {
	t := table[*structpb.Struct]{
		id: textOfField("file"),
		columns: []column[*structpb.Struct]{
			{name: "NAME", whole: true, text: textOfField("name")},
			{name: "USE", text: textOfField("use")},
			{name: "HOSTS", text: textOfField("hosts")},
			{name: "EXPIRES", text: textOfField("expires")},
			{name: "FILE", whole: true, text: textOfField("file")},
		},
	}
	return c.reading(&cobra.Command{
		Use: "ls [DIR ...]", Short: "List certificates and when they expire",
		Long:    "ca ls lists the certificates (*.pem) in directories; by default those of the authority's.",
		Example: "  cantina ca ls\n  cantina ca ls /etc/cantina -o json",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{*dir}
			}
			var all []*structpb.Struct
			for _, d := range args {
				found, err := ca.List(d)
				if err != nil {
					return caFailed(err)
				}
				for _, x := range found {
					all = append(all, textFields(map[string]string{"name": x.Name, "use": x.Use, "hosts": x.Hosts,
						"expires": x.NotAfter.UTC().Format(time.RFC3339), "file": x.File}))
				}
			}
			return list(c, t, all)
		},
	})
}

// caFailed adds the remedy to an error of an authority.
func caFailed(err error) error {
	switch {
	case errors.Is(err, ca.ErrNoAuthority):
		return failf(api.ExitUsage, "%v; create one: cantina ca init, or name its directory with --dir", err)
	case errors.Is(err, ca.ErrExists):
		return failf(api.ExitUsage, "%v; a certificate is replaced with --replace, an authority never", err)
	case errors.Is(err, ca.ErrBad), errors.Is(err, fs.ErrNotExist):
		return failf(api.ExitUsage, "%v", err)
	}
	return failf(api.ExitFailed, "%v", fmt.Errorf("certificates: %w", err))
}
