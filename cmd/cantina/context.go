package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"cantina/api"
	"cantina/internal/guard"
	"cantina/internal/text"
)

// noContext is the name for the addresses without a context.
const noContext = "default"

// contextFile is the content of the file of contexts.
type contextFile struct {
	Current  string          `yaml:"current,omitempty"`
	Contexts []serverContext `yaml:"contexts,omitempty"`
}

// serverContext names the servers of a cluster, and how they are reached. It contains no secret, only
// the names of files.
type serverContext struct {
	Name      string   `yaml:"name"`
	Addresses []string `yaml:"addresses,flow"`
	TokenFile string   `yaml:"token_file,omitempty"`
	TLSCert   string   `yaml:"tls_cert,omitempty"`
	TLSKey    string   `yaml:"tls_key,omitempty"`
	TLSCA     string   `yaml:"tls_ca,omitempty"`
}

func (x *serverContext) tls() guard.TLSFiles {
	return guard.TLSFiles{Cert: x.TLSCert, Key: x.TLSKey, CA: x.TLSCA}
}

// find returns the context of a name, or nil.
func (f *contextFile) find(name string) *serverContext {
	for i := range f.Contexts {
		if f.Contexts[i].Name == name {
			return &f.Contexts[i]
		}
	}
	return nil
}

// names lists the names of all contexts, and "default".
func (f *contextFile) names() []string {
	all := []string{noContext}
	for _, x := range f.Contexts {
		all = append(all, x.Name)
	}
	return all
}

// unknown is the error about a name that no context has.
func (f *contextFile) unknown(name string) error {
	hint := text.DidYouMean(name, f.names())
	if hint == "" {
		hint = "known contexts: " + strings.Join(f.names(), ", ")
	}
	return failf(api.ExitUsage, "unknown context %q; %s", name, hint)
}

// contextPath is the file of contexts of this user; empty = there is none.
func (c *cli) contextPath() string {
	if d := c.Getenv("XDG_CONFIG_HOME"); d != "" {
		return filepath.Join(d, "cantina", "contexts.yaml")
	}
	if home := c.Getenv("HOME"); home != "" {
		return filepath.Join(home, ".config/cantina/contexts.yaml")
	}
	return ""
}

// readContexts reads the file of contexts; a file that does not exist has none.
func (c *cli) readContexts() (*contextFile, error) {
	f := &contextFile{}
	path := c.contextPath()
	data, err := os.ReadFile(path)
	if path == "" || errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err == nil {
		d := yaml.NewDecoder(bytes.NewReader(data))
		d.KnownFields(true)
		if err = d.Decode(f); errors.Is(err, io.EOF) {
			err = nil // an empty file
		}
	}
	if err == nil {
		err = f.check()
	}
	if err != nil {
		return nil, failf(api.ExitUsage, "contexts: %s: %v", path, err)
	}
	return f, nil
}

// check refuses a file whose contexts cannot be used.
func (f *contextFile) check() error {
	seen := map[string]bool{noContext: true}
	for _, x := range f.Contexts {
		switch {
		case !validContext(x.Name):
			return fmt.Errorf("context %q: %s", x.Name, contextRule)
		case seen[x.Name]:
			return fmt.Errorf("context %q is defined twice, or reserved", x.Name)
		case len(x.Addresses) == 0:
			return fmt.Errorf("context %q has no addresses", x.Name)
		}
		seen[x.Name] = true
	}
	if f.Current != "" && !seen[f.Current] {
		return fmt.Errorf("current: unknown context %q", f.Current)
	}
	return nil
}

const contextRule = "use letters, digits, '-', '_' and '.', 63 at most"

func validContext(name string) bool {
	return name != "" && len(name) <= 63 && strings.Trim(name,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == ""
}

// changeContexts reads the file, changes it and replaces it as a whole.
func (c *cli) changeContexts(change func(*contextFile) error) error {
	f, err := c.readContexts()
	if err != nil {
		return err
	}
	if err := change(f); err != nil {
		return err
	}
	data, err := yaml.Marshal(f)
	if err != nil {
		return err
	}
	path := c.contextPath()
	if path == "" {
		return failf(api.ExitUsage, "no directory for contexts: set HOME or XDG_CONFIG_HOME")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".contexts-*")
	if err != nil {
		return err
	}
	_, err = temp.Write(data)
	err = errors.Join(err, temp.Sync(), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temp.Name()) // the error above matters more
	}
	return err
}

// chosenContext returns the context that names the servers: that of --context; without --addr and CANTINA_ADDR that of
// CANTINA_CONTEXT, or the current one. nil = none.
func (c *cli) chosenContext() (*serverContext, error) {
	name := c.context
	if name == "" && (len(c.addr) > 0 || c.Getenv("CANTINA_ADDR") != "") {
		return nil, nil
	}
	if name != "" && len(c.addr) > 0 {
		return nil, failf(api.ExitUsage, "--context and --addr exclude each other")
	}
	if name == "" {
		name = c.Getenv("CANTINA_CONTEXT")
	}
	f, err := c.readContexts()
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = f.Current
	}
	if name == "" || name == noContext {
		return nil, nil
	}
	x := f.find(name)
	if x == nil {
		return nil, f.unknown(name)
	}
	return x, nil
}

// useContext has the client use the servers of the chosen context. Flags for files win over it.
func (c *cli) useContext() error {
	if c.target != "" {
		return nil // it was called before
	}
	x, err := c.chosenContext()
	if x == nil || err != nil {
		return err
	}
	c.addr, c.target = x.Addresses, fmt.Sprintf("context %s (%s)", x.Name, strings.Join(x.Addresses, ","))
	if c.tls == (guard.TLSFiles{}) {
		c.tls = x.tls()
	}
	if x.TokenFile != "" && c.tokenFile == c.defaultTokenFile() {
		c.tokenFile = x.TokenFile
	}
	return nil
}

// noteTarget prints, once and before the first write, to which context it goes.
func (c *cli) noteTarget() {
	if c.target != "" && !c.noted {
		c.noted = true
		c.notef("%s\n", c.target)
	}
}

func contextVerb(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "context", Short: "Name clusters, and select the one that commands use",
		Long: "A context names the servers of a cluster and the files that access needs. Contexts are in\n" +
			"$XDG_CONFIG_HOME/cantina/contexts.yaml, or ~/.config/cantina/contexts.yaml. The file contains no secret.\n\n" +
			"A command uses the servers of --addr, --context, CANTINA_ADDR, CANTINA_CONTEXT or the current context, in\n" +
			"this order. The context \"default\" is none of them. A command that writes prints its context first.",
		Example: "  cantina context set prod --addr 10.0.0.1:7480,10.0.0.2:7480\n" +
			"  cantina context use prod\n  cantina context ls",
		Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(contextLs(c), contextUse(c), contextSet(c), contextRm(c))
	return cmd
}

func contextLs(c *cli) *cobra.Command {
	t := table[*structpb.Struct]{
		id: textOfField("name"),
		columns: []column[*structpb.Struct]{
			{name: "CURRENT", text: textOfField("current")},
			{name: "NAME", whole: true, text: textOfField("name")},
			{name: "ADDRESSES", text: textOfField("addresses")},
			{name: "TOKEN-FILE", wide: true, text: textOfField("token_file")},
			{name: "TLS-CA", wide: true, text: textOfField("tls_ca")},
		},
	}
	return c.reading(&cobra.Command{
		Use: "ls", Short: "List contexts", Args: atMost(0, "none"),
		Long:    "context ls lists the contexts. The one that commands use now is marked *.",
		Example: "  cantina context ls\n  cantina context ls -o json",
		RunE: func(*cobra.Command, []string) error {
			f, err := c.readContexts()
			if err != nil {
				return err
			}
			used, err := c.chosenContext()
			if err != nil {
				return err
			}
			var all []*structpb.Struct
			for _, x := range slices.Insert(slices.Clone(f.Contexts), 0, serverContext{Name: noContext}) {
				mark := ""
				if used != nil && used.Name == x.Name || used == nil && x.Name == noContext {
					mark = "*"
				}
				all = append(all, textFields(map[string]string{"current": mark, "name": x.Name,
					"addresses": strings.Join(x.Addresses, ","), "token_file": x.TokenFile, "tls_ca": x.TLSCA}))
			}
			return list(c, t, all)
		},
	})
}

func contextUse(c *cli) *cobra.Command {
	return c.writing(&cobra.Command{
		Use: "use NAME", Short: "Select the current context", Args: exactly(1, "the name of a context"),
		Long:    "context use selects the context of later commands; \"default\" selects none.",
		Example: "  cantina context use prod\n  cantina context use default",
		RunE: func(_ *cobra.Command, args []string) error {
			err := c.changeContexts(func(f *contextFile) error {
				if args[0] != noContext && f.find(args[0]) == nil {
					return f.unknown(args[0])
				}
				f.Current = args[0]
				return nil
			})
			if err != nil {
				return err
			}
			c.notef("current context: %s\n", args[0])
			return contextIs(c, args[0], "used")
		},
	})
}

// contextIs prints a change of a context, if -o asks for it.
func contextIs(c *cli, name, result string) error {
	return answer(c, factTable("name", "result"), textFields(map[string]string{"name": name, "result": result}))
}

func contextSet(c *cli) *cobra.Command {
	return c.writing(&cobra.Command{
		Use: "set NAME --addr ADDRESS,…", Short: "Create or replace a context", Args: exactly(1, "the name of a context"),
		Long: "context set stores the addresses of --addr and the files of --token-file and of the --tls flags under a\n" +
			"name. A context of that name is replaced. No server is contacted.",
		Example: "  cantina context set prod --addr 10.0.0.1:7480,10.0.0.2:7480 \\\n" +
			"      --tls-cert me.pem --tls-key me.key --tls-ca ca.pem\n" +
			"  cantina context set lab --addr 127.0.0.1:7480 --token-file /srv/lab/token",
		RunE: func(cmd *cobra.Command, args []string) error {
			x := serverContext{Name: args[0], Addresses: c.addr}
			switch {
			case !validContext(x.Name) || x.Name == noContext:
				return failf(api.ExitUsage, "invalid context %q: %s; %q is reserved", x.Name, contextRule, noContext)
			case len(x.Addresses) == 0:
				return failf(api.ExitUsage, "context set needs the addresses of the servers: --addr host:port")
			}
			for flag, to := range map[string]*string{"token-file": &x.TokenFile, "tls-cert": &x.TLSCert, "tls-key": &x.TLSKey,
				"tls-ca": &x.TLSCA} {
				if !cmd.Flags().Changed(flag) {
					continue
				}
				path, err := filepath.Abs(cmd.Flag(flag).Value.String())
				if err != nil {
					return err
				}
				*to = path
			}
			if _, err := x.tls().Client(); err != nil {
				return failf(api.ExitUsage, "context %s: %v", x.Name, err)
			}
			err := c.changeContexts(func(f *contextFile) error {
				if old := f.find(x.Name); old != nil {
					*old = x
				} else {
					f.Contexts = append(f.Contexts, x)
				}
				return nil
			})
			if err != nil {
				return err
			}
			c.notef("context %s stored; select it: cantina context use %s\n", x.Name, x.Name)
			return contextIs(c, x.Name, "stored")
		},
	})
}

func contextRm(c *cli) *cobra.Command {
	return c.writing(&cobra.Command{
		Use: "rm NAME", Short: "Remove a context", Args: exactly(1, "the name of a context"),
		Long:    "context rm removes a context from the file. If it is the current one, no context is current afterwards.",
		Example: "  cantina context rm lab",
		RunE: func(_ *cobra.Command, args []string) error {
			err := c.changeContexts(func(f *contextFile) error {
				if f.find(args[0]) == nil {
					return f.unknown(args[0])
				}
				f.Contexts = slices.DeleteFunc(f.Contexts, func(x serverContext) bool { return x.Name == args[0] })
				if f.Current == args[0] {
					f.Current = ""
				}
				return nil
			})
			if err != nil {
				return err
			}
			c.notef("context %s removed\n", args[0])
			return contextIs(c, args[0], "removed")
		},
	})
}
