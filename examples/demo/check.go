package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

type instances struct {
	Instances []struct {
		Service, State, Address, Instance string
		Index                             int
		CrashCount                        int `json:"crash_count"`
		Ports                             []struct {
			Name string
			Port int
		}
	}
}

// kill ends one instance of web by hand, as a person would, and waits until
// cantina has brought it back.
func (d *demo) kill(ctx context.Context) error {
	if _, err := d.run(ctx, "wait", "web", "--for", "healthy", "--timeout", "1m"); err != nil {
		return fmt.Errorf("service web: %w", err)
	}
	before, err := d.web(ctx)
	if err != nil {
		return err
	}
	victim := before.Instances[0]
	port := strconv.Itoa(victim.Ports[0].Port)
	pid, err := exec.CommandContext(ctx, "sh", "-c", "for p in /proc/[0-9]*; do grep -qz '^PORT="+port+
		"$' $p/environ 2>/dev/null && echo ${p#/proc/}; done").Output()
	if err != nil && len(pid) == 0 {
		return fmt.Errorf("process of port %s: %w", port, err)
	}
	fields := strings.Fields(string(pid))
	if len(fields) == 0 {
		return fmt.Errorf("no process has PORT=%s", port)
	}
	d.say("• kill -9 %s: instance %d of web, on port %s", fields[0], victim.Index, port)
	if err := exec.CommandContext(ctx, "kill", "-9", fields[0]).Run(); err != nil {
		return fmt.Errorf("kill: %w", err)
	}
	begin := time.Now()
	for {
		now, err := d.web(ctx)
		if err != nil {
			return err
		}
		it := now.Instances[0]
		if it.State == "RUNNING" && it.Instance != victim.Instance {
			d.say("  back after %s as another instance, on port %d; crashes counted: %d",
				time.Since(begin).Round(time.Millisecond), it.Ports[0].Port, it.CrashCount)
			return nil
		}
		if time.Since(begin) > time.Minute {
			return errors.New("web did not come back within a minute")
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func (d *demo) web(ctx context.Context) (instances, error) {
	var all instances
	if err := d.get(ctx, "/v1/instances?domain=demo&service=web", &all); err != nil {
		return all, err
	}
	if len(all.Instances) != 2 {
		return all, fmt.Errorf("web has %d instances, want 2", len(all.Instances))
	}
	return all, nil
}

// totals are the sums of a whole run.
type totals struct{ files, lines, bytes int }

// check compares the job's results with find, wc and sha256sum, file by file, and prints the
// summary.
func (d *demo) check(ctx context.Context, took time.Duration) error {
	src, err := sourceRoot()
	if err != nil {
		return err
	}
	d.say("• comparing with find, wc and sha256sum")
	got, sums, err := d.results(ctx)
	if err != nil {
		return err
	}
	want, err := truth(ctx, src)
	if err != nil {
		return err
	}
	if err := compare(src, sums, want.sums); err != nil {
		return err
	}
	if got != want.totals {
		return fmt.Errorf("the job found %+v, find and wc say %+v", got, want.totals)
	}
	return d.summary(ctx, got, took)
}

// results reads `cantina job results measure -o jsonl`.
func (d *demo) results(ctx context.Context) (totals, map[string]string, error) {
	var t totals
	out, err := d.run(ctx, "job", "results", "measure", "-o", "jsonl")
	if err != nil {
		return t, nil, fmt.Errorf("job results: %w", err)
	}
	sums := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r struct {
			Node string
			Data measurement
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return t, nil, fmt.Errorf("job results: %w: %s", err, lines.Text())
		}
		if _, twice := sums[r.Node]; twice {
			return t, nil, fmt.Errorf("job results: %s stands there twice", r.Node)
		}
		sums[r.Node] = r.Data.SHA256
		t.files, t.lines, t.bytes = t.files+1, t.lines+r.Data.Lines, t.bytes+r.Data.Bytes
	}
	return t, sums, lines.Err()
}

type truths struct {
	totals totals
	sums   map[string]string
}

// truth runs the tools of the system.
func truth(ctx context.Context, src string) (truths, error) {
	out := truths{sums: map[string]string{}}
	sums, err := shell(ctx, src, `find . -type f -name '*.go' -print0 | xargs -0 sha256sum`)
	if err != nil {
		return out, err
	}
	for line := range strings.Lines(sums) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			return out, fmt.Errorf("sha256sum printed %q", line)
		}
		out.sums[filepath.Clean(name)] = sum
	}
	out.totals.files = len(out.sums)
	count, err := shell(ctx, src, `find . -type f -name '*.go' -print0 | xargs -0 cat | wc -l -c`)
	if err != nil {
		return out, err
	}
	_, err = fmt.Sscan(count, &out.totals.lines, &out.totals.bytes)
	return out, err
}

func shell(ctx context.Context, dir, script string) (string, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", script, err)
	}
	return string(out), nil
}

// compare returns the first differences between two sets of sums.
func compare(src string, got, want map[string]string) error {
	var wrong []string
	for name, sum := range want {
		switch {
		case got[name] == "":
			wrong = append(wrong, name+": no result")
		case got[name] != sum:
			wrong = append(wrong, fmt.Sprintf("%s: %s, sha256sum printed %s", name, got[name], sum))
		}
	}
	for name := range got {
		if want[name] == "" {
			wrong = append(wrong, name+": is not below "+src)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d files differ: %s", len(wrong), len(want), strings.Join(wrong[:min(len(wrong), 5)], "; "))
}

// summary prints the results.
func (d *demo) summary(ctx context.Context, t totals, took time.Duration) error {
	var one struct {
		Task struct {
			Outcome string
			Result  []byte
		}
	}
	if err := d.get(ctx, "/v1/tasks/demo.toolchain", &one); err != nil {
		return err
	}
	var result struct {
		Version  string
		Packages int
	}
	if err := json.Unmarshal(one.Task.Result, &result); err != nil {
		return fmt.Errorf("result of the task: %w: %q", err, one.Task.Result)
	}
	all, err := d.web(ctx)
	if err != nil {
		return err
	}
	fmt.Println("summary")
	fmt.Printf("  job measure      %d batch tasks in %s (%.0f/s): %d lines, %d bytes; "+
		"every SHA-256 is the one of sha256sum\n",
		t.files, took.Round(time.Second), float64(t.files)/took.Seconds(), t.lines, t.bytes)
	fmt.Printf("  task toolchain   %s: %s, %d packages\n", one.Task.Outcome, result.Version, result.Packages)
	for _, it := range all.Instances {
		url := fmt.Sprintf("http://%s:%d/", it.Address, it.Ports[0].Port)
		size, err := fetch(ctx, url)
		if err != nil {
			return fmt.Errorf("service web: %w", err)
		}
		fmt.Printf("  service web/%d    %s on %s (answers with %d bytes)\n", it.Index, it.State, url, size)
	}
	fmt.Printf("  API              http://%s/v1/status, for clients with the token in %s\n", d.address, d.tokenFile())
	return nil
}

func fetch(ctx context.Context, url string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return len(text), err
}
