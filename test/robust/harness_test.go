package robust

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cantina/api"
	"cantina/internal/guard"
)

// patience bounds each wait of a test, by default. It is there to end a test that hangs, on a busy machine.
const patience = 100 * time.Second

// testUser names the user of work without a user. make test runs the tests a second time with it, to show that
// everything works for a user without privileges.
const testUser = "CANTINA_TEST_USER"

// tempDir is a directory for a test that its containers can write to, for any user.
func tempDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if os.Getenv(testUser) == "" {
		return dir
	}
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o711), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// program is the cantina that the tests run; token opens its loopback ports.
var (
	program string
	token   guard.Token
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "cantina-robust")
	if err == nil {
		// Their own token and sockets, and not those of the user of this machine.
		err = errors.Join(os.Setenv("XDG_DATA_HOME", dir+"/own"), os.Setenv("XDG_RUNTIME_DIR", dir+"/own"))
	}
	if err == nil {
		token, err = guard.OpenToken(filepath.Join(dir, "own", "cantina", "token"))
	}
	if err == nil {
		program, err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build cantina:", err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// build returns bin/cantina when make reports it up to date, and builds one into dir otherwise. CANTINA_BIN names
// another.
func build(dir string) (string, error) {
	if p := os.Getenv("CANTINA_BIN"); p != "" {
		return p, nil
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		return "", err
	}
	if exec.Command("make", "-s", "-q", "-C", root, "bin/cantina").Run() == nil {
		return filepath.Join(root, "bin", "cantina"), nil
	}
	out := filepath.Join(dir, "cantina")
	for _, argv := range [][]string{
		{"make", "-s", "-C", root, "executor/reaperbin/cantina-reaper"},
		{"go", "build", "-trimpath", "-o", out, "cantina/cmd/cantina"},
	} {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, text)
		}
	}
	return out, nil
}

// soak reports which form runs, and picks its number.
func soak(short, long int) int {
	if os.Getenv("CANTINA_SOAK") != "" {
		return long
	}
	return short
}

// seeded returns the test's source of choices and logs its seed.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("CANTINA_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("CANTINA_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("CANTINA_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// process is a running cantina.
type process struct {
	t       *testing.T
	name    string
	cmd     *exec.Cmd
	log     *journal
	Addr    string        // its first address, once ready
	ready   chan struct{} // closed when it is ready
	drained chan struct{} // closed when its ready descriptor is closed
	ended   chan struct{} // closed when it has ended
	err     error         // how; read after ended
}

// start starts `cantina ARGS --ready-fd 3`, in its own process group. It ends with
// the test at the latest.
func start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	p := launch(t, name, nil, args...)
	t.Cleanup(p.cleanup)
	return p
}

// launch is start behind a wrapper like `ip netns exec NAME`, of a process that another function ends.
func launch(t *testing.T, name string, wrapper []string, args ...string) *process {
	t.Helper()
	if user := os.Getenv(testUser); user != "" && (args[0] == "dev" || args[0] == "cell") {
		args = append(args, "--default-user", user)
	}
	if args[0] == "dev" && !slices.Contains(args, "--log-level") {
		args = append(args, "--log-level", "info")
	}
	argv := append(append(append([]string(nil), wrapper...), program), append(args, "--ready-fd", "3")...)
	p := &process{t: t, name: name, cmd: exec.Command(argv[0], argv[1:]...), log: newJournal(),
		ready: make(chan struct{}), drained: make(chan struct{}), ended: make(chan struct{})}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Env = append(os.Environ(), "CANTINA_ADDR=")
	out, outEnd := pipe(t)
	reported, reportedEnd := pipe(t)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.ExtraFiles = outEnd, outEnd, []*os.File{reportedEnd}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	_, _ = outEnd.Close(), reportedEnd.Close()
	go func() {
		_, _ = io.Copy(p.log, out)
		_ = out.Close()
	}()
	go func() {
		text, _ := io.ReadAll(reported)
		_ = reported.Close()
		if first, _, ok := strings.Cut(string(text), "\n"); ok {
			p.Addr = first
			close(p.ready)
		}
		close(p.drained)
	}()
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

func (p *process) cleanup() {
	select {
	case <-p.ended:
	default:
		p.signal(syscall.SIGCONT)
		p.signal(syscall.SIGTERM)
		select {
		case <-p.ended:
		case <-time.After(patience):
			p.signal(syscall.SIGKILL)
			<-p.ended
			p.t.Errorf("%s did not end within %v", p.name, patience)
		}
	}
	if p.t.Failed() || os.Getenv("CANTINA_TEST_LOG") != "" {
		p.t.Logf("--- %s\n%s", p.name, p.log.tail(60))
	}
}

func (p *process) signal(s syscall.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("%s: %v: %v", p.name, s, err)
	}
}

// wait waits until the process is ready.
func (p *process) wait() *process {
	p.t.Helper()
	select {
	case <-p.ready:
	case <-p.ended:
		p.t.Fatalf("%s ended before it was ready: %v", p.name, p.err)
	case <-time.After(patience):
		p.t.Fatalf("%s is not ready after %v", p.name, patience)
	}
	return p
}

// kill sends SIGKILL to this process alone and waits for its end.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// stop sends SIGTERM and demands that the process ends well.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		if p.err != nil {
			p.t.Errorf("%s ended with %v after SIGTERM", p.name, p.err)
		}
	case <-time.After(patience):
		p.t.Errorf("%s did not end within %v after SIGTERM", p.name, patience)
	}
}

// client returns a client of the process's API.
func (p *process) client() *api.Client { return dial(p.t, p.Addr) }

func dial(t *testing.T, addresses ...string) *api.Client {
	n := 0
	var mu sync.Mutex
	prefix := fmt.Sprintf("%s-%d-", t.Name(), time.Now().UnixNano())
	c := api.NewClient(api.ClientConfig{Addresses: addresses, Token: token, Patience: 30 * time.Second,
		NewKey: func() string {
			mu.Lock()
			defer mu.Unlock()
			n++
			return prefix + strconv.Itoa(n)
		}})
	t.Cleanup(c.Close)
	return c
}

// result is the result of a verb of the CLI.
type result struct {
	out, err string
	code     int
}

// cli runs a verb against the servers at addr and returns how it ended.
func cli(t *testing.T, addr string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "CANTINA_ADDR="+addr, "NO_COLOR=1")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("cantina %s: %v\n%s", strings.Join(args, " "), errors.Join(err, ctx.Err()), errs.String())
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// must is cli for verbs that must succeed; it returns their output.
func must(t *testing.T, addr string, args ...string) string {
	t.Helper()
	r := cli(t, addr, args...)
	if r.code != 0 {
		t.Fatalf("cantina %s: exit code %d\n%s%s", strings.Join(args, " "), r.code, r.out, r.err)
	}
	return r.out
}

// apply writes a spec file into the test's directory and applies it.
func apply(t *testing.T, addr, spec string) {
	t.Helper()
	must(t, addr, "apply", write(t, "cantina.yaml", spec))
}

// eventually waits until want returns true, for changes without an event. It asks again and again.
func eventually(want func() bool) bool {
	end := time.NewTimer(patience)
	defer end.Stop()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for !want() {
		select {
		case <-again.C:
		case <-end.C:
			return false
		}
	}
	return true
}

// shows waits until the output of a verb has all these words: the auction, or a program, may still have to report
// on a new request.
func shows(t *testing.T, addr string, words []string, args ...string) {
	t.Helper()
	out := ""
	if !eventually(func() bool {
		out = must(t, addr, args...)
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(out, w) })
	}) {
		t.Errorf("cantina %s does not show %q:\n%s", strings.Join(args, " "), words, out)
	}
}

// write writes a file into a directory of its own and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(tempDir(t), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// journal keeps the output of a process and wakes its waiters.
type journal struct {
	mu   sync.Mutex
	text []byte
	news chan struct{}
}

func newJournal() *journal { return &journal{news: make(chan struct{})} }

// Write implements io.Writer.
func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.text = append(j.text, b...)
	close(j.news)
	j.news = make(chan struct{})
	return len(b), nil
}

func (j *journal) tail(lines int) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := strings.SplitAfter(string(j.text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}

// until waits until the output satisfies want, or done is closed, or the time is over.
func (j *journal) until(done <-chan struct{}, limit time.Duration, want func(text string) bool) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		j.mu.Lock()
		ok, news := want(string(j.text)), j.news
		j.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-news:
		case <-done:
			return false
		case <-timer.C:
			return false
		}
	}
}
