package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cantina/api"
	"cantina/internal/guard"
	pb "cantina/wire/cantinav1"
	"cantina/wire/cantinav1/cantinav1connect"
)

// calls are the calls of the API.
type calls = cantinav1connect.CantinaServiceClient

// patience bounds each wait.
const patience = 5 * time.Minute

// monitors is a directory for the monitoring sockets of all processes, NAME.sock; empty = none.
var monitors string

// rig is a server with sets of simulated cells, each set a process: a-0 …, b-0 ….
type rig struct {
	program string
	args    []string // of the server
	dir     string
	sets    []int
	server  *process
	cells   []*process
	client  *api.Client
	news    *news
	stop    context.CancelFunc
	ended   chan error
}

// hasty lets cells that are killed be found within a few seconds.
var hasty = []string{"--heartbeat-grace=2s", "--heartbeat=1s"}

// newRig starts all and waits until every cell is HEALTHY. The rig is to be closed
// also when there is an error.
// The flags are those of all processes.
func newRig(ctx context.Context, program string, flags []string, sets ...int) (*rig, error) {
	r := &rig{program: program, sets: sets, news: &news{changed: make(chan struct{}),
		seen: seen{instances: map[string]string{}, tasks: map[string]bool{}, healthy: map[string]bool{},
			silent: map[string]time.Time{}}}}
	var err error
	if r.dir, err = os.MkdirTemp("", "cantina-bench-"); err != nil {
		return r, err
	}
	token, err := guard.OpenToken(filepath.Join(r.dir, "token"))
	if err != nil {
		return r, err
	}
	flags = append([]string{"--token-file", token.Path()}, flags...)
	monitored := func(name string) []string {
		if monitors == "" {
			return nil
		}
		return []string{"--metrics", "unix:" + filepath.Join(monitors, name+".sock")}
	}
	r.args = append([]string{"server", "--name", "s1", "--data", filepath.Join(r.dir, "server"),
		"--listen", "127.0.0.1:0", "--socket", "none", "--new-cluster", "--log-level", "warn"},
		slices.Concat(flags, monitored("server"))...)
	r.server, err = start(program, filepath.Join(r.dir, "server.log"), r.args...)
	if err != nil {
		return r, err
	}
	r.client = api.NewClient(api.ClientConfig{Addresses: []string{r.server.address}, Token: token, NewKey: rand.Text,
		Patience: 30 * time.Second})
	if err := r.follow(ctx); err != nil {
		return r, err
	}
	all := 0
	for i, n := range sets {
		name := string(rune('a' + i))
		c, err := start(program, filepath.Join(r.dir, name+".log"),
			append([]string{"cell", "--simulate", strconv.Itoa(n), "--name", name,
				"--data", filepath.Join(r.dir, name), "--servers", r.server.address, "--log-level", "warn"},
				slices.Concat(flags, monitored(name))...)...)
		if err != nil {
			return r, err
		}
		r.cells = append(r.cells, c)
		all += n
	}
	return r, r.news.until(ctx, func(s *seen) bool { return len(s.healthy) == all })
}

// follow reads events until the rig is closed; it returns when the stream is open.
func (r *rig) follow(ctx context.Context) error {
	ctx, r.stop = context.WithCancel(ctx)
	open := make(chan struct{})
	r.ended = make(chan error, 1)
	go func() {
		first := true
		r.ended <- r.client.Events(ctx, &pb.StreamEventsRequest{}, func(m *pb.StreamEventsResponse) error {
			if first {
				first = false
				close(open)
			}
			if m.Gap != nil {
				return errors.New("the event stream has a gap: what was measured is not known")
			}
			r.news.take(m.Event)
			return nil
		})
	}()
	select {
	case <-open:
		return nil
	case err := <-r.ended:
		r.ended <- err
		return fmt.Errorf("event stream: %w", err)
	}
}

// unfollow ends the event stream, if it is read.
func (r *rig) unfollow() {
	if r.stop != nil {
		r.stop()
		<-r.ended
		r.stop = nil
	}
}

// close ends the processes of the rig and joins their errors with err.
func (r *rig) close(err error) error {
	if err != nil {
		text, _ := os.ReadFile(filepath.Join(r.dir, "server.log")) // err matters more
		err = fmt.Errorf("%w\n%s", err, text[max(0, len(text)-2000):])
	}
	r.unfollow()
	if r.client != nil {
		r.client.Close()
	}
	for _, p := range append(r.cells, r.server) {
		err = errors.Join(err, p.kill())
	}
	return errors.Join(err, os.RemoveAll(r.dir))
}

func (r *rig) apply(ctx context.Context, text string) error {
	q := &pb.ApplyRequest{Files: []*pb.SpecFile{{Name: "bench", Content: []byte(text)}}}
	_, err := api.Call(ctx, r.client, calls.Apply, q)
	return err
}

// empty removes all that a domain has.
func (r *rig) empty(ctx context.Context, domain string) error {
	q := &pb.ApplyRequest{Files: []*pb.SpecFile{{Name: "bench", Content: []byte("domain: " + domain + "\n")}}, Prune: true}
	_, err := api.Call(ctx, r.client, calls.Apply, q)
	return err
}

// untilRunning applies a spec file and returns how long it took until n instances run.
func (r *rig) untilRunning(ctx context.Context, text string, n int) (time.Duration, error) {
	begin := time.Now()
	if err := r.apply(ctx, text); err != nil {
		return 0, err
	}
	err := r.news.until(ctx, func(s *seen) bool { return len(s.instances) == n })
	return time.Since(begin), err
}

// seen is the data of the events so far.
type seen struct {
	instances map[string]string // index → cell on which it runs
	tasks     map[string]bool   // that have ended
	done      int
	healthy   map[string]bool
	silent    map[string]time.Time // cells that were HEALTHY and are not
}

func (s *seen) on(prefix string) int {
	n := 0
	for _, c := range s.instances {
		if strings.HasPrefix(c, prefix) {
			n++
		}
	}
	return n
}

// news is the data of the events so far, and wakes waiting readers.
type news struct {
	mu      sync.Mutex
	seen    seen
	changed chan struct{}
}

func (n *news) take(e *pb.Event) {
	if e == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case e.Instance != nil && !e.Gone && e.Instance.State == "RUNNING" && e.Instance.Presence == "ORDINARY":
		n.seen.instances[e.Domain+"/"+e.Subject] = e.Instance.Cell
	case e.Task != nil && e.Task.State == "COMPLETED" && !n.seen.tasks[e.Subject]:
		n.seen.tasks[e.Subject] = true
		n.seen.done++
	case e.Cell != nil && e.Cell.Session == "HEALTHY":
		n.seen.healthy[e.Subject] = true
	case e.Cell != nil && n.seen.healthy[e.Subject] && n.seen.silent[e.Subject].IsZero():
		n.seen.silent[e.Subject] = time.Now()
	default:
		return
	}
	close(n.changed)
	n.changed = make(chan struct{})
}

func (n *news) until(ctx context.Context, want func(*seen) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		n.mu.Lock()
		ok, changed := want(&n.seen), n.changed
		state := fmt.Sprintf("%d run, %d tasks have ended, %d cells are HEALTHY, %d silent", len(n.seen.instances),
			n.seen.done, len(n.seen.healthy), len(n.seen.silent))
		n.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: %s", ctx.Err(), state)
		}
	}
}

func (n *news) on(prefix string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen.on(prefix)
}

// silence returns when the first and the last cell was found silent.
func (n *news) silence() (first, last time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, at := range n.seen.silent {
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	return first, last
}

// process is a cantina that serves.
type process struct {
	cmd     *exec.Cmd
	address string
}

func start(program, log string, args ...string) (*process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	p := &process{cmd: exec.Command(program, append(args, "--ready-fd", "3")...)}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.ExtraFiles = out, out, []*os.File{write}
	err = p.cmd.Start()
	write.Close()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		problem, _ := os.ReadFile(log) // the error above matters more
		return nil, errors.Join(fmt.Errorf("cantina %s did not start: %w: %s", args[0], err, problem), p.kill())
	}
	p.address = strings.TrimSpace(line)
	return p, nil
}

// kill ends the process, which may have ended before.
func (p *process) kill() error {
	if p == nil || p.cmd.ProcessState != nil {
		return nil
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	_ = p.cmd.Wait() // killed: that it failed is no news
	return nil
}
