package main

import (
	"log/slog"

	"github.com/spf13/cobra"

	"cantina/internal/guard"
	"cantina/internal/metric"
	"cantina/internal/node"
	"cantina/internal/run"
)

// metricsFlag is that of the listener for monitoring.
type metricsFlag struct{ address string }

func (m *metricsFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&m.address, "metrics", "",
		"address for monitoring, host:port or unix:PATH: Prometheus metrics at /metrics, profiles at /debug/pprof/ "+
			"(default: none)")
}

// metrics is the listener for monitoring of this process; without one it takes no measurements.
type metrics struct{ served *node.Metrics }

// open listens, protected as the process's other addresses are.
func (m *metricsFlag) open(c *cli, log *slog.Logger, insecure bool, token guard.Token) (metrics, error) {
	if m.address == "" {
		return metrics{}, nil
	}
	served, err := node.OpenMetrics(c.ctx, guard.Listener{Address: m.address, TLS: c.tls, Insecure: insecure, Token: token,
		Flag: "--metrics", Log: log})
	if err != nil {
		return metrics{}, err
	}
	if w := served.Warning(); w != "" {
		log.Warn(w)
	}
	c.sayf("metrics on %s\n", served.Address())
	return metrics{served}, nil
}

func (m metrics) set() *metric.Set {
	if m.served == nil {
		return nil
	}
	return m.served.Set
}

func (m metrics) run(g *run.Group) {
	if m.served != nil {
		g.Add("metrics", m.served.Run)
	}
}
