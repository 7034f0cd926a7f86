package robust

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// guide runs the commands of a section of a page: "a$ COMMAND" on machine a, "$ COMMAND" on another one. Machines have
// a directory each, and the addresses 127.0.0.x in place of 10.0.0.x.
type guide struct {
	t   *testing.T
	dir string
	// env has the exported variables of each machine.
	env map[string][]string
	// running are the servers and cells.
	running map[string]*process
}

// section returns the text of a page below a heading, up to the next of the same level.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, below, ok := strings.Cut(string(text), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("%s has no section %q", page, heading)
	}
	below, _, _ = strings.Cut(below, "\n## ")
	return below
}

var (
	consoles  = regexp.MustCompile("(?s)```console\n(.*?)```")
	continued = regexp.MustCompile(`\\\n\s*`)
)

// commands returns the commands of the code blocks of a text.
func commands(text string) (all []string) {
	for _, block := range consoles.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(continued.ReplaceAllString(block[1], " ")) {
			all = append(all, strings.TrimSpace(line))
		}
	}
	return all
}

// on is a command as it runs on a machine of the test.
func (g *guide) on(machine, command string) string {
	return strings.NewReplacer("10.0.0.", "127.0.0.", "/etc/cantina/", g.dir+"/etc/", "--dir ca", "--dir "+g.dir+"/etc",
		"/var/lib/cantina", filepath.Join(g.dir, machine)).Replace(command)
}

// run runs one line of the page.
func (g *guide) run(line string) {
	g.t.Helper()
	machine, command, ok := strings.Cut(line, "$ ")
	if !ok || len(machine) > 1 {
		g.t.Fatalf("%q is no command", line)
	}
	command = g.on(machine, command)
	args := strings.Fields(command)
	switch {
	case args[0] == "export":
		g.env[machine] = args[1:]
	case args[0] == "cantina" && args[1] == "cell", args[0] == "cantina" && args[1] == "server" && args[2][0] == '-':
		name := machine + " " + args[1]
		p := launch(g.t, name, append([]string{"env"}, g.env[machine]...), args[1:]...)
		g.running[name] = p
		g.t.Cleanup(p.cleanup)
		p.wait()
	default:
		cmd := exec.CommandContext(g.t.Context(), program, args[1:]...)
		cmd.Dir = filepath.Join(g.dir, "etc")
		cmd.Env = append(append(os.Environ(), "NO_COLOR=1"), g.env[machine]...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		g.t.Logf("%s\n%s", line, out.String())
		if err != nil {
			g.t.Errorf("%s: %v", line, err)
		}
	}
}

// certificates makes those of the section for two machines.
func (g *guide) certificates(page string) {
	g.t.Helper()
	if err := os.Mkdir(filepath.Join(g.dir, "etc"), 0o700); err != nil {
		g.t.Fatal(err)
	}
	for _, line := range commands(section(g.t, page, "Two machines from nothing")) {
		if strings.HasPrefix(line, "$ cantina ca ") {
			g.run(line)
		}
	}
}

// free skips the test if another process has one of the addresses of the page.
func (g *guide) free(addresses ...string) {
	g.t.Helper()
	for _, a := range addresses {
		ln, err := net.Listen("tcp", a)
		if err != nil {
			g.t.Skipf("the page has a fixed address that is in use: %v", err)
		}
		_ = ln.Close()
	}
}

// TestThreeServersGuide runs each command of the section for operators, with mutual TLS.
func TestThreeServersGuide(t *testing.T) {
	t.Parallel()
	const page = "../../docs/operate.md"
	g := &guide{t: t, dir: tempDir(t), env: map[string][]string{}, running: map[string]*process{}}
	g.free("127.0.0.5:7480", "127.0.0.6:7480", "127.0.0.7:7480", "127.0.0.5:7490", "127.0.0.6:7490", "127.0.0.7:7490",
		"127.0.0.5:7481")
	g.certificates(page)
	for _, line := range commands(section(t, page, "Three servers")) {
		if strings.HasPrefix(line, "c$ cantina server") && g.running["c server"] != nil { // the disk of c is lost
			if err := os.RemoveAll(filepath.Join(g.dir, "c")); err != nil {
				t.Fatal(err)
			}
		}
		if strings.Contains(line, "members remove c") {
			g.running["c server"].kill()
		}
		g.run(line)
	}
	if len(g.running) < 4 {
		t.Errorf("the section starts %d processes", len(g.running))
	}
}
