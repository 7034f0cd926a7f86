package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// patience bounds everything that a test waits for.
const patience = 60 * time.Second

// cluster is a cantina dev with its own token, socket and data.
type cluster struct {
	t       *testing.T
	program string
	dir     string // of its data; its path is short
	env     []string
	address string
	stop    func() // ends the server in order
	kill    func() // ends it at once
	flags   []string
}

// program is the built one.
func program(t *testing.T) string {
	t.Helper()
	path := os.Getenv("CANTINA_BIN")
	if path == "" {
		path, _ = filepath.Abs("../../bin/cantina")
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run make build", err)
	}
	return path
}

// startCluster starts one; env is added to its environment.
func startCluster(t *testing.T, env ...string) *cluster {
	t.Helper()
	c := newCluster(t, env...)
	c.flags = []string{"dev", "--data", c.dir + "/data", "--listen", "127.0.0.1:0", "--name", "c1", "--volumes",
		"/usr/share:ro"}
	_, c.address, c.stop = c.start(c.flags...)
	return c
}

// newCluster prepares the environment of one.
func newCluster(t *testing.T, env ...string) *cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "cb") // short: the path of a socket is bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return &cluster{t: t, program: program(t), dir: dir, env: append(append(os.Environ(), "XDG_DATA_HOME="+dir+"/own",
		"XDG_RUNTIME_DIR="+dir+"/run", "CANTINA_ADDR="), env...)}
}

// crash ends the server at once and starts it again.
func (c *cluster) crash() {
	c.t.Helper()
	c.kill()
	_, c.address, c.stop = c.start(c.flags...)
}

// start runs a verb until the test ends. It waits until it serves, which is reported at descriptor 3, and returns its
// first line of output and its address.
func (c *cluster) start(args ...string) (first, address string, stop func()) {
	c.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		c.t.Fatal(err)
	}
	var log bytes.Buffer
	out, err := os.Create(filepath.Join(c.t.TempDir(), "out"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(c.program, append(args, "--ready-fd", "3")...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = c.env, out, &log, []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	_ = w.Close()
	killed := false
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil && !killed {
			c.t.Errorf("%s ended: %v\n%s", args[0], err, &log)
		}
	})
	c.kill = func() {
		killed = true
		_ = cmd.Process.Kill()
		stop()
	}
	c.t.Cleanup(stop)
	line := make([]byte, 4096)
	_ = r.SetReadDeadline(time.Now().Add(patience))
	n, err := r.Read(line)
	if err != nil {
		c.t.Fatalf("%s is not ready: %v\n%s", args[0], err, &log)
	}
	address, _, _ = strings.Cut(string(line[:n]), "\n")
	text, err := os.ReadFile(out.Name())
	if err != nil {
		c.t.Fatal(err)
	}
	first, _, _ = strings.Cut(string(text), "\n")
	return first, address, stop
}

// run is one call of the command line.
func (c *cluster) run(args ...string) string {
	c.t.Helper()
	return c.fails(0, args...)
}

// fails is run with an exit code.
func (c *cluster) fails(code int, args ...string) string {
	c.t.Helper()
	var errs bytes.Buffer
	cmd := exec.Command(c.program, args...)
	cmd.Env, cmd.Stderr = c.env, &errs
	out, err := cmd.Output()
	if cmd.ProcessState.ExitCode() != code {
		c.t.Fatalf("cantina %s: %v\n%s%s", strings.Join(args, " "), err, out, &errs)
	}
	return strings.TrimSpace(string(out))
}

// until runs a verb again until it prints a text.
func (c *cluster) until(text string, args ...string) {
	c.t.Helper()
	for end := time.Now().Add(patience); !strings.Contains(c.run(args...), text); {
		if time.Now().After(end) {
			c.t.Fatalf("cantina %s does not print %q", strings.Join(args, " "), text)
		}
	}
}

// tab is a page of the browser. All that it writes to its console is kept.
type tab struct {
	t   *testing.T
	ctx context.Context
	axe string

	mu       sync.Mutex
	messages []string
}

func openTab(t *testing.T) *tab {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("%v: run scripts/need chromium", err)
	}
	axe, err := os.ReadFile("../../ui/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("%v: run scripts/ui packages", err)
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.DisableGPU,
		chromedp.Flag("lang", "en-US"), chromedp.WSURLReadTimeout(patience))
	ctx, stop := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewExecAllocator(ctx, opts...)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewContext(ctx)
	t.Cleanup(stop)
	x := &tab{t: t, ctx: ctx, axe: string(axe)}
	console := chromedp.Console(ctx)
	go func() {
		for m, err := range console {
			if err != nil {
				return
			}
			if m.Type == chromedp.ConsoleWarning || m.Type == chromedp.ConsoleError || m.IsException() {
				x.mu.Lock()
				x.messages = append(x.messages, fmt.Sprintf("%s %s", m, m.URL))
				x.mu.Unlock()
			}
		}
	}()
	x.size(1360, 900)
	return x
}

func (x *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	x.t.Helper()
	if err := chromedp.Do(x.ctx, steps...); err != nil {
		x.t.Fatal(err)
	}
}

func (x *tab) size(width, height int64) {
	x.t.Helper()
	x.do(chromedp.EmulateViewport(width, height))
}

// scheme chooses light or dark.
func (x *tab) scheme(name string) {
	x.t.Helper()
	_, err := chromedp.Call(x.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
	if err != nil {
		x.t.Fatal(err)
	}
}

// eval runs an expression in the page; a promise is awaited.
func eval[T any](x *tab, expression string) T {
	x.t.Helper()
	v, err := chromedp.Run(x.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		x.t.Fatalf("%s: %v", expression[:min(len(expression), 200)], err)
	}
	return v
}

// holds waits until an expression of the page is true. The page itself tests it again at each frame. A page that
// is loaded meanwhile is asked again.
func (x *tab) holds(expression string) {
	x.t.Helper()
	const wait = `new Promise((ok, fail) => {
		const end = Date.now() + %[2]d
		const test = () => {
			try { if (%[1]s) return ok(true) } catch {}
			if (Date.now() > end)
				return fail(new Error("not within %[2]d ms, the page is:\n" + document.body.innerText.slice(0, 1200)))
			requestAnimationFrame(test)
		}
		test()
	})`
	ask := fmt.Sprintf(wait, expression, patience.Milliseconds())
	for end := time.Now().Add(patience); ; {
		_, err := chromedp.Run(x.ctx, chromedp.Evaluate[bool](ask, chromedp.EvalAwaitPromise))
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "navigated or closed") || time.Now().After(end) {
			x.t.Fatalf("%s: %v", expression, err)
		}
	}
}

// shows waits until the page has all of these texts.
func (x *tab) shows(texts ...string) {
	x.t.Helper()
	for _, s := range texts {
		x.holds(fmt.Sprintf("document.body.innerText.includes(%s)", quote(s)))
	}
}

// open goes to a page of the UI by its deep link.
func (x *tab) open(hash string, texts ...string) {
	x.t.Helper()
	eval[string](x, "location.hash = "+quote(hash))
	x.shows(texts...)
	x.holds("!document.querySelector('main [aria-busy=true]')")
}

// press clicks the button with a text, inside of an element.
func (x *tab) press(inside, text string) {
	x.t.Helper()
	find := fmt.Sprintf("[...document.querySelectorAll(%s)].find(b => b.textContent.trim() === %s && !b.disabled)",
		quote(inside+" button"), quote(text))
	x.holds(find)
	eval[bool](x, "("+find+".click(), true)")
}

// fill writes into a field.
func (x *tab) fill(field, text string) {
	x.t.Helper()
	x.holds("document.querySelector(" + quote(field) + ")")
	eval[bool](x, fmt.Sprintf(`(i => { i.value = %s; i.dispatchEvent(new Event("input", {bubbles: true})); return true })`+
		`(document.querySelector(%s))`, quote(text), quote(field)))
}

// follow clicks the link whose text has a part.
func (x *tab) follow(links, part string) {
	x.t.Helper()
	find := fmt.Sprintf("[...document.querySelectorAll(%s)].find(a => a.textContent.includes(%s))",
		quote(links), quote(part))
	x.holds(find)
	eval[bool](x, "("+find+".click(), true)")
}

// allowed removes messages of the console that a test expects.
func (x *tab) allowed(expected func(string) bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.messages = slices.DeleteFunc(x.messages, expected)
}

func (x *tab) shoot(name string) {
	x.t.Helper()
	const dir = "../screenshots"
	png, err := chromedp.Run(x.ctx, chromedp.FullScreenshot(100))
	if err = errors.Join(err, os.MkdirAll(dir, 0o755)); err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644)
	}
	if err != nil {
		x.t.Fatal(err)
	}
}

// accessible runs axe-core on the page: no finding may be serious or critical.
func (x *tab) accessible(name string) {
	x.t.Helper()
	eval[bool](x, "(window.axe ?? (() => {"+x.axe+"})(), true)")
	found := eval[string](x, `axe.run(document, {resultTypes: ["violations"]}).then(r => JSON.stringify(r.violations
		.filter(v => v.impact === "serious" || v.impact === "critical")
		.map(v => v.id + ": " + v.help + " at " +
			v.nodes.slice(0, 3).map(n => n.target + " " + (n.any[0]?.message ?? "")).join(" | "))))`)
	var list []string
	if err := json.Unmarshal([]byte(found), &list); err != nil {
		x.t.Fatal(err)
	}
	for _, v := range list {
		x.t.Errorf("axe-core on %s: %s", name, v)
	}
}

// clean fails if the page wrote a warning or an error, such as a violation of its policy, or loaded
// anything from elsewhere.
func (x *tab) clean() {
	x.t.Helper()
	if foreign := eval[string](x,
		`performance.getEntriesByType("resource").map(e => e.name).filter(n => !n.startsWith(location.origin + `+
			`"/")).join(" ")`); foreign != "" {
		x.t.Errorf("the page loads from elsewhere: %s", foreign)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, m := range x.messages {
		x.t.Errorf("console: %s", m)
	}
}

func quote(s string) string {
	text, _ := json.Marshal(s) // a string has a form
	return string(text)
}
