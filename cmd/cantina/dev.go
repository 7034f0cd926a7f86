package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cantina/api"
	"cantina/executor/terminal"
	"cantina/internal/guard"
	"cantina/internal/node"
	"cantina/internal/run"
	"cantina/internal/systemd"
	"cantina/internal/text"
	"cantina/worker"
)

type devFlags struct {
	log     processLog
	data    string
	listen  string
	socket  string
	group   string
	name    string
	given   *pflag.Flag // --name
	readyFD int

	insecure bool
	callback string
	kept     retention
	stuck    stuckFlags
	user     string
	secrets  string
	volumes  []string
	storage  storageFlags
	metrics  metricsFlag
}

func devVerb(c *cli) *cobra.Command {
	var f devFlags
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a server and one cell in one process, on an embedded store",
		Long: "dev is for one machine: server and cell in one process, with an embedded store in the data " +
			"directory. Ctrl-C stops all work, except work with on_cell_restart: keep. The next dev on the " +
			"same data directory takes that over; to end it, use cantina rm or stop first. A second Ctrl-C " +
			"kills at once.",
		Example: "  cantina dev                       # data in the default directory\n" +
			"  cantina dev --data /tmp/try       # elsewhere",
		Args: atMost(0, "none"),
		RunE: func(*cobra.Command, []string) error { return c.untilSignal(func() error { return runDev(c, f) }) },
	}
	f.log.add(cmd, "warn") // the person who started it reads it beside its other messages
	cmd.Flags().StringVar(&f.data, "data", c.dataDir("dev"), "data directory")
	cmd.Flags().StringVar(&f.listen, "listen", defaultAddress, "address of the API")
	socketFlags(cmd, &f.socket, &f.group, devSocket)
	f.given = nameFlag(cmd, &f.name, "name of the cell; a data directory keeps its own")
	cmd.Flags().BoolVar(&f.insecure, "insecure-listen", false,
		"listen on a non-loopback address without TLS; anyone who can connect controls this machine")
	callbackFlag(cmd, &f.callback)
	retentionFlags(cmd, &f.kept)
	f.stuck.add(cmd)
	defaultUserFlag(cmd, &f.user)
	secretsFlag(cmd, &f.secrets)
	volumesFlag(cmd, &f.volumes)
	f.storage.add(cmd)
	f.metrics.add(cmd)
	numberVar(cmd.Flags(), &f.readyFD, "ready-fd", "", 0, 0, math.MaxInt32,
		"file descriptor that receives the addresses, one per line, once the API answers")
	return cmd
}

// socketFlags are those of the Unix socket of dev and server; name is its file's.
func socketFlags(cmd *cobra.Command, socket, group *string, name string) {
	cmd.Flags().StringVar(socket, "socket", "", "Unix socket of the API; none disables it (default: "+name+
		" in the runtime directory, the first that clients try)")
	cmd.Flags().StringVar(group, "socket-group", "",
		"group with access to the Unix socket, which is full control (default: the owner only)")
}

// socketOf is where dev or server listens for clients of this machine; empty = nowhere.
func socketOf(c *cli, asked, group, name string) (string, error) {
	if asked == "none" {
		return "", nil
	}
	if asked != "" {
		return asked, nil
	}
	dir := c.runtimeDirs()[0]
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("socket directory: %w; choose another path with --socket", err)
	}
	if group != "" {
		if err := guard.ShareDirectory(dir, group); err != nil {
			return "", failf(api.ExitUsage, "--socket-group: %w", err)
		}
	}
	return filepath.Join(dir, name), nil
}

// openServer opens a server on its addresses and its socket. Where the socket's place was not
// chosen and another process has it, the server is reached by its other addresses alone.
func openServer(c *cli, cfg node.ServerConfig, asked, group, name string) (*node.Server, error) {
	socket, err := socketOf(c, asked, group, name)
	if err != nil {
		return nil, err
	}
	if socket == "" {
		return node.OpenServer(c.ctx, cfg)
	}
	plain := cfg.Listen
	cfg.Listen, cfg.Group = append(slices.Clone(plain), "unix:"+socket), group
	server, err := node.OpenServer(c.ctx, cfg)
	if asked == "" && errors.Is(err, guard.ErrAddressInUse) && strings.Contains(err.Error(), socket) {
		c.sayf("socket %s belongs to another running server, which clients use by default; reach this one with --addr and "+
			"an address below, or choose a socket with --socket\n", socket)
		cfg.Listen = plain
		return node.OpenServer(c.ctx, cfg)
	}
	return server, err
}

func runDev(c *cli, f devFlags) error {
	log, err := f.log.logger(c.Err)
	if err != nil {
		return err
	}
	if f.name, err = cellName(f.given, filepath.Join(f.data, "cell")); err != nil {
		return err
	}
	var work node.CellConfig
	if err := f.storage.config(&work); err != nil {
		return err
	}
	if work.RebootCommand, err = f.stuck.command(); err != nil {
		return err
	}
	cfg, err := c.serverConfig(log, f.data, worker.DefaultTimeouts())
	if err != nil {
		return err
	}
	// One directory, one process, one machine: no cell of an older store can be alive.
	cfg.NewCluster, cfg.NoDeadline = true, true
	h := &lateHost{} // its cell is there before the server runs, unless there is too little room
	cfg.Own = h.Dir
	cfg.Tasks = f.kept.policy()
	if cfg.CallbackSecret, err = secretOf(f.callback); err != nil {
		return err
	}
	cfg.Listen, cfg.Insecure = []string{f.listen}, f.insecure
	monitor, err := f.metrics.open(c, log, f.insecure, cfg.Token)
	if err != nil {
		return err
	}
	cfg.Metrics, work.Metrics = monitor.set(), monitor.set()
	cfg.Health, work.Health = monitor.health, monitor.health
	cfg.Trace, work.Trace = monitor.trace, monitor.trace
	server, err := openServer(c, cfg, f.socket, f.group, devSocket)
	if err != nil {
		return err
	}
	work.Name, work.Dir, work.Leader = worker.CellName(f.name), filepath.Join(f.data, "cell"), server.Leader
	work.Env, work.API, work.Timeouts, work.StuckAfter = c.containerEnv(), c.apiEnv(server.Addresses(), cfg.Token),
		cfg.Timeouts, f.stuck.after
	work.User, work.Secrets, work.Volumes, work.Reaper = f.user, f.secrets, f.volumes, c.Reaper
	work.OnSession = c.readyNote(server.Addresses())
	failed := make(chan struct{})
	work.Abandoned = failed
	serve := atOnce(log, server.Run, func() { close(failed) })
	work.Build, work.Clock, work.Log = version, cfg.Clock, log
	if !server.HasRoom() {
		return runProcess(c, log, h, f.readyFD, server.Addresses(), func(g *run.Group) {
			g.Add("server", serve)
			g.Add("cell", func(ctx context.Context) error { return lateCell(ctx, server, work, h) })
			monitor.run(g)
		})
	}
	cell, err := node.OpenCell(c.ctx, work)
	if err != nil {
		return errors.Join(err, server.Close())
	}
	h.set(cell)
	server.Directory().SetLocal(worker.CellName(f.name), cell.Local())
	return runProcess(c, log, cell, f.readyFD, server.Addresses(), func(g *run.Group) {
		g.Add("server", serve)
		g.Add("cell", cell.Run)
		monitor.run(g)
	})
}

// readyNote returns a function that prints, at the first healthy session, that work is accepted now and
// how to reach this server.
func (c *cli) readyNote(addresses []string) func(worker.State) {
	note := sync.OnceFunc(func() {
		found, named := addresses[0], " --addr "+addresses[0]
		if own := "unix:" + filepath.Join(c.runtimeDirs()[0], devSocket); slices.Contains(addresses, own) {
			named = "" // where clients look by themselves
		}
		c.sayf("ready on %s; try: cantina%s run -- echo hello\n", found, named)
	})
	return func(s worker.State) {
		if s == worker.Healthy {
			note()
		}
	}
}

// atOnce logs why a part has failed, and calls failed, before the others end, which may take a while.
func atOnce(log *slog.Logger, part func(context.Context) error, failed func()) func(context.Context) error {
	return func(ctx context.Context) error {
		err := part(ctx)
		if err != nil && ctx.Err() == nil {
			log.Error("server failed; stopping", "error", err)
			failed()
		}
		return err
	}
}

// nothing is the host of a process without containers.
type nothing struct{}

// Freeze implements terminal.Host.
func (nothing) Freeze() error { return nil }

// Thaw implements terminal.Host.
func (nothing) Thaw() error { return nil }

// Abort implements terminal.Host.
func (nothing) Abort() {}

// Containers implements host.
func (nothing) Containers() (ending, staying int) { return 0, 0 }

// host is the part that the terminal controls: the executor, and the work to end.
type host interface {
	terminal.Host
	Containers() (ending, staying int)
}

// noteLeaving prints what the first Ctrl-C waits for, and the work that it leaves running.
func noteLeaving(c *cli, h host) {
	ending, staying := h.Containers()
	notice := "\nstopping\n"
	if ending > 0 {
		notice = fmt.Sprintf("\n"+
			"stopping %s; press Ctrl-C again to kill at once\n", text.Count(ending, "container"))
	}
	if staying > 0 {
		notice += fmt.Sprintf("%s on (on_cell_restart: keep); start this again on the same data directory to manage what "+
			"was kept.\n"+
			"Until then it cannot be stopped from here, and a service that is not exclusive may get another copy elsewhere\n",
			text.CountAs(staying, "container runs", "containers run"))
	}
	c.sayf("%s", notice)
}

// untilSignal makes a verb handle its signals from the start: a signal during the opening ends that
// in order.
func (c *cli) untilSignal(verb func() error) error {
	ctx, stop := context.WithCancel(c.ctx)
	defer stop()
	opened, over := make(chan struct{}), make(chan struct{})
	c.ctx, c.signals = ctx, terminal.Listen()
	defer signal.Stop(c.signals)
	go func() {
		defer close(over)
		terminal.Opening(opened, c.signals, stop)
	}()
	c.opened = sync.OnceFunc(func() { close(opened); <-over })
	err := verb()
	if c.opened(); ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // stopped before it had begun
	}
	return err
}

// runProcess runs the parts of a process until a signal: the first stops it in order, a second one
// kills running work, Ctrl-Z freezes it and fg thaws.
func runProcess(c *cli, log *slog.Logger, h host, readyFD int, addresses []string, parts func(*run.Group)) error {
	c.opened()
	ctx, stop := context.WithCancel(c.ctx)
	defer stop()
	served, end := context.WithCancel(context.WithoutCancel(c.ctx))
	done := make(chan error, 1)
	go func() { done <- terminal.Serve(served, c.signals, h, func() { noteLeaving(c, h); stop() }, log) }()
	var g run.Group
	parts(&g)
	g.Add("ready", func(ctx context.Context) error {
		for _, a := range addresses {
			c.sayf("listening on %s\n", a)
		}
		if err := errors.Join(ready(readyFD, addresses), systemd.Notify("READY=1")); err != nil {
			return err
		}
		<-ctx.Done()
		return errors.Join(ctx.Err(), systemd.Notify("STOPPING=1"))
	})
	err := g.Run(ctx)
	end()
	return errors.Join(err, <-done)
}
