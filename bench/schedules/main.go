// Command schedules measures a server with very many schedules on its embedded store:
// how fast they are applied, what the server costs while almost none is due, and how
// long the next server takes to lead with them. It is no test: it fails only when
// something cannot be measured.
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"cantina/api"
	"cantina/bench/gauge"
	"cantina/internal/guard"
	"cantina/internal/run"
	pb "cantina/wire/cantinav1"
	"cantina/wire/cantinav1/cantinav1connect"
)

// calls are the calls of the API.
type calls = cantinav1connect.CantinaServiceClient

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	program := flag.String("cantina", "bin/cantina", "the program to measure")
	n := flag.Int("n", 1_000_000, "schedules, spread over the minutes of a year")
	per := flag.Int("file", 500, "schedules of one apply; 500 fit into one transaction")
	idle := flag.Duration("idle", time.Minute, "how long the idle server is watched")
	flag.Parse()
	if err := bench(ctx, *program, *n, *per, *idle); err != nil {
		fmt.Fprintln(os.Stderr, "schedules:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context, program string, n, per int, idle time.Duration) (err error) {
	dir, err := os.MkdirTemp("", "cantina-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := start(program, dir, "--new-cluster")
	if err != nil {
		return err
	}
	begin, lap := time.Now(), time.Now()
	for first := 0; first < n; first += per {
		if first > 0 && first*10/n != (first-per)*10/n {
			fmt.Printf("  %d applied, the last tenth in %v\n", first, time.Since(lap).Round(time.Millisecond))
			lap = time.Now()
		}
		q := &pb.ApplyRequest{Files: []*pb.SpecFile{{Name: "bench", Content: []byte(spec(first, min(first+per, n)))}}}
		if _, err := api.Call(ctx, s.client, calls.Apply, q); err != nil {
			return errors.Join(err, s.kill())
		}
	}
	fmt.Printf("%d schedules applied, %d at a time: %v, load %s\n", n, per, time.Since(begin).Round(time.Millisecond),
		gauge.Load())
	if err := s.idle(ctx, idle); err != nil {
		return errors.Join(err, s.kill())
	}
	if err := s.kill(); err != nil {
		return err
	}
	begin = time.Now()
	if s, err = start(program, dir); err != nil {
		return err
	}
	if _, err = api.Call(ctx, s.client, calls.ListSchedules,
		&pb.ListSchedulesRequest{Page: &pb.Page{Limit: 1}}); err == nil {
		fmt.Printf("a new server leads and lists them: %v after its start, load %s\n",
			time.Since(begin).Round(time.Millisecond), gauge.Load())
		err = s.idle(ctx, idle)
	}
	return errors.Join(err, s.kill())
}

// spec is a file of the schedules from first to last, each at a minute of its own.
func spec(first, last int) string {
	var b strings.Builder
	b.WriteString("domain: d\nschedules:\n")
	for i := first; i < last; i++ {
		fmt.Fprintf(&b, "  s%d: {cron: '%d %d %d %d *', timezone: UTC, task: {command: [/bin/true]}}\n", i, i%60, i/60%24,
			i/1440%28+1, i/40320%12+1)
	}
	return b.String()
}

// server is a running server on a directory.
type server struct {
	cmd    *exec.Cmd
	client *api.Client
}

func start(program, dir string, more ...string) (*server, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	token, err := guard.OpenToken(filepath.Join(dir, "token"))
	if err != nil {
		return nil, err
	}
	args := append([]string{"server", "--token-file", token.Path(), "--socket", "none", "--name", "s1", "--data",
		filepath.Join(dir, "server"), "--listen", "127.0.0.1:0", "--log-level", "warn", "--ready-fd", "3"}, more...)
	s := &server{cmd: exec.Command(program, args...)}
	s.cmd.Stderr, s.cmd.ExtraFiles = os.Stderr, []*os.File{write}
	err = s.cmd.Start()
	write.Close()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the server did not start: %w", err), s.kill())
	}
	s.client = api.NewClient(api.ClientConfig{Addresses: []string{strings.TrimSpace(line)}, Token: token,
		NewKey: rand.Text, Patience: 5 * time.Minute})
	return s, nil
}

func (s *server) kill() error {
	if s.client != nil {
		s.client.Close()
	}
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	_ = s.cmd.Wait() // killed: that it failed is no news
	return nil
}

// idle waits until the server has come to rest, and watches it.
func (s *server) idle(ctx context.Context, length time.Duration) error {
	if err := run.Pause(ctx, 15*time.Second); err != nil {
		return err
	}
	before, err := gauge.SpentBy(s.cmd.Process.Pid)
	if err != nil {
		return err
	}
	if err := run.Pause(ctx, length); err != nil {
		return err
	}
	after, err := gauge.SpentBy(s.cmd.Process.Pid)
	if err != nil {
		return err
	}
	memory, err := s.memory()
	fmt.Printf("idle for %v: %v of processor time, %.2f %% of a core, %s resident, load %s\n", length, after-before,
		100*float64(after-before)/float64(length), memory, gauge.Load())
	return err
}

func (s *server) memory() (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strings.TrimSpace(v), nil
		}
	}
	return "", fmt.Errorf("/proc/%d/status has no VmRSS", s.cmd.Process.Pid)
}
