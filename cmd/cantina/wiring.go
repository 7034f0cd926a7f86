package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cantina/action"
	"cantina/api"
	"cantina/cell"
	"cantina/internal/guard"
	"cantina/internal/node"
	"cantina/internal/run"
	"cantina/internal/secret"
	"cantina/leader"
	"cantina/store/datadir"
	"cantina/task"
	"cantina/worker"
)

// processVerbs are the verbs that run processes on this machine instead of calling
// a server, and those that look at the machine itself.
func processVerbs(c *cli) []*cobra.Command {
	return []*cobra.Command{devVerb(c), serverVerb(c), cellVerb(c), simVerb(c)}
}

// processLog are those of every process.
type processLog struct {
	level  string
	format string
}

func (l *processLog) add(cmd *cobra.Command, level string) {
	choiceVar(cmd.Flags(), &l.level, "log-level", "", level, []string{"debug", "info", "warn", "error"},
		"log level: debug, info, warn or error")
	choiceVar(cmd.Flags(), &l.format, "log-format", "", "text", []string{"text", "json"}, "log format: text or json")
}

// logger is the log of a process that runs until it is stopped.
func (l *processLog) logger(w io.Writer) (*slog.Logger, error) {
	// Otherwise the first line to a closed reader, such as tee at Ctrl-C, kills the process. The
	// signal is caught and discarded, not ignored: child processes would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.level)); err != nil {
		return nil, failf(api.ExitUsage, "--log-level: %v", err)
	}
	opts := &slog.HandlerOptions{Level: level}
	if l.format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return slog.New(slog.NewTextHandler(w, opts)), nil
}

// timeoutFlags are the timeouts of the worker session.
func timeoutFlags(cmd *cobra.Command, t *worker.Timeouts) {
	*t = worker.DefaultTimeouts()
	f := cmd.Flags()
	durationVar(f, &t.Heartbeat, "heartbeat", t.Heartbeat, "interval between heartbeats of a cell")
	durationVar(f, &t.HeartbeatGrace, "heartbeat-grace", t.HeartbeatGrace,
		"silence beyond --heartbeat before a cell is UNHEALTHY")
	durationVar(f, &t.Healthcheck, "healthcheck", t.Healthcheck, "interval between probes of a cell with a real container")
	durationVar(f, &t.HealthcheckGrace, "healthcheck-grace", t.HealthcheckGrace, "maximum duration of a probe")
	durationVar(f, &t.Check, "check-interval", t.Check, "interval between checks of deadlines")
	durationVar(f, &t.Lost, "lost", t.Lost, "time a cell stays UNHEALTHY before it is lost")
	durationVar(f, &t.KillWait, "kill-wait", t.KillWait, "delay between SIGTERM and SIGKILL for work past its deadline")
	durationVar(f, &t.Margin, "margin", t.Margin,
		"longest pause of a machine (e.g. VM suspend) that must be survived safely")
	numberVar(f, &t.DriftPerMille, "clock-drift", "", t.DriftPerMille, 0, 999,
		"maximum difference of the clock rates of two machines, in 1/1000")
	durationVar(f, &t.MaxDiesWithin, "max-dies-within", t.MaxDiesWithin,
		"longest promise that any leader may make to a cell")
	durationVar(f, &t.Lease, "lease", t.Lease, "duration of the election lease")
	durationVar(f, &t.KeepAlive, "keep-alive", t.KeepAlive, "interval between renewals of the lease")
	durationVar(f, &t.LeaseDrift, "lease-drift", t.LeaseDrift, "safety margin that the leader subtracts from its lease")
}

// ready reports that a process serves: it writes the addresses, one per line, to the named
// descriptor, and closes it.
func ready(fd int, addresses []string) error {
	if fd <= 0 {
		return nil
	}
	f := os.NewFile(uintptr(fd), "ready")
	_, err := fmt.Fprintln(f, strings.Join(addresses, "\n"))
	return errors.Join(err, f.Close())
}

// containerEnv is the part of this process's environment that every container gets.
func (c *cli) containerEnv() []action.Variable {
	var env []action.Variable
	for _, name := range []string{"PATH", "LANG", "TZ"} {
		if v := c.Getenv(name); v != "" {
			env = append(env, action.Variable{Name: name, Value: v})
		}
	}
	return env
}

// apiEnv is the environment of work with access to the API at one of addresses.
func (c *cli) apiEnv(addresses []string, t guard.Token) []action.Variable {
	address := tcpOf(addresses)
	if address == "" {
		return nil
	}
	scheme := "http://"
	if c.tls != (guard.TLSFiles{}) {
		scheme = "https://"
	}
	env := []action.Variable{{Name: "CANTINA_API", Value: scheme + address}}
	header := http.Header{}
	t.Way(address, c.tls != guard.TLSFiles{}).Sign(c.ctx, header)
	if len(header) > 0 {
		env = append(env, action.Variable{Name: "CANTINA_TOKEN", Value: t.Reveal()})
	}
	return env
}

// tcpOf returns the first address that is not a socket.
func tcpOf(addresses []string) string {
	for _, a := range addresses {
		if !strings.HasPrefix(a, "unix:") {
			return a
		}
	}
	return ""
}

// cellName is the name of a cell: the one of the flag if it is given, else that of its data directory
// if it has one, or that of the machine.
func cellName(flag *pflag.Flag, dir string) (string, error) {
	name := flag.Value.String()
	if of := string(cell.NameOf(dir)); of != "" && !flag.Changed {
		name = of
	}
	if err := checkName(name); err != nil {
		return "", err
	}
	if err := cell.CheckName(dir, worker.CellName(name)); err != nil {
		return "", failf(api.ExitUsage, "%v", err)
	}
	return name, nil
}

// nameFlag is the flag for the name of a server or cell. Its help is the same on every machine.
func nameFlag(cmd *cobra.Command, to *string, usage string) *pflag.Flag {
	cmd.Flags().StringVar(to, "name", hostName(), usage)
	f := cmd.Flags().Lookup("name")
	f.DefValue = "the host name"
	return f
}

func hostName() string {
	h, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return nameOf(h)
}

// nameOf makes a cell's name of a machine's.
func nameOf(host string) string {
	name := strings.Map(func(r rune) rune {
		if worker.CellName(r).Check() != nil {
			return '-'
		}
		return r
	}, strings.ToLower(strings.SplitN(host, ".", 2)[0]))
	if name == "" {
		return "localhost"
	}
	return name
}

// checkName refuses a name that no cell may have.
func checkName(name string) error {
	if err := worker.CellName(name).Check(); err != nil {
		return failf(api.ExitUsage, "--name: %v", err)
	}
	return nil
}

// dataDir is the default data directory of a process.
func (c *cli) dataDir(name string) string {
	if d := c.Getenv("XDG_DATA_HOME"); d != "" {
		return filepath.Join(d, "cantina", name)
	}
	if os.Geteuid() == 0 {
		return filepath.Join("/var/lib/cantina", name)
	}
	return filepath.Join(c.Getenv("HOME"), ".local/share/cantina", name)
}

// serverConfig has the settings that dev and server share. callbackFlag names the file with the
// secret that signs completion callbacks.
func callbackFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "callback-secret-file", "",
		"file with the key that signs completion callbacks (default: not signed)")
}

// retention is how long ended tasks are kept.
type retention struct {
	age       time.Duration
	perDomain int
}

// retentionFlags are the flags for it.
func retentionFlags(cmd *cobra.Command, r *retention) {
	p := task.Policy{}.WithDefaults()
	durationVar(cmd.Flags(), &r.age, "task-retention", p.Retention,
		"how long to keep a finished task (0: two minutes, or until its callback is delivered)")
	numberVar(cmd.Flags(), &r.perDomain, "tasks-per-domain", "", p.KeepPerDomain, 1, math.MaxInt32,
		"maximum number of finished tasks kept per domain")
}

// policy returns the values of the flags.
func (r retention) policy() task.Policy {
	p := task.Policy{Retention: r.age, KeepPerDomain: r.perDomain}
	if r.age == 0 {
		p.Retention = -1 // the notes' rule
	}
	return p
}

// minSecret is the least length of a secret that signs, in bytes.
const minSecret = 16

// secretOf reads a secret, without the newline at its end; no file is no secret.
func secretOf(file string) (secret.Text, error) {
	if file == "" {
		return secret.Text{}, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return secret.Text{}, failf(api.ExitUsage, "--callback-secret-file: %v", err)
	}
	text = bytes.TrimRight(text, "\r\n")
	if len(text) < minSecret {
		return secret.Text{},
			failf(api.ExitUsage, "--callback-secret-file %s: %d bytes are too short for a secret; at least %d are required",
				file, len(text), minSecret)
	}
	return secret.New(string(text)), nil
}

func (c *cli) serverConfig(log *slog.Logger, data string, t worker.Timeouts) (node.ServerConfig, error) {
	dir, _, err := datadir.Locate(data)
	if err != nil {
		return node.ServerConfig{}, failf(api.ExitUsage, "--data: %v", err)
	}
	token, err := c.processToken()
	if err != nil {
		return node.ServerConfig{}, err
	}
	loader, err := zones()
	return node.ServerConfig{Settings: leader.Settings{Name: hostName(), Cluster: "cantina", Timeouts: t, Build: version,
		ScriptEnv: scriptEnv(os.Environ()), Clock: run.Kernel(), Log: log}, Dir: dir, TLS: c.tls, Token: token,
		Zones: loader}, err
}

// scriptEnv is the environment of node scripts: that of this process without access to the API.
func scriptEnv(all []string) []string {
	return slices.DeleteFunc(all, func(v string) bool { return strings.HasPrefix(v, "CANTINA_TOKEN=") })
}

// processToken is the token that a process shows and wants at loopback ports; the first
// process of a user makes it.
func (c *cli) processToken() (guard.Token, error) {
	t, err := guard.OpenToken(cmp.Or(c.tokenFile, c.defaultTokenFile()))
	if err != nil {
		return t, failf(api.ExitUsage, "--token-file: %w", err)
	}
	return t, nil
}

// clientToken is the token that a client sends: from the variable, or the file. A default file
// that is missing, or not this user's, counts as none: a server that needs a token reports it.
func (c *cli) clientToken() (guard.Token, error) {
	if text := c.Getenv("CANTINA_TOKEN"); text != "" {
		return guard.NewToken(text), nil
	}
	own := c.defaultTokenFile()
	path := cmp.Or(c.tokenFile, own)
	t, err := guard.ReadToken(path)
	if err != nil && path == own && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)) {
		return guard.Token{}, nil
	}
	if err != nil {
		return t, failf(api.ExitUsage, "--token-file: %w", err)
	}
	return t, nil
}

// defaultTokenFile is the default path of the token's file: one for each user.
func (c *cli) defaultTokenFile() string {
	if f := c.Getenv("CANTINA_TOKEN_FILE"); f != "" {
		return f
	}
	return c.dataDir("token")
}
