package main

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cantina/api"
	"cantina/fanout"
	"cantina/internal/gateway"
	"cantina/internal/guard"
	"cantina/internal/run"
	"cantina/internal/secret"
	pb "cantina/wire/cantinav1"
)

// manyFlags are those of the web UI over several servers.
type manyFlags struct {
	servers  string
	allow    []string
	listen   string
	deadline time.Duration
	readyFD  int
}

func (f *manyFlags) add(cmd *cobra.Command) {
	p := cmd.Flags()
	p.StringVar(&f.servers, "servers", "",
		"serve one page for these independent servers until Ctrl-C: a list host:port,host:port, "+
			"or a file of them, one per line")
	p.StringSliceVar(&f.allow, "servers-allow", nil,
		"with --servers: servers that the page may add, by suffix of the name (.example.com) or network (10.0.0.0/8)")
	p.StringVar(&f.listen, "listen", "127.0.0.1:7490", "with --servers: address of the page")
	durationVar(p, &f.deadline, "server-timeout", fanout.Deadline, "with --servers: longest wait for one server")
	numberVar(p, &f.readyFD, "ready-fd", "", 0, 0, math.MaxInt32,
		"with --servers: file descriptor that receives the address once the page is served")
}

// list reads the servers of a file, or of the flag itself.
func (f *manyFlags) list() ([]string, error) {
	text, err := os.ReadFile(f.servers)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !strings.Contains(f.servers, "/"), strings.HasPrefix(f.servers, "unix:"):
		text = []byte(f.servers)
	case err != nil:
		return nil, failf(api.ExitUsage, "--servers: %v", err)
	}
	servers := gateway.ParseServers(string(text))
	if len(servers) == 0 {
		return nil, failf(api.ExitUsage, "--servers: %s has no servers; write one host:port per line", f.servers)
	}
	for _, s := range servers {
		if err := gateway.CheckServer(s); err != nil {
			return nil, failf(api.ExitUsage, "--servers: %v", err)
		}
	}
	return servers, nil
}

// run serves the page until a signal. It prints the link like the verb without servers.
func (f *manyFlags) run(c *cli, printLink func(url string) error) error {
	servers, err := f.list()
	if err != nil {
		return err
	}
	allow, err := gateway.ParseAllow(f.allow)
	if err != nil {
		return failf(api.ExitUsage, "--servers-allow: %v", err)
	}
	conf, err := c.tls.Client()
	if err != nil {
		return failf(api.ExitUsage, "%v", err)
	}
	own, err := c.processToken()
	if err != nil {
		return err
	}
	token, err := c.clientToken() // of the servers: perhaps CANTINA_TOKEN
	if err != nil {
		return err
	}
	log, err := (&processLog{level: "warn", format: "text"}).logger(c.Err)
	if err != nil {
		return err
	}
	keys := guard.NewKeys(run.Kernel().Boot)
	door, err := guard.Listener{Address: f.listen, TLS: c.tls, Token: own, Keys: keys, Log: log}.Open(c.ctx)
	if errors.Is(err, guard.ErrInsecure) {
		return failf(api.ExitUsage, "--listen: %s %w; give --tls-cert, --tls-key and --tls-ca, or listen on 127.0.0.1 "+
			"and forward that port (ssh -L)", f.listen, guard.ErrInsecure)
	}
	if err != nil {
		return err
	}
	g := gateway.New(gateway.Servers{List: servers, Allow: allow, TLS: conf, Token: token, Deadline: f.deadline,
		Build: version})
	defer g.Close()
	key := secret.Text{}
	if door.NeedsToken() {
		key = keys.New()
	}
	url, err := browserLink(door.Address(), &pb.CreateBrowserKeyResponse{Key: key.Reveal(), Tls: conf != nil},
		gateway.PagePath)
	if err == nil {
		err = printLink(url)
	}
	if err != nil {
		return errors.Join(err, door.Close())
	}
	return runProcess(c, log, nothing{}, f.readyFD, []string{door.Address()}, func(parts *run.Group) {
		parts.Add("page", func(ctx context.Context) error { return door.Serve(ctx, g.Handler()) })
	})
}
