package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"cantina/api"
	"cantina/internal/guard"
	"cantina/spec"
)

// environment is everything that a verb has from outside; tests hand in their own.
type environment struct {
	In                    io.Reader
	Out, Err              io.Writer
	Getenv                func(string) string
	LookupEnv             func(string) (string, bool)
	Now                   func() time.Time
	InTTY, OutTTY, ErrTTY bool
	Width, Height         func() int
	// Interrupts returns a channel that gets each Ctrl-C, and a function that ends it.
	Interrupts func() (<-chan os.Signal, func())
	// Ticks, if set, replaces the clock that triggers another check of a reason.
	Ticks <-chan time.Time
	// Reaper is the program that cells start as their reaper; empty = the embedded one.
	Reaper string
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

func terminalWidth() int {
	w, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		return 80
	}
	return w
}

func terminalHeight() int {
	_, h, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		return 24
	}
	return h
}

func interrupts() (<-chan os.Signal, func()) {
	c := make(chan os.Signal, 2)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	return c, func() { signal.Stop(c) }
}

// cli is one invocation. It connects to the servers, sends requests and prints; verbs are
// functions of it, in the file of their noun.
type cli struct {
	environment
	connection
	printing
	ctx context.Context
	// signals are those of a verb that runs until a signal ends it. opened ends its opening: from
	// then on a signal stops the running work.
	signals chan os.Signal
	opened  func()

	yes     bool
	timeout time.Duration
	// deadline is the end of --timeout, once it has begun.
	deadline time.Time
}

// connection is how an invocation reaches the servers; the client is made when a verb first calls one.
type connection struct {
	addr       []string
	context    string // of --context
	target     string // the context in use, with its addresses; empty = none
	noted      bool   // it was printed
	tls        guard.TLSFiles
	tokenFile  string
	clientMade *api.Client
	impatient  bool // a verb that does not need a server does not wait for one that is starting
}

// printing is how an invocation prints data and notes.
type printing struct {
	output            string
	columns           []string
	template          string
	noHeader, noTrunc bool
	// Of the table that was printed last: how many columns it has, how many spare ones are left out, and the
	// widths of the others.
	tableColumns, spared int
	widths               []int
	quiet                bool
	color                string
	utc                  bool
	tz                   string
	zone                 *time.Location
	resume               string // the position after which -w continues; empty = it lists first
}

// exit ends a verb with its own exit code and, if set, a message.
type exit struct {
	code int
	err  error
}

// Error is the message.
func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

// Unwrap returns the message's error.
func (e *exit) Unwrap() error { return e.err }

// code ends a verb with a code, without a message.
func code(n int) error {
	if n == 0 {
		return nil
	}
	return &exit{code: n}
}

// failf ends a verb with a code and a message.
func failf(code int, format string, args ...any) error {
	return &exit{code: code, err: fmt.Errorf(format, args...)}
}

// output is standard output; it keeps the first error, which not every writer looks at.
type output struct {
	to  io.Writer
	err error
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	n, err := o.to.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// end returns the final error of a verb that would end with err. Failed output is reported, except
// when the reader has gone (head): it wants no more.
func (o *output) end(err error) error {
	var e *exit
	switch {
	case o.err == nil:
		return err
	case errors.Is(o.err, syscall.EPIPE):
		return code(exitSignal + int(syscall.SIGPIPE))
	case err == nil, errors.As(err, &e) &&
		e.err == nil, strings.Contains(err.Error(), o.err.Error()): // not every writer wraps it
		return failf(api.ExitFailed, "standard output: %w", cause(o.err))
	}
	return err
}

// cause is an error of a file without the file's name.
func cause(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// finish prints an error and chooses the exit code.
func (c *cli) finish(err error) int {
	var e *exit
	var remote *api.Error
	var problems *spec.Problems
	switch {
	case err == nil, errors.As(err, &e) && e.err == nil:
	case errors.As(err, &remote):
		c.complain(remote)
	case errors.As(err, &problems):
		c.sayf("%s\n", problems)
	case e != nil:
		c.sayf("cantina: %v\n", e.err)
	default:
		c.sayf("cantina: %v\n", err)
	}
	return exitOf(err)
}

// exitOf is the exit code of a verb that ends with err.
func exitOf(err error) int {
	var e *exit
	var remote *api.Error
	var problems *spec.Problems
	switch {
	case err == nil:
		return api.ExitOK
	case errors.As(err, &e) && e.err == nil:
		return e.code
	case errors.As(err, &remote):
		return remote.Exit
	case errors.As(err, &problems):
		return api.ExitUsage
	case e != nil:
		return e.code
	}
	// Wrong usage is always an *exit; any other error occurred on this machine.
	return api.ExitFailed
}

// complain prints an error of the server.
func (c *cli) complain(e *api.Error) {
	d := e.Detail
	if len(d.Problems) > 0 {
		for _, p := range d.Problems {
			c.sayf("%s\n", spec.Problem{File: p.File, Line: int(p.Line), Column: int(p.Column), Path: p.Path, Text: p.Text,
				Hint: p.Hint})
		}
		return
	}
	c.sayf("cantina: %s", e.Message)
	if d.Hint != "" {
		c.sayf("; %s", d.Hint)
	}
	// Errors that the server's log describes further.
	if (e.Code == "internal" || e.Code == "unknown_outcome") && d.RequestId != "" {
		c.sayf(" (request %s)", d.RequestId)
	}
	c.sayf("\n")
}

// sayf prints messages for people to standard error. Errors of the terminal are ignored.
func (c *cli) sayf(format string, args ...any) { _, _ = fmt.Fprintf(c.Err, format, args...) }

// notef is sayf, unless -q is given.
func (c *cli) notef(format string, args ...any) {
	if !c.quiet {
		c.sayf(format, args...)
	}
}

// client returns the client of the servers that flags and environment name.
func (c *cli) client() (*api.Client, error) {
	if c.clientMade != nil {
		return c.clientMade, nil
	}
	if err := c.useContext(); err != nil {
		return nil, err
	}
	conf, err := c.tls.Client()
	if err != nil {
		return nil, failf(api.ExitUsage, "%v", err)
	}
	token, err := c.clientToken()
	if err != nil {
		return nil, err
	}
	c.awaitServer()
	c.clientMade = api.NewClient(api.ClientConfig{Addresses: c.addresses(), TLS: conf, Token: token, NewKey: newKey,
		Patience: patience, Unanswered: c.unanswered})
	return c.clientMade, nil
}

// unanswered reports that a server is waited for.
func (c *cli) unanswered(address string) { c.notef("waiting for %s to answer\n", address) }

// patience is how long a call is repeated while a new leader is found.
const patience = 5 * time.Second

func newKey() string { return rand.Text() }

// defaultAddress is the address of a server without settings.
const defaultAddress = "127.0.0.1:7480"

// addresses names the servers: the flag, CANTINA_ADDR, the socket of a running
// `cantina dev` or `cantina server`, the default.
func (c *cli) addresses() []string {
	if len(c.addr) > 0 {
		return c.addr
	}
	if env := c.Getenv("CANTINA_ADDR"); env != "" {
		return strings.Split(env, ",")
	}
	for _, dir := range c.runtimeDirs() {
		// A dev server with its socket elsewhere leaves its address here.
		if text, err := os.ReadFile(filepath.Join(dir, "dev.addr")); err == nil {
			if a := strings.TrimSpace(string(text)); a != "" {
				return []string{a}
			}
		}
		for _, name := range []string{devSocket, serverSocket} {
			sock := filepath.Join(dir, name)
			if info, err := os.Stat(sock); err == nil && info.Mode()&os.ModeSocket != 0 {
				return []string{"unix:" + sock}
			}
		}
	}
	return []string{defaultAddress}
}

// The sockets of dev and server in a runtime directory.
const (
	devSocket    = "dev.sock"
	serverSocket = "server.sock"
)

// runtimeDirs are where dev and server leave their sockets, in the order in which clients
// look: the first is where they are made.
func (c *cli) runtimeDirs() []string {
	var out []string
	if d := c.Getenv("XDG_RUNTIME_DIR"); d != "" {
		out = append(out, filepath.Join(d, "cantina"))
	} else if os.Geteuid() != 0 {
		out = append(out, filepath.Dir(c.dataDir("run")))
	}
	return append(out, "/run/cantina")
}

// limited returns a context that ends with --timeout, which counts from its first use for the whole verb.
func (c *cli) limited() (context.Context, context.CancelFunc) {
	if c.timeout <= 0 {
		return context.WithCancel(c.ctx)
	}
	if c.deadline.IsZero() {
		c.deadline = time.Now().Add(c.timeout)
	}
	return context.WithDeadline(c.ctx, c.deadline)
}

// confirm prompts before a destructive action. Without a terminal --yes is needed.
func (c *cli) confirm(format string, args ...any) error {
	if err := c.useContext(); err != nil {
		return err
	}
	what := fmt.Sprintf(format, args...)
	if c.target != "" {
		what += " on " + c.target
	}
	if c.yes {
		return nil
	}
	if !c.InTTY || !c.ErrTTY {
		return failf(api.ExitUsage, "%s: use --yes to confirm", what)
	}
	c.sayf("%s? [y/N] ", what)
	var answer string
	if _, err := fmt.Fscanln(c.In, &answer); err != nil || !strings.EqualFold(answer, "y") &&
		!strings.EqualFold(answer, "yes") {
		return failf(api.ExitFailed, "not confirmed")
	}
	return nil
}

// needYes adds the flag --yes.
func (c *cli) needYes(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.yes, "yes", false, "do not ask")
}
