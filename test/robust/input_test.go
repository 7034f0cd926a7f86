package robust

import (
	"encoding/json"
	"fmt"

	"path/filepath"
	"strings"
	"testing"

	pb "cantina/wire/cantinav1"
)

// TestBadInput gives one dev server invalid input. Each case ends in an error text, and a task that runs afterwards
// shows that nothing was harmed.
func TestBadInput(t *testing.T) {
	data := filepath.Join(tempDir(t), "data")
	d := startDev(t, data).wait()
	apply(t, d.Addr, "domain: keep\nservices: {still: {command: [sleep, '1000'], stop_grace: 1s}}\n")
	must(t, d.Addr, "wait", "still", "--timeout", "100s")
	pid := steady(t, filepath.Join(data, "cell"))
	for _, c := range []struct {
		name string
		run  func(*testing.T, *process)
	}{
		{"garbage instead of YAML", garbage}, {"a NUL in a value", nul}, {"a spec of 10 MB", bigSpec},
		{"a spec that is too big", hugeSpec},
		{"a command that does not exist", missingCommand}, {"a directory as command", dirCommand},
		{"an environment value with everything in it", strangeValue}, {"output that is not UTF-8", rawOutput},
		{"the data directory in use", func(t *testing.T, d *process) { dirInUse(t, d, data) }}, {"a port taken", portTaken},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.run(t, d)
			if out := must(t, d.Addr, "run", "--", "echo", "alive"); out != "alive\n" {
				t.Errorf("a task afterwards printed %q", out)
			}
		})
	}
	if now := steady(t, filepath.Join(data, "cell")); fmt.Sprint(now) != fmt.Sprint(pid) {
		t.Errorf("processes %v before, %v after", pid, now)
	}
	d.stop()
	clean(t, filepath.Join(data, "cell"))
}

// refusedSpec applies a spec and demands that it is refused with these words.
func refusedSpec(t *testing.T, d *process, text string, words ...string) {
	t.Helper()
	r := cli(t, d.Addr, "apply", write(t, "bad.yaml", text))
	if r.code != 2 {
		t.Errorf("exit code %d, want 2", r.code)
	}
	for _, w := range words {
		if !strings.Contains(r.err, w) {
			t.Errorf("%q is not in %.500q", w, r.err)
		}
	}
	if len(r.err) > 20000 {
		t.Errorf("%d bytes of words", len(r.err))
	}
}

func garbage(t *testing.T, d *process) {
	refusedSpec(t, d, "services: [\x01\x02\xff{{{:", "bad.yaml:1:")
	refusedSpec(t, d, "services: {web: {comand: [true], instances: many}}\n", "bad.yaml:1:", "comand", "did you mean",
		"instances")
}

func nul(t *testing.T, d *process) {
	refusedSpec(t, d, "domain: n\ntasks:\n  x: {command: ['true'], env: {A: \"b\\0c\"}}\n", "bad.yaml:3:", "NUL")
}

func bigSpec(t *testing.T, d *process) {
	var b strings.Builder
	b.WriteString("domain: big\njobs:\n  big:\n    levels: [n]\n    enabled: false\n    command: ['true']\n    nodes:\n" +
		"    - manual:\n")
	for i := 0; b.Len() < 10<<20; i++ {
		fmt.Fprintf(&b, "      - a-node-with-a-rather-long-name-so-that-there-are-fewer-of-them-%0100d\n", i)
	}
	r := cli(t, d.Addr, "apply", write(t, "big.yaml", b.String()))
	if r.code > 2 || len(r.err) > 20000 {
		t.Errorf("exit code %d, %.500s", r.code, r.err)
	}
	t.Logf("exit code %d, %.300s", r.code, r.out+r.err)
	if r.code == 0 { // acknowledged writes are there
		must(t, d.Addr, "rm", "job/big", "--yes")
	} else if !strings.Contains(r.err, "too large") {
		t.Errorf("refused with %.500q", r.err)
	}
}

func hugeSpec(t *testing.T, d *process) {
	for _, kind := range []string{"tasks", "services", "jobs"} {
		r := cli(t, d.Addr, "apply", write(t, "huge.yaml", "domain: huge\n"+kind+": {x: {command: ['true'], env: {A: '"+
			strings.Repeat("x", 10<<20)+"'}}}\n"))
		if r.code != 1 && r.code != 2 || len(r.err) > 20000 {
			t.Errorf("%s: exit code %d, %.500q", kind, r.code, r.err)
		}
	}
	refusedSpec(t, d, "domain: huge\n#"+strings.Repeat("x", 17<<20)+"\n")
}

func missingCommand(t *testing.T, d *process) {
	refusedCommand(t, d, "/no/such/program", "no such file")
	refusedCommand(t, d, "no-such-program-anywhere", "not found")
}

func dirCommand(t *testing.T, d *process) { refusedCommand(t, d, "/usr", "directory") }

// refusedCommand runs impossible work as a task, a service and a batch task; each gives the reason.
func refusedCommand(t *testing.T, d *process, command, words string) {
	t.Helper()
	if r := cli(t, d.Addr, "run", "--", command); r.code == 0 || !strings.Contains(r.err, words) {
		t.Errorf("run: exit code %d, %q", r.code, r.err)
	}
	apply(t, d.Addr,
		fmt.Sprintf("domain: bad\nservices: {bad: {command: [%[1]s]}}\njobs: {badjob: {levels: [n], nodes: [{manual: "+
			"[x]}], retries: 0, command: [%[1]s]}}\n", command))
	if r := cli(t, d.Addr, "wait", "badjob", "--timeout", "100s"); r.code != 1 {
		t.Errorf("job: exit code %d, %q", r.code, r.err)
	}
	if out := must(t, d.Addr, "explain", "badjob/x"); !strings.Contains(out, words) {
		t.Errorf("explain of the batch task: %q", out)
	}
	// Its crashes are known by the time that it waits for its restart.
	crashed := func() bool {
		return strings.Contains(must(t, d.Addr, "ps", "--domain", "bad", "-o", "jsonl"), words)
	}
	if err := until(t.Context(), d.client(), &pb.StreamEventsRequest{Kind: []string{"instance"}, Domain: "bad"},
		crashed); err != nil {
		t.Errorf("service: %v", err)
	}
	must(t, d.Addr, "rm", "bad", "--yes")
	must(t, d.Addr, "rm", "badjob", "--yes")
}

func strangeValue(t *testing.T, d *process) {
	value := "a$HOME ${X} `id` \"quoted\" 'single' \\ {{.x}} {} #no\nnext line\ttab é \u2028 end"
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, d.Addr,
		fmt.Sprintf("domain: env\ntasks: {env: {command: 'printf %%s \"$STRANGE\" >out', result_file: out, env: {STRANGE: "+
			"%s}}}\n", text))
	must(t, d.Addr, "wait", "env", "--timeout", "100s")
	if got := must(t, d.Addr, "task", "result", "env"); got != value {
		t.Errorf("the program got %q, want %q", got, value)
	}
}

func rawOutput(t *testing.T, d *process) {
	if r := cli(t, d.Addr, "run", "--id", "raw", "--", "sh", "-c", `printf 'a\377\376\000b\n\200no end'`); r.code != 0 {
		t.Fatalf("run: %d %s", r.code, r.err)
	}
	got, want := must(t, d.Addr, "logs", "--raw", "raw"), "a\xff\xfe\x00b\n\x80no end"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func dirInUse(t *testing.T, _ *process, data string) {
	second := launch(t, "second", nil, "dev", "--data", data, "--socket", "none", "--listen", "127.0.0.1:0")
	<-second.ended
	<-second.drained
	if second.cmd.ProcessState.ExitCode() != 1 ||
		!second.log.until(nil, patience, func(s string) bool { return strings.Contains(s, "in use") }) {
		t.Errorf("exit code %d: %s", second.cmd.ProcessState.ExitCode(), second.log.tail(5))
	}
}

func portTaken(t *testing.T, d *process) {
	second := launch(t, "second", nil, "dev", "--data", tempDir(t), "--socket", "none", "--listen", d.Addr)
	<-second.ended
	if second.cmd.ProcessState.ExitCode() != 1 ||
		!second.log.until(nil, patience, func(s string) bool { return strings.Contains(s, "in use") }) {
		t.Errorf("exit code %d: %s", second.cmd.ProcessState.ExitCode(), second.log.tail(5))
	}
}
