package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"cantina/api"
	"cantina/internal/guard"
	"cantina/internal/health"
	"cantina/internal/metric"
	"cantina/internal/node"
	"cantina/internal/run"
	"cantina/internal/systemd"
	"cantina/internal/trace"
)

// metricsFlag is that of the listener for monitoring.
type metricsFlag struct{ address, trace string }

func (m *metricsFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&m.address, "metrics", "",
		"address for monitoring, host:port or unix:PATH: Prometheus metrics at /metrics, profiles at /debug/pprof/, "+
			"health at /healthz and /readyz (default: none)")
	cmd.Flags().StringVar(&m.trace, "trace", "",
		"URL of an OpenTelemetry collector (OTLP over HTTP, like http://127.0.0.1:4318) for traces of tasks and "+
			"instances (default: none)")
}

// metrics is the listener for monitoring of this process; without one it takes no measurements. Its
// health is checked in any case.
type metrics struct {
	served *node.Metrics
	health *health.Set
	trace  *trace.Tracer
}

// open listens, protected as the process's other addresses are.
func (m *metricsFlag) open(c *cli, log *slog.Logger, insecure bool, token guard.Token) (metrics, error) {
	out := metrics{health: &health.Set{}}
	var err error
	if m.trace != "" {
		if out.trace, err = trace.Open(c.ctx, m.trace, "cantina", version, log); err != nil {
			return metrics{}, failf(api.ExitUsage, "--trace %s: %w", m.trace, err)
		}
	}
	if m.address == "" {
		return out, nil
	}
	out.served, err = node.OpenMetrics(c.ctx, guard.Listener{Address: m.address, TLS: c.tls, Insecure: insecure,
		Token: token, Flag: "--metrics", Log: log}, out.health)
	if err != nil {
		return metrics{}, err
	}
	if w := out.served.Warning(); w != "" {
		log.Warn(w)
	}
	c.sayf("metrics on %s\n", out.served.Address())
	return out, nil
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
	if m.trace != nil {
		g.Add("trace", m.trace.Run)
	}
	if every := systemd.WatchdogEvery(); every > 0 {
		g.Add("watchdog", func(ctx context.Context) error { return watchdog(ctx, every, m.health) })
	}
}

// watchdog reports to systemd that the process works, as long as it does.
func watchdog(ctx context.Context, every time.Duration, h *health.Set) error {
	for {
		if health.OK(h.Live()) {
			if err := systemd.Notify("WATCHDOG=1"); err != nil {
				return err
			}
		}
		if err := run.Pause(ctx, every); err != nil {
			return err
		}
	}
}
