package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"
)

// demo drives one run of the demo.
type demo struct {
	cantina, spec string
	name          string // of the cell; empty = that of the machine
	shared        string // token file of several servers; empty = one in dir
	dir           string
	address       string
	token         string // token for the address
	dev           *exec.Cmd
	ended         chan error
	log           *os.File
	tty           bool
}

// drive is `cantina-demo run`.
func drive(args []string) error {
	d := &demo{}
	fs := flag.NewFlagSet("run", flag.ContinueOnError)
	fs.StringVar(&d.cantina, "cantina", "bin/cantina", "the program")
	fs.StringVar(&d.spec, "spec", "examples/demo/cantina.yaml", "the spec file")
	hold := fs.Bool("hold", isTerminal(os.Stdin) && isTerminal(os.Stderr),
		"stay until Ctrl-C after the summary (default: on a terminal)")
	if err := fs.Parse(args); err != nil {
		return errUsage
	}
	d.tty = isTerminal(os.Stderr)
	ctx, stop := untilSignal()
	defer stop()
	err := d.all(ctx, *hold)
	if err := d.stop(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		d.say("interrupted: everything is stopped, nothing is left")
		return nil
	}
	return err
}

// untilSignal returns a context that a signal of the terminal ends.
func untilSignal() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

func (d *demo) say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// all is the story.
func (d *demo) all(ctx context.Context, hold bool) error {
	if err := d.start(ctx); err != nil {
		return err
	}
	d.say("• applying %s", d.spec)
	if out, err := d.run(ctx, "apply", d.spec); err != nil {
		return fmt.Errorf("apply: %w\n%s", err, out)
	}
	begin := time.Now()
	if err := d.watch(ctx); err != nil {
		return err
	}
	took := time.Since(begin)
	if err := d.kill(ctx); err != nil {
		return err
	}
	if err := d.check(ctx, took); err != nil {
		return err
	}
	link, err := d.run(ctx, "ui", "-q")
	if err != nil {
		return fmt.Errorf("ui: %w", err)
	}
	if hold {
		d.say("• all of it continues until Ctrl-C; open the web UI: %s", bytes.TrimSpace(link))
		<-ctx.Done()
	}
	return nil
}

// start starts cantina dev in its own directory and waits until it answers.
func (d *demo) start(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "cantina-demo-")
	if err != nil {
		return err
	}
	d.dir = dir
	if d.log, err = os.Create(filepath.Join(dir, "dev.log")); err != nil {
		return err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	d.dev = exec.Command(d.cantina, "dev", "--token-file", d.tokenFile(), "--data", filepath.Join(dir, "data"), "--listen",
		"127.0.0.1:0", "--socket", "none", "--ready-fd", "3")
	if d.name != "" {
		d.dev.Args = append(d.dev.Args, "--name", d.name)
	}
	d.dev.Stdout, d.dev.Stderr, d.dev.ExtraFiles = d.log, d.log, []*os.File{write}
	d.dev.SysProcAttr = apart()
	if err := d.dev.Start(); err != nil {
		write.Close()
		return fmt.Errorf("start %s: %w", d.cantina, err)
	}
	write.Close()
	d.ended = make(chan error, 1)
	go func() { d.ended <- d.dev.Wait() }()
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(read).ReadString('\n') // an empty line means that dev has ended
		line <- strings.TrimSpace(text)
	}()
	select {
	case d.address = <-line:
	case <-ctx.Done():
		return ctx.Err()
	}
	if d.address == "" {
		text, _ := os.ReadFile(d.log.Name())
		return fmt.Errorf("cantina dev did not start:\n%s", text)
	}
	token, err := os.ReadFile(d.tokenFile())
	if err != nil {
		return err
	}
	d.token = strings.TrimSpace(string(token))
	d.say("• cantina dev runs: API on http://%s, data in %s", d.address, dir)
	return nil
}

// apart keeps signals of the terminal from a process: they reach this driver alone, which stops it.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// tokenFile has the token for the API's port.
func (d *demo) tokenFile() string { return cmp.Or(d.shared, filepath.Join(d.dir, "token")) }

// stop ends dev in good order and removes the directory. A second interrupt while it
// stops goes to dev too: then it kills at once.
func (d *demo) stop() error {
	if d.dev == nil || d.dev.Process == nil {
		if d.dir != "" {
			return os.RemoveAll(d.dir)
		}
		return nil
	}
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGINT)
	defer signal.Stop(again)
	_ = d.dev.Process.Signal(syscall.SIGTERM) // it may have ended on its own
	for {
		select {
		case err := <-d.ended:
			d.log.Close()
			if err != nil {
				text, _ := os.ReadFile(filepath.Join(d.dir, "dev.log"))
				return errors.Join(fmt.Errorf("cantina dev: %w\n%s", err, tail(text, 30)), os.RemoveAll(d.dir))
			}
			return os.RemoveAll(d.dir)
		case <-again:
			_ = d.dev.Process.Signal(syscall.SIGINT)
		}
	}
}

func tail(text []byte, n int) []byte {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-n):], []byte("\n"))
}

// run calls the CLI and returns its output.
func (d *demo) run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, d.cantina, append(args, "--addr", d.address, "--token-file", d.tokenFile())...)
	var problem bytes.Buffer
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil && problem.Len() > 0 {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(problem.Bytes()))
	}
	return out, err
}

// get reads one resource of the API as JSON.
func (d *demo) get(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.address+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+d.token)
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 4096))
		return fmt.Errorf("GET %s: %s: %s", path, answer.Status, text)
	}
	return json.NewDecoder(answer.Body).Decode(into)
}

// count is a number that the API writes as text or number.
type count int

// UnmarshalJSON reads both forms.
func (c *count) UnmarshalJSON(b []byte) error {
	n, err := strconv.Atoi(strings.Trim(string(b), `"`))
	*c = count(n)
	return err
}

type jobAnswer struct {
	Job struct {
		State  string
		Counts struct{ Total, Done, Failed, Running count }
	}
}

// watch shows progress until the job and the task have ended.
func (d *demo) watch(ctx context.Context) error {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	begin := time.Now()
	for {
		var j jobAnswer
		if err := d.get(ctx, "/v1/jobs/demo/measure", &j); err != nil {
			return err
		}
		c := j.Job.Counts
		rate := float64(c.Done) / time.Since(begin).Seconds()
		over := j.Job.State == "done" || j.Job.State == "failed"
		d.progress(fmt.Sprintf("  job measure: %s, %d of %d files, %d running, %d failed, %.0f/s", j.Job.State, c.Done,
			c.Total, c.Running, c.Failed, rate), over)
		if over {
			break
		}
		select {
		case <-tick.C:
		case err := <-d.ended:
			d.ended <- err
			return errors.New("cantina dev has ended")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	d.say("• waiting for the task")
	_, err := d.run(ctx, "wait", "task/demo.toolchain", "--timeout", "3m")
	return err
}

// progress redraws one line on a terminal and prints lines elsewhere.
func (d *demo) progress(text string, last bool) {
	if !d.tty {
		fmt.Fprintln(os.Stderr, text)
		return
	}
	fmt.Fprint(os.Stderr, "\r\x1b[K", text)
	if last {
		fmt.Fprintln(os.Stderr)
	}
}
