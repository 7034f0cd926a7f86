package scripttest

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/testscript"
)

// terminal runs a command in a pseudo terminal of 24 rows and 80 columns. Each line of the file is a
// step: type TEXT, expect TEXT (in the output since the step before), size ROWS COLUMNS, end CODE.
// Texts are quoted like strings of Go.
func terminal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: terminal STEPS CMD [ARG...]")
	}
	name, err := exec.LookPath(args[1])
	if errors.Is(err, exec.ErrNotFound) || name == "" {
		name, err = lookIn(ts.Getenv("PATH"), args[1])
	}
	ts.Check(err)
	cmd := exec.Command(name, args[2:]...)
	cmd.Dir = ts.Getenv("WORK")
	for _, k := range []string{"PATH", "WORK", "XDG_RUNTIME_DIR", "XDG_DATA_HOME", "CANTINA_ADDR"} {
		cmd.Env = append(cmd.Env, k+"="+ts.Getenv(k))
	}
	cmd.Env = append(cmd.Env, "TERM=vt100")
	master, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	ts.Check(err)
	defer master.Close()
	output := make(chan string, 1000)
	go func() {
		defer close(output)
		for b := make([]byte, 4096); ; {
			n, err := master.Read(b)
			output <- string(b[:n])
			if err != nil {
				return
			}
		}
	}()
	x := &screen{ts, master, output, cmd, ""}
	for step := range strings.Lines(ts.ReadFile(args[0])) {
		if verb, rest, _ := strings.Cut(strings.TrimSpace(step), " "); verb != "" && verb[0] != '#' {
			x.step(verb, rest)
		}
	}
}

// lookIn finds a program in the directories of path.
func lookIn(path, name string) (string, error) {
	for dir := range strings.SplitSeq(path, string(os.PathListSeparator)) {
		if info, err := os.Stat(dir + "/" + name); err == nil && info.Mode()&0o111 != 0 {
			return dir + "/" + name, nil
		}
	}
	return "", exec.ErrNotFound
}

// screen is a command in a terminal; unread is its output that no step has used.
type screen struct {
	ts     *testscript.TestScript
	master *os.File
	output <-chan string
	cmd    *exec.Cmd
	unread string
}

func (x *screen) step(verb, rest string) {
	text, err := strconv.Unquote(rest)
	switch verb {
	case "type":
		x.ts.Check(err)
		_, err = x.master.WriteString(text)
	case "expect":
		x.ts.Check(err)
		x.expect(text)
	case "size":
		rows, columns, _ := strings.Cut(rest, " ")
		r, err1 := strconv.ParseUint(rows, 10, 16)
		c, err2 := strconv.ParseUint(columns, 10, 16)
		err = errors.Join(err1, err2, pty.Setsize(x.master, &pty.Winsize{Rows: uint16(r), Cols: uint16(c)}))
	case "end":
		var want int
		want, err = strconv.Atoi(rest)
		x.ts.Check(err)
		x.end(want)
	default:
		x.ts.Fatalf("no such step: %s", verb)
	}
	x.ts.Check(err)
}

// expect waits for a text in the output.
func (x *screen) expect(text string) {
	limit := time.After(patience)
	for {
		if i := strings.Index(x.unread, text); i >= 0 {
			x.unread = x.unread[i+len(text):]
			return
		}
		select {
		case more, ok := <-x.output:
			if x.unread += more; !ok {
				x.ts.Fatalf("it ended without %q: %q", text, x.unread)
			}
		case <-limit:
			x.ts.Fatalf("%q does not come: %q", text, x.unread)
		}
	}
}

// end waits until the command ends with an exit code.
func (x *screen) end(want int) {
	ended := make(chan error, 1)
	go func() { ended <- x.cmd.Wait() }()
	limit := time.After(patience)
	for {
		select {
		case more := <-x.output:
			x.unread += more
		case <-ended:
			if got := x.cmd.ProcessState.ExitCode(); got != want {
				x.ts.Fatalf("exit code %d, want %d: %q", got, want, x.unread)
			}
			return
		case <-limit:
			_ = x.cmd.Process.Signal(syscall.SIGKILL)
			x.ts.Fatalf("it does not end: %q", x.unread)
		}
	}
}
