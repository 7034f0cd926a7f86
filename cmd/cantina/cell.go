package main

import (
	"errors"
	"log/slog"
	"maps"
	"math"
	"net"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cantina/api"
	"cantina/cell"
	"cantina/internal/node"
	"cantina/internal/run"
	"cantina/placement"
	"cantina/resource"
	"cantina/store/datadir"
	"cantina/worker"
)

type cellFlags struct {
	log       processLog
	data      string
	name      string
	given     *pflag.Flag // --name
	servers   []string
	listen    string
	advertise string
	host      string
	insecure  bool
	readyFD   int
	offer     placement.State
	capacity  map[string]string
	timeouts  worker.Timeouts
	drain     time.Duration
	simulate  int
	stuck     stuckFlags
	user      string
	secrets   string
	volumes   []string
	storage   storageFlags
	metrics   metricsFlag
}

func cellVerb(c *cli) *cobra.Command {
	var f cellFlags
	cmd := &cobra.Command{
		Use:   "cell",
		Short: "Run the agent of this machine: it runs the work",
		Example: "  cantina cell --servers 127.0.0.1:7480\n" +
			"  cantina cell --servers s1:7480,s2:7480 --name db7 --zone z1 --capacity gpu=2 --listen 10.0.0.7:7481 --tls-cert " +
			"c.pem --tls-key c.key --tls-ca ca.pem",
		Args: atMost(0, "none"),
		RunE: func(*cobra.Command, []string) error { return c.untilSignal(func() error { return runCell(c, f) }) },
	}
	f.log.add(cmd, "info")
	timeoutFlags(cmd, &f.timeouts)
	p := cmd.Flags()
	p.StringVar(&f.data, "data", c.dataDir("cell"), "data directory")
	f.given = nameFlag(cmd, &f.name,
		"name of the cell; only one process at a time can use it; a data directory keeps its own")
	p.StringSliceVar(&f.servers, "servers", []string{defaultAddress}, "addresses of the servers: host:port or unix:PATH")
	p.StringVar(&f.listen, "listen", "127.0.0.1:0",
		"address to listen on for calls from the leader: host:port or unix:PATH")
	p.StringVar(&f.advertise, "advertise", "", "address that the leader calls (default: the one of --listen)")
	p.StringVar(&f.host, "instance-host", "", "address at which clients reach instances (default 127.0.0.1)")
	p.BoolVar(&f.insecure, "insecure-listen", false,
		"listen on a non-loopback address without TLS; anyone who can connect controls this machine")
	p.StringVar(&f.offer.Zone, "zone", "", "availability zone")
	p.StringSliceVar(&f.offer.Stacks, "stack", nil, "stacks that this cell provides")
	p.StringSliceVar(&f.offer.RequiredTags, "required-tag", nil, "placement tags that work must require to run here")
	p.StringSliceVar(&f.offer.OptionalTags, "optional-tag", nil, "placement tags that work can require")
	p.StringToStringVar(&f.offer.Labels, "label", nil, "labels of the cell: NAME=VALUE")
	p.StringSliceVar(&f.offer.Taints, "taint", nil, "taints: only work that tolerates them runs here")
	p.StringToStringVar(&f.capacity, "capacity", nil,
		"amounts of resources that replace or extend the detected ones: NAME=NUMBER")
	longerVar(p, &f.drain, "drain-timeout", 10*time.Minute, "maximum duration of a drain")
	numberVar(p, &f.simulate, "simulate", "", 0, 0, maxSimulated,
		"simulate this many cells in this process (NAME-0, NAME-1, ...) with containers in memory")
	f.stuck.add(cmd)
	defaultUserFlag(cmd, &f.user)
	secretsFlag(cmd, &f.secrets)
	volumesFlag(cmd, &f.volumes)
	f.storage.add(cmd)
	f.metrics.add(cmd)
	numberVar(p, &f.readyFD, "ready-fd", "", 0, 0, math.MaxInt32,
		"file descriptor that receives the address once the cell listens")
	return cmd
}

func runCell(c *cli, f cellFlags) error {
	log, err := f.log.logger(c.Err)
	if err != nil {
		return err
	}
	if err := f.timeouts.Validate(); err != nil {
		return err
	}
	reboot, err := f.stuck.command()
	if err != nil {
		return err
	}
	if f.name, err = cellName(f.given, f.data); err != nil {
		return err
	}
	if err := datadir.ForCell(f.data); err != nil {
		return failf(api.ExitUsage, "--data: %v", err)
	}
	token, err := c.processToken()
	if err != nil {
		return err
	}
	f.offer.Host = hostName()
	cfg := node.CellConfig{Name: worker.CellName(f.name), Dir: f.data, Servers: f.servers, Listen: f.listen,
		Advertise: f.advertise, TLS: c.tls, Token: token,
		Insecure: f.insecure, Offer: f.offer, Host: f.host, Env: c.containerEnv(), API: c.apiEnv(f.servers,
			token), Timeouts: f.timeouts,
		DrainTimeout: f.drain, StuckAfter: f.stuck.after, RebootCommand: reboot, User: f.user, Secrets: f.secrets,
		Volumes: f.volumes, Build: version, Reaper: c.Reaper, Clock: run.Kernel(), Log: log}
	if err := f.storage.config(&cfg); err != nil {
		return err
	}
	for name, text := range f.capacity {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return failf(api.ExitUsage, "--capacity %s=%s: must be a whole number, 0 or more", name, text)
		}
		if cfg.Capacity == nil {
			cfg.Capacity = resource.Amounts{}
		}
		cfg.Capacity[name] = n
	}
	monitor, err := f.metrics.open(c, log, f.insecure, token)
	if err != nil {
		return err
	}
	cfg.Metrics, cfg.Health, cfg.Trace = monitor.set(), monitor.health, monitor.trace
	if f.simulate != 0 {
		return runSimulatedCell(c, cfg, f, log, monitor)
	}
	cell, err := node.OpenCell(c.ctx, cfg)
	if err != nil {
		return err
	}
	return plainEnd(runProcess(c, log, cell, f.readyFD, []string{cell.Address()},
		func(g *run.Group) {
			g.Add("cell", cell.Run)
			monitor.run(g)
		}))
}

// plainEnd is the leader's reason without the wrapping errors of the process.
func plainEnd(err error) error {
	var displaced *cell.Displaced
	if errors.As(err, &displaced) {
		return displaced
	}
	return err
}

// runSimulatedCell runs many cells whose containers exist only in memory.
func runSimulatedCell(c *cli, cfg node.CellConfig, f cellFlags, log *slog.Logger, monitor metrics) error {
	_, port, err := net.SplitHostPort(f.listen)
	switch {
	case err != nil || port != "0" || f.advertise != "":
		return failf(api.ExitUsage, "--simulate needs a separate address per cell: use --listen HOST:0 without --advertise")
	}
	// Each has the amounts of a medium machine, unless --capacity is given.
	amounts := resource.Amounts{resource.MemoryMB: 65536, resource.CPUMilli: 32000, resource.DiskMB: 1 << 20,
		resource.Containers: 250}
	maps.Copy(amounts, cfg.Capacity)
	cfg.Capacity = amounts
	all, err := node.OpenSimulation(c.ctx, cfg, f.simulate)
	if err != nil {
		return err
	}
	c.sayf("simulating %d cells, %s-0 to %s-%d\n", f.simulate, f.name, f.name, f.simulate-1)
	return runProcess(c, log, nothing{}, f.readyFD, []string{all.Address()},
		func(g *run.Group) {
			g.Add("simulation", all.Run)
			monitor.run(g)
		})
}

// maxSimulated limits the cells of one process: each has its own address.
const maxSimulated = 20000
