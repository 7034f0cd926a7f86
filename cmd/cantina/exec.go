package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"cantina/action"
	"cantina/api"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
)

// execFlags are the flags of exec.
type execFlags struct {
	domain, dir, user string
	input, terminal   bool
	env, envFiles     []string
	detachKeys        string
	ownCode           bool
}

func execVerb(c *cli) *cobra.Command {
	f := &execFlags{}
	cmd := &cobra.Command{
		Use:   "exec [flags] SUBJECT -- PROGRAM [ARG...]",
		Short: "Run a program in the container of a running instance or task",
		Long: "exec runs a program beside those of a running instance, task or batch task: with their files, " +
			"namespaces, limits, user and environment. It exits with the program's exit code. Of a service or job, " +
			"the first instance or batch task that runs is used.\n" +
			"\n" +
			"Without -i the program has no input. -it gives it a terminal, for a shell. The program ends with this " +
			"command: when the detach keys are pressed, when the connection is lost, and with its container. " +
			"Processes that it has left in the background stay until the container ends. " +
			"Without -t, signals are forwarded to the program; a third Ctrl-C kills it.\n" +
			"\n" + subjectHelp,
		Example: "  cantina exec web -- ls -l\n" +
			"  cantina exec -it web/0 -- sh\n" +
			"  cantina exec -i db -- psql < dump.sql\n" +
			"  cantina exec -u root -w /tmp -e DEBUG=1 count[3] -- ./inspect",
		Args: func(cmd *cobra.Command, args []string) error {
			switch dash := cmd.ArgsLenAtDash(); {
			case len(args) == 0 || dash == 0:
				return failf(api.ExitUsage, "no SUBJECT given; for example: cantina exec -it web -- sh")
			case len(args) == 1:
				return failf(api.ExitUsage, "no program given; for example: cantina exec -it %s -- sh", args[0])
			case dash != 1:
				return failf(api.ExitUsage, "write -- between the SUBJECT and the program: cantina exec %s -- %s", args[0], args[1])
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return execProgram(c, f, args[0], args[1:]) },
	}
	fl := cmd.Flags()
	domainFlag(cmd, &f.domain)
	fl.BoolVarP(&f.input, "stdin", "i", false, "pass standard input to the program")
	fl.BoolVarP(&f.terminal, "tty", "t", false, "give the program a terminal")
	envFileFlag(fl, &f.envFiles)
	fl.StringArrayVarP(&f.env, "env", "e", nil,
		"environment variable: NAME=VALUE, or NAME to pass on the local value if set")
	fl.StringVarP(&f.dir, "workdir", "w", "", "working directory in the container")
	fl.VarP(&userFlag{&f.user}, "user", "u", "user: name, uid or uid:gid; a name must exist in the container")
	fl.StringVar(&f.detachKeys, "detach-keys", "ctrl-p,ctrl-q",
		"keys that end the session of a terminal, separated by commas: single characters and ctrl-KEY; empty = none")
	fl.BoolVar(&f.ownCode, "client-exit-code", false, "exit with 0 or 1 instead of the program's exit code")
	c.waiting(cmd)
	return cmd
}

func execProgram(c *cli, f *execFlags, name string, args []string) error {
	keys, err := parseDetachKeys(f.detachKeys)
	if err != nil {
		return err
	}
	if f.terminal && f.input && !c.InTTY {
		return failf(api.ExitUsage, "-t needs a terminal, and standard input is none; use -i alone")
	}
	run := &action.Run{Path: args[0], Args: args[1:], Dir: f.dir, User: f.user}
	if run.Path == "" {
		return failf(api.ExitUsage, "program name is empty")
	}
	if run.Env, err = taskVariables(c, f.envFiles, f.env); err != nil {
		return err
	}
	w := &pb.ExecWork{Terminal: f.terminal}
	if f.terminal {
		w.Size = c.terminalSize()
		if t, ok := c.LookupEnv("TERM"); ok { // one of -e comes later, and counts
			run.Env = append([]action.Variable{{Name: "TERM", Value: t}}, run.Env...)
		}
	}
	w.Kind = &pb.ExecWork_Program{Program: wire.FromAction(action.Action{Run: run}).GetRun()}
	ctx, cancel := c.limited()
	defer cancel()
	x, err := startExec(ctx, c, name, f.domain, w)
	if err != nil {
		return err
	}
	defer x.Close()
	e := &execSession{c: c, Exec: x, keys: detacher{keys: keys}}
	end, err := e.follow(ctx, f)
	if err != nil {
		return err
	}
	return execCode(c, end, f.ownCode)
}

// startExec starts a program or a copy in the container of a subject, and notes which one it is if
// there are several.
func startExec(ctx context.Context, c *cli, name, domain string, w *pb.ExecWork) (*api.Exec, error) {
	s, err := findSubject(c, name, domain)
	if err != nil {
		return nil, err
	}
	if s.kind == "cell" || s.kind == "schedule" {
		return nil, failf(api.ExitUsage, "a %s has no container", s.kind)
	}
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	x, err := client.Exec(ctx, &pb.ExecStart{Subject: s.wire(), Work: w})
	if err != nil {
		if s.kind == "instance" && isCode(err, "conflict") {
			if unknown := knownInstance(ctx, c, s); unknown != nil {
				err = unknown
			}
		}
		return nil, err
	}
	if n := x.Started.GetRunning(); n > 1 {
		c.notef("%s: %d are running; using %s on cell %s\n", s, n, printable(x.Started.Subject), x.Started.Cell)
	}
	return x, nil
}

// execCode is the exit code of a program.
func execCode(c *cli, end *pb.ExecEnd, own bool) error {
	n := int(end.ExitCode)
	switch {
	case end.Reason != "":
		if n = startCode(end.Reason); n == 0 || own {
			n = api.ExitFailed
		}
		return failf(n, "%s", printable(end.Reason))
	case end.Signal > 0:
		n = exitSignal + int(end.Signal)
	}
	if end.Signal == int32(syscall.SIGKILL) {
		c.notef("the program was killed; has its container ended?\n")
	}
	if own && n != 0 {
		n = api.ExitFailed
	}
	return code(n)
}

// execSession connects a program with this process.
type execSession struct {
	c *cli
	*api.Exec
	keys     detacher
	detached chan struct{}
}

// follow forwards input, output and signals until the program has ended.
func (e *execSession) follow(ctx context.Context, f *execFlags) (*pb.ExecEnd, error) {
	restore, err := e.raw(f)
	if err != nil {
		return nil, err
	}
	defer restore()
	e.detached = make(chan struct{})
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, forwarded...)
	defer signal.Stop(signals)
	over := make(chan struct{})
	defer close(over)
	go e.signals(signals, over, f.terminal)
	switch {
	case !f.input:
		_ = e.CloseStdin() // Receive returns the reason
	default:
		go e.input(f.terminal)
	}
	for {
		m, err := e.Receive()
		switch {
		case err != nil && e.isDetached():
			restore()
			e.c.notef("\nsession ended by the detach keys; the program was killed\n")
			return nil, code(exitInterrupted)
		case err != nil:
			if ctx.Err() == nil {
				e.c.notef("the program ends with the session\n")
			}
			return nil, err
		case m.GetEnd() != nil:
			return m.GetEnd(), nil
		}
		for w, b := range map[io.Writer][]byte{e.c.Out: m.GetStdout(), e.c.Err: m.GetStderr()} {
			if _, err := w.Write(b); err != nil {
				return nil, failf(api.ExitFailed, "write output: %w", err)
			}
		}
	}
}

// raw makes the terminal of standard input transparent, and returns how to restore it.
func (e *execSession) raw(f *execFlags) (restore func(), err error) {
	in, ok := e.c.In.(*os.File)
	if !f.terminal || !f.input || !ok {
		return func() {}, nil
	}
	old, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, failf(api.ExitFailed, "prepare the terminal: %v", err)
	}
	return func() { _ = term.Restore(int(in.Fd()), old) }, nil // a terminal that is gone needs nothing
}

// input forwards standard input until its end, or the detach keys.
func (e *execSession) input(terminal bool) {
	b := make([]byte, 32<<10)
	for {
		n, err := e.c.In.Read(b)
		out, detach := b[:n], false
		if terminal {
			out, detach = e.keys.filter(out)
		}
		if _, werr := e.Write(out); werr != nil {
			return
		}
		if detach {
			close(e.detached)
			e.Close()
			return
		}
		if err != nil {
			_ = e.CloseStdin()
			return
		}
	}
}

func (e *execSession) isDetached() bool {
	select {
	case <-e.detached:
		return true
	default:
		return false
	}
}

// forwarded are the signals that a program gets as this one does.
var forwarded = []os.Signal{syscall.SIGWINCH, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
	syscall.SIGUSR1, syscall.SIGUSR2}

// killAfter is the Ctrl-C that kills a program.
const killAfter = 3

// signals forwards signals and the size of the terminal.
func (e *execSession) signals(from <-chan os.Signal, over <-chan struct{}, terminal bool) {
	interrupts := 0
	for {
		var s os.Signal
		select {
		case <-over:
			return
		case s = <-from:
		}
		m := &pb.ExecInput{Kind: &pb.ExecInput_Signal{Signal: int32(s.(syscall.Signal))}}
		switch {
		case s == syscall.SIGWINCH && !terminal:
			continue
		case s == syscall.SIGWINCH:
			m.Kind = &pb.ExecInput_Resize{Resize: e.c.terminalSize()}
		case s == syscall.SIGINT:
			if interrupts++; interrupts == killAfter {
				m.Kind = &pb.ExecInput_Signal{Signal: int32(syscall.SIGKILL)}
			}
		}
		if e.Send(m) != nil {
			return
		}
	}
}

// terminalSize is that of the terminal of this process; nil = there is none.
func (c *cli) terminalSize() *pb.TerminalSize {
	for _, f := range []any{c.In, c.Out, c.Err} {
		if o, ok := f.(*output); ok {
			f = o.to
		}
		if f, ok := f.(*os.File); ok {
			if w, h, err := term.GetSize(int(f.Fd())); err == nil {
				return &pb.TerminalSize{Columns: int32(w), Rows: int32(h)}
			}
		}
	}
	return nil
}
