package logstore

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const childDir = "CANTINA_TEST_OUTPUT_DIR"

// TestWriterChild is not a test: it is the process that TestKilledProcess kills. It writes numbered lines and
// prints the written ones on its standard output.
func TestWriterChild(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		t.Skip("only as a child of TestKilledProcess")
	}
	st := open(t, dir, Config{Own: 64 * kib, Shared: 16 * kib, Promote: 32 * kib})
	w := writer(t, st, "big", Stdout)
	p := ask(t, st, Query{IDs: []string{"big"}, Backward: true, Limit: 1})
	n := 0
	if len(p.Lines) > 0 {
		n = number(t, p.Lines[0]) + 1
	}
	for ; ; n++ {
		write(t, w, fmt.Sprintf("%d %s\n", n, strings.Repeat("x", n%300)))
		fmt.Println(n)
		if n%50 == 0 {
			small := writer(t, st, fmt.Sprint("small", n), Stdout)
			write(t, small, "A\n")
			finish(t, small)
		}
	}
}

func number(t *testing.T, l Line) int {
	t.Helper()
	text, _, _ := strings.Cut(string(l.Data), " ")
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%q: %v", texts([]Line{l}), err)
	}
	return n
}

// A process is killed with SIGKILL while it writes at full speed, again and again;
// a reader pages on from its cursor over all its lives. (Issue of the executor,
// item 8; no acknowledged line is lost, none comes twice.)
func TestKilledProcess(t *testing.T) {
	dir := t.TempDir()
	next, cursor := 0, ""
	for life := range 8 {
		said := killed(t, dir, 200+life*137)
		st, err := Open(dir, Config{Own: 64 * kib, Shared: 16 * kib, Promote: 32 * kib})
		if err != nil {
			t.Fatal(err)
		}
		q := Query{IDs: []string{"big"}, Cursor: cursor}
		for _, l := range all(t, st, q) {
			if n := number(t, l); n != next || l.Seq != uint64(n)+1 {
				t.Fatalf("life %d: line %d came instead of %d", life, n, next)
			}
			next++
			cursor = l.Cursor()
		}
		if next <= said {
			t.Fatalf("life %d: line %d was written, %d lines are there", life, said, next)
		}
		if n := len(all(t, st, Query{Match: mustMatch("^A$")})); n < said/50-life-1 {
			// each kill may have come just before one
			t.Errorf("life %d: %d small containers", life, n)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// killed runs the child until it has printed some lines and returns the last number.
func killed(t *testing.T, dir string, lines int) int {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestWriterChild$")
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	last, count := -1, 0
	for s := bufio.NewScanner(out); s.Scan(); {
		n, err := strconv.Atoi(s.Text())
		if err != nil {
			continue // cut by the kill, or the test's own words
		}
		if n <= last { // a cut number
			break
		}
		last = n
		if count++; count == lines {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || count < lines {
		t.Fatalf("the child ended by itself after %d lines: %v", count, err)
	}
	return last
}

// TestTornBeginningInANewSegment: a process that dies while a source's first chunk in a
// shared segment is being written leaves its name there and no line: the source goes on
// from where its lines are, and repeats none.
func TestTornBeginningInANewSegment(t *testing.T) {
	dir := t.TempDir()
	st := open(t, dir, Config{Own: 64 * kib, Shared: 4 * kib, Promote: 32 * kib})
	a, b := writer(t, st, "a", Stdout), writer(t, st, "b", Stdout)
	write(t, a, "one\n")
	write(t, b, strings.Repeat("x", 5*kib)+"\n") // the segment is full
	write(t, b, "b\n")
	write(t, a, "two\n")
	crash(t, st)
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(logs) != 2 {
		t.Fatal(logs, err)
	}
	info, err := os.Stat(logs[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(logs[1], info.Size()-2); err != nil {
		t.Fatal(err)
	}
	for range 2 { // also when the segment has an index
		st = open(t, dir, Config{})
		a = writer(t, st, "a", Stdout)
		if n := a.Written(); n != 4 {
			t.Fatalf("goes on from byte %d, not 4", n)
		}
		crash(t, st)
	}
	st = open(t, dir, Config{})
	write(t, writer(t, st, "a", Stdout), "two\n")
	got := all(t, st, Query{IDs: []string{"a"}})
	if len(got) != 2 || string(got[0].Data) != "one" || string(got[1].Data) != "two" || got[1].Seq != 2 {
		t.Errorf("%+v", got)
	}
}
