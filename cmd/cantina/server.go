package main

import (
	"fmt"
	"math"
	"path/filepath"

	"github.com/spf13/cobra"

	"cantina/api"
	"cantina/internal/guard"
	"cantina/internal/node"
	"cantina/internal/run"
	"cantina/spec"
	"cantina/worker"
)

type serverFlags struct {
	log      processLog
	data     string
	witness  string
	print    bool
	readyFD  int
	insecure bool
	socket   string
	group    string
	cfg      node.ServerConfig
	timeouts worker.Timeouts
	etcdCert guard.TLSFiles
	members  memberFlags
	callback string
	kept     retention
	metrics  metricsFlag
}

func serverVerb(c *cli) *cobra.Command {
	var f serverFlags
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run a server: one of several leads, the others stand by",
		Example: "  cantina server --data /var/lib/cantina/server\n" +
			"  cantina server --etcd-endpoints https://etcd1:2379,https://etcd2:2379 --listen 10.0.0.5:7480 --tls-cert s.pem " +
			"--tls-key s.key --tls-ca ca.pem\n" +
			"  cantina server --name a --initial-cluster a=10.0.0.5:7490,b=10.0.0.6:7490,c=10.0.0.7:7490 " +
			"--listen 10.0.0.5:7480 --tls-cert a.pem --tls-key a.key --tls-ca ca.pem\n" +
			"  cantina server --print-timeouts",
		Args: atMost(0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.members.times(cmd.Flags(), &f.timeouts)
			return c.untilSignal(func() error { return runServer(c, f) })
		},
	}
	f.log.add(cmd, "info")
	timeoutFlags(cmd, &f.timeouts)
	p := cmd.Flags()
	p.StringVar(&f.data, "data", c.dataDir(""), "data directory; the store is in server/ below it")
	nameFlag(cmd, &f.cfg.Name, "name of this server")
	p.StringSliceVar(&f.cfg.Listen, "listen", []string{defaultAddress},
		"addresses to listen on for clients and cells: host:port or unix:PATH")
	socketFlags(cmd, &f.socket, &f.group, serverSocket)
	p.StringSliceVar(&f.cfg.Advertise, "advertise", nil,
		"addresses that others use to reach this server (default: those of --listen)")
	p.StringSliceVar(&f.cfg.Hosts, "host", nil, "additional host names that clients may use for the API")
	p.StringVar(&f.cfg.Bistro.Name, "bistro-config", "",
		"configuration file of Bistro to follow: its jobs are those of a domain; read again within 2s of a change")
	p.StringVar(&f.cfg.Bistro.Domain, "bistro-domain", spec.BistroDomain, "with --bistro-config: domain of the jobs")
	p.StringArrayVar(&f.cfg.Bistro.Command, "bistro-command", nil,
		"with --bistro-config: program of jobs without command, and each of its arguments")
	p.BoolVar(&f.insecure, "insecure-listen", false,
		"listen on non-loopback addresses without TLS; anyone who can connect controls the cluster")
	p.StringSliceVar(&f.cfg.Endpoints, "etcd-endpoints", nil,
		"members of an external etcd cluster (default: an embedded member)")
	f.members.add(p)
	p.StringVar(&f.etcdCert.Cert, "etcd-cert", "", "client certificate for etcd")
	p.StringVar(&f.etcdCert.Key, "etcd-key", "", "private key for etcd")
	p.StringVar(&f.etcdCert.CA, "etcd-ca", "", "CA certificate used to verify etcd")
	choiceVar(p, &f.witness, "witness", "", "list", []string{"list", "consensus"},
		"when the initial wait ends: list (all stored cells are back or dead) or consensus (cells agree "+
			"on one worker set; cells accept no new work until then, at most for --longest-promise)")
	p.BoolVar(&f.cfg.NewCluster, "new-cluster", false,
		"new cluster: skip the initial wait, because no cell of an earlier store is alive")
	durationVar(p, &f.cfg.InitialWait, "CAUTION-initial-wait", 0,
		"end the initial wait after this duration even if cells are missing; work may run twice")
	p.BoolVar(&f.cfg.AllowBump, "allow-bump-unhealthy-worker", false,
		"let a new process replace an unhealthy cell of the same name")
	numberVar(p, &f.cfg.TurnoverLimit, "turnover-limit", "", 0, 0, math.MaxInt32,
		"with worker-set consensus: queue further new cells while this many wait; 0 never queues")
	numberVar(p, &f.cfg.BatchReserve, "batch-reserve", "", 0, 0, 100, "percentage of each cell reserved for batch tasks")
	p.BoolVar(&f.cfg.Preempt, "preempt", false,
		"stop instances of services for waiting services and tasks of higher preempt_priority")
	callbackFlag(cmd, &f.callback)
	retentionFlags(cmd, &f.kept)
	f.metrics.add(cmd)
	p.BoolVar(&f.print, "print-timeouts", false, "print all timeouts and their constraints, and exit")
	numberVar(p, &f.readyFD, "ready-fd", "", 0, 0, math.MaxInt32,
		"file descriptor that receives the addresses, one per line, once the API answers")
	cmd.Annotations = map[string]string{runs: "true"}
	cmd.AddCommand(membersVerb(c))
	return cmd
}

func runServer(c *cli, f serverFlags) error {
	if f.print {
		fmt.Fprint(c.Out, f.timeouts.Print())
		return f.timeouts.Validate()
	}
	log, err := f.log.logger(c.Err)
	if err != nil {
		return err
	}
	cfg, err := c.serverConfig(log, f.data, f.timeouts)
	if err != nil {
		return err
	}
	switch stored, err := hasStore(cfg.Dir); {
	case err != nil:
		return failf(api.ExitFailed, "data directory: %w", err)
	case stored && len(f.cfg.Endpoints) > 0:
		return failf(api.ExitUsage, "data directory %s already has a store of its own, but --etcd-endpoints is set: move %s "+
			"away, or omit --etcd-endpoints", f.data, filepath.Join(cfg.Dir, "etcd"))
	}
	cfg.Name, cfg.Listen, cfg.Advertise, cfg.Hosts, cfg.Insecure = f.cfg.Name, f.cfg.Listen, f.cfg.Advertise, f.cfg.Hosts,
		f.insecure
	if cfg.Membership, err = f.members.membership(f.cfg.Name, len(f.cfg.Endpoints) > 0); err != nil {
		return err
	}
	cfg.Bistro = f.cfg.Bistro
	cfg.Endpoints, cfg.NewCluster, cfg.InitialWait = f.cfg.Endpoints, f.cfg.NewCluster, f.cfg.InitialWait
	cfg.AllowBump, cfg.TurnoverLimit, cfg.BatchReserve = f.cfg.AllowBump, f.cfg.TurnoverLimit, f.cfg.BatchReserve
	cfg.Preempt = f.cfg.Preempt
	if f.witness == "consensus" {
		cfg.Witness = worker.WitnessConsensus
	}
	cfg.Tasks = f.kept.policy()
	if cfg.CallbackSecret, err = secretOf(f.callback); err != nil {
		return err
	}
	if cfg.EtcdTLS, err = f.etcdCert.Client(); err != nil {
		return err
	}
	monitor, err := f.metrics.open(c, log, f.insecure, cfg.Token)
	if err != nil {
		return err
	}
	cfg.Metrics, cfg.Health, cfg.Trace = monitor.set(), monitor.health, monitor.trace
	server, err := openServer(c, cfg, f.socket, f.group, serverSocket)
	if err != nil {
		return err
	}
	return runProcess(c, log, nothing{}, f.readyFD, server.Addresses(), func(g *run.Group) {
		g.Add("server", server.Run)
		monitor.run(g)
	})
}
