// Package scripttest runs txtar scripts against the real binary, with servers, cells
// and faults. `make test` builds the binary first.
//
// Commands beside those of testscript:
//
//	dev [FLAG...]            start `cantina dev` on $WORK/data and wait until it is ready
//	undev                    end it with SIGTERM; it must end with 0
//	start NAME VERB [ARG...] start another cantina and wait until it is ready; CANTINA_ADDR becomes
//	                         its address when it is a server or dev. ! start: it must end instead
//	server NAME [FLAG...]    start `cantina server` on $WORK/NAME with short timeouts; a second start has the
//	                         address of the first
//	cell NAME [FLAG...]      start `cantina cell` on $WORK/NAME with the same timeouts, of the server of CANTINA_ADDR
//	                         unless --servers is given
//	signal NAME TERM|KILL|STOP|CONT  send a signal to it
//	gone NAME [CODE]         wait until it has ended, with this exit code (0) unless it was killed
//	log NAME                 its output since its last start becomes stdout
//	proxy NAME [TARGET]      a TCP proxy; $NAME becomes its address; without a target it never answers; called
//	                         again it has another target. cut NAME, mend NAME
//	tmpfs DIR SIZE           mount a file system of a size, as 20m; fill DIR takes all space of it
//	terminal STEPS CMD [ARG...]  run a command in a terminal, by the steps of a file
//	code N CMD [ARG...]      run a command that must end with this exit code
//	until TEXT CMD [ARG...]  run a command again and again until it prints TEXT (a regular
//	                         expression): for results that follow shortly after the request
package scripttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// patience bounds everything that a script waits for.
const patience = 60 * time.Second

// Run runs the scripts of a directory with the binary of bin. With user the workloads
// that name no user run as that one.
func Run(t *testing.T, bin, dir, user string) {
	t.Helper()
	bin, err := filepath.Abs(bin)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(bin, "cantina")); err != nil {
		t.Skip("bin/cantina is not built: run make build")
	}
	// The users of workloads get to the files of the script.
	work := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(work), 0o711), os.Chmod(work, 0o711)); err != nil {
		t.Fatal(err)
	}
	r := &rig{bin: filepath.Join(bin, "cantina"), user: user, all: map[*testscript.TestScript]*script{}}
	testscript.Run(t, testscript.Params{
		Dir: dir, WorkdirRoot: work,
		Setup: func(e *testscript.Env) error {
			if err := os.Chmod(e.WorkDir, 0o777); err != nil {
				return err
			}
			// Short: a socket's path has at most 107 bytes.
			run, err := os.MkdirTemp("", "ct")
			if err != nil {
				return err
			}
			e.Defer(func() { _ = os.RemoveAll(run) })
			e.Setenv("XDG_RUNTIME_DIR", run)
			e.Setenv("XDG_DATA_HOME", filepath.Join(run, "data")) // of the token
			e.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"dev": r.dev, "undev": r.undev, "server": r.server, "cell": r.cell, "start": r.start, "signal": r.signal,
			"gone": r.gone, "log": r.log,
			"proxy": r.proxy, "cut": r.cut, "mend": r.mend, "tmpfs": tmpfs, "fill": fill, "code": exitCode, "until": until,
			"terminal": terminal,
		},
	})
}

// rig has what belongs to each script that runs.
type rig struct {
	bin, user string
	mu        sync.Mutex
	all       map[*testscript.TestScript]*script
}

type script struct {
	processes map[string]*process
	order     []string
	addresses map[string]string // of servers, by name
	proxies   map[string]*proxy
}

func (r *rig) of(ts *testscript.TestScript) *script {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.all[ts]
	if s == nil {
		s = &script{processes: map[string]*process{}, addresses: map[string]string{}, proxies: map[string]*proxy{}}
		r.all[ts] = s
		ts.Defer(func() { s.end(ts) })
	}
	return s
}

// process is a cantina that was started.
type process struct {
	cmd   *exec.Cmd
	log   string
	ready chan string // gets its first address
	ended chan struct{}
	err   error // after ended
}

func (r *rig) dev(ts *testscript.TestScript, neg bool, args []string) {
	own := []string{"dev", "dev", "--data", filepath.Join(ts.Getenv("WORK"), "data"), "--listen", "127.0.0.1:0",
		"--log-level", "info"}
	r.start(ts, neg, append(own, args...))
	ts.Setenv("CANTINA_ADDR", "") // clients find it by its socket
}

func (r *rig) undev(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: undev")
	}
	r.signal(ts, false, []string{"dev", "TERM"})
	r.gone(ts, false, []string{"dev"})
}

// hasty are timeouts as short as a busy machine can keep to.
var hasty = []string{"--heartbeat=300ms", "--heartbeat-grace=2s", "--healthcheck=1s", "--healthcheck-grace=2500ms",
	"--check-interval=200ms",
	"--lost=5s", "--kill-wait=1s", "--margin=500ms", "--max-dies-within=14s", "--lease=2s", "--keep-alive=400ms",
	"--lease-drift=300ms"}

func (r *rig) server(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 1 {
		ts.Fatalf("usage: server NAME [FLAG...]")
	}
	name := args[0]
	addr := r.of(ts).addresses[name]
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	argv := append([]string{name, "server", "--name", name, "--data", filepath.Join(ts.Getenv("WORK"), name), "--listen",
		addr}, hasty...)
	r.start(ts, neg, append(argv, args[1:]...))
	r.of(ts).addresses[name] = ts.Getenv("CANTINA_ADDR")
}

func (r *rig) cell(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 1 {
		ts.Fatalf("usage: cell NAME [FLAG...]")
	}
	name := args[0]
	argv := append([]string{name, "cell", "--name", name, "--data", filepath.Join(ts.Getenv("WORK"), name), "--listen",
		"127.0.0.1:0"}, hasty...)
	if !slices.Contains(args, "--servers") {
		argv = append(argv, "--servers", ts.Getenv("CANTINA_ADDR"))
	}
	r.start(ts, neg, append(argv, args[1:]...))
}

func (r *rig) start(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: start NAME VERB [ARG...]")
	}
	s, name := r.of(ts), args[0]
	if r.user != "" && args[1] != "server" {
		args = append(args, "--default-user", r.user)
	}
	p, err := launch(ts, r.bin, name, args[1:])
	ts.Check(err)
	s.processes[name], s.order = p, append(s.order, name)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case addr := <-p.ready:
		if neg {
			ts.Fatalf("%s started, and should not", name)
		}
		if args[1] == "server" || args[1] == "dev" {
			ts.Setenv("CANTINA_ADDR", addr)
		}
	case <-p.ended:
		text, err := os.ReadFile(p.log)
		ts.Check(err)
		ts.Logf("%s", text)
		if !neg {
			ts.Fatalf("%s ended: %v", name, p.err)
		}
	case <-timer.C:
		ts.Fatalf("%s was not ready after %v", name, patience)
	}
}

func launch(ts *testscript.TestScript, bin, name string, args []string) (*process, error) {
	work := ts.Getenv("WORK")
	p := &process{cmd: exec.Command(bin, append(args, "--ready-fd", "3")...), log: filepath.Join(work, name+".log"),
		ready: make(chan string, 1), ended: make(chan struct{})}
	p.cmd.Dir = work
	p.cmd.Env = []string{"PATH=" + ts.Getenv("PATH"), "HOME=" + work, "XDG_RUNTIME_DIR=" + ts.Getenv("XDG_RUNTIME_DIR"),
		"XDG_DATA_HOME=" + ts.Getenv("XDG_DATA_HOME")}
	// Its own group: what the script's terminal sends must not reach it.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.ExtraFiles = log, log, []*os.File{write}
	err = p.cmd.Start()
	err = errors.Join(err, write.Close(), log.Close())
	if err != nil {
		return nil, errors.Join(err, read.Close())
	}
	go func() {
		// The server writes its addresses and closes; a dead one only closes.
		if text, err := io.ReadAll(read); err == nil && len(text) > 0 {
			first, _, _ := strings.Cut(string(text), "\n")
			p.ready <- first
		}
		_ = read.Close()
	}()
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

func (r *rig) named(ts *testscript.TestScript, name string) *process {
	p := r.of(ts).processes[name]
	if p == nil {
		ts.Fatalf("no process %q was started", name)
	}
	return p
}

func (r *rig) signal(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "STOP": syscall.SIGSTOP,
		"CONT": syscall.SIGCONT, "INT": syscall.SIGINT}
	if neg || len(args) != 2 || signals[args[1]] == 0 {
		ts.Fatalf("usage: signal NAME TERM|KILL|STOP|CONT|INT")
	}
	ts.Check(r.named(ts, args[0]).cmd.Process.Signal(signals[args[1]]))
}

func (r *rig) gone(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: gone NAME [CODE]")
	}
	p, want := r.named(ts, args[0]), 0
	if len(args) == 2 {
		var err error
		want, err = strconv.Atoi(args[1])
		ts.Check(err)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		ts.Fatalf("%s did not end within %v", args[0], patience)
	}
	if state := p.cmd.ProcessState; state.Exited() && state.ExitCode() != want {
		text, err := os.ReadFile(p.log)
		ts.Check(err)
		ts.Logf("%s", text)
		ts.Fatalf("%s ended with exit code %d, want %d", args[0], state.ExitCode(), want)
	}
	delete(r.of(ts).processes, args[0])
}

func (r *rig) log(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: log NAME")
	}
	ts.Check(ts.Exec("cat", filepath.Join(ts.Getenv("WORK"), args[0]+".log")))
}

// end ends what still runs, the last that was started first: a cell reports to
// its server at its end.
func (s *script) end(ts *testscript.TestScript) {
	for i := len(s.order) - 1; i >= 0; i-- {
		p := s.processes[s.order[i]]
		if p == nil {
			continue
		}
		delete(s.processes, s.order[i])
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		select {
		case <-p.ended:
		case <-ctx.Done():
			// It hangs: the group is ours alone.
			_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
			<-p.ended
			ts.Logf("%s did not end within %v", s.order[i], patience)
		}
		cancel()
	}
	for _, p := range s.proxies {
		p.close()
	}
}

// exitCode runs a command and compares its exit code.
func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N CMD [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// until runs a command until its output matches.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until TEXT CMD [ARG...]")
	}
	want, err := regexp.Compile(`(?m)` + args[0])
	ts.Check(err)
	end := time.NewTimer(patience)
	defer end.Stop()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		if want.MatchString(quiet(ts, args[1], args[2:])) {
			ts.Check(ts.Exec(args[1], args[2:]...)) // once in the log
			return
		}
		select {
		case <-again.C:
		case <-end.C:
			_ = ts.Exec(args[1], args[2:]...)
			ts.Fatalf("%q is not printed within %v", args[0], patience)
		}
	}
}

// quiet runs a command as ts.Exec does but leaves no trace in the log. It returns
// its output, "" if it failed.
func quiet(ts *testscript.TestScript, name string, args []string) string {
	path := ts.Getenv("PATH")
	cmd := exec.Command("env", append([]string{"PATH=" + path, name}, args...)...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(os.Environ(), "PATH="+path)
	for _, k := range []string{"HOME", "XDG_RUNTIME_DIR", "XDG_DATA_HOME", "CANTINA_ADDR", "WORK",
		"CANTINA_TLS_CERT", "CANTINA_TLS_KEY", "CANTINA_TLS_CA"} {
		cmd.Env = append(cmd.Env, k+"="+ts.Getenv(k))
	}
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return string(out)
}

// tmpfs mounts a file system of a size, which is full when that is used.
func tmpfs(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: tmpfs DIR SIZE")
	}
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o755))
	ts.Check(syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+args[1]))
	ts.Defer(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			fmt.Fprintln(os.Stderr, "unmount", dir, err)
		}
	})
}

// fill writes to DIR/filler until no byte is left. Remove that file to have the space back.
func fill(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: fill DIR")
	}
	f, err := os.OpenFile(filepath.Join(ts.MkAbs(args[0]), "filler"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	ts.Check(err)
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				ts.Fatalf("fill: %v", err)
			}
			size /= 2
		}
	}
	ts.Check(f.Close())
}
