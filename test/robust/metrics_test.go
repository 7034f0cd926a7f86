package robust

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"cantina/store/etcdtest"
)

// scrape asks the listener for monitoring.
func scrape(t *testing.T, address, path string, header http.Header) (int, string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header = header
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(body)
}

// documented are the metrics with their types, by the tables of the page for operators.
func documented(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{}
	rows := regexp.MustCompile("(?m)^\\| `(cantina_[a-z_]+)` \\| ([a-z]+) \\|")
	for _, row := range rows.FindAllStringSubmatch(string(page), -1) {
		known[row[1]] = row[2]
	}
	for _, name := range regexp.MustCompile(`cantina_[a-z_]+`).FindAllString(string(page), -1) {
		if _, ok := known[strings.TrimSuffix(name, "_bucket")]; !ok {
			t.Errorf("%s is used in an alert, and is in no table", name)
		}
	}
	return known
}

// monitored is where a process has its metrics.
func (p *process) monitored() string {
	p.t.Helper()
	at := regexp.MustCompile(`metrics on (\S+)`).FindStringSubmatch(p.log.tail(1000))
	if at == nil {
		p.t.Fatalf("%s does not print where its metrics are: %s", p.name, p.log.tail(20))
	}
	return at[1]
}

// metrics are the values and the types of the metrics of a process.
func (p *process) metrics() (values map[string]float64, types map[string]string) {
	p.t.Helper()
	header := http.Header{}
	token.Sign(header)
	code, text := scrape(p.t, p.monitored(), "/metrics", header)
	if code != http.StatusOK {
		p.t.Fatalf("%d: %s", code, text)
	}
	values, types = map[string]float64{}, map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if kind, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, value, _ = strings.Cut(strings.TrimSpace(kind), " ")
			types[name] = value
		} else if v, err := strconv.ParseFloat(value, 64); err == nil {
			values[name] = v
		}
	}
	return values, types
}

// TestMetrics scrapes a dev that has run a task, killed an instance and cut an output, and a cell of
// simulated containers: the values are those of the work, names and types those of the documentation.
func TestMetrics(t *testing.T) {
	dir := tempDir(t)
	d := startDev(t, dir, "--metrics", "127.0.0.1:0").wait()
	if code, text := scrape(t, d.monitored(), "/metrics", nil); code != http.StatusUnauthorized {
		t.Errorf("without the token: %d %s", code, text)
	}
	// Before its cell knows that it is HEALTHY, it refuses work, which is then placed again.
	if !eventually(func() bool { return strings.Contains(d.log.tail(1000), "ready on") }) {
		t.Fatal("not ready")
	}
	apply(t, d.Addr,
		"domain: d\nservices:\n  web: {command: [/bin/sh, -c, 'trap \"\" TERM; while :; do sleep 1; done'], stop_grace: "+
			"100ms}\n"+
			"tasks:\n  loud: {command: [/usr/bin/seq, '100000'], log_rate: 1Ki}\n")
	must(t, d.Addr, "wait", "web", "loud", "--timeout", "100s")
	values, types := d.metrics()
	for name, want := range map[string]float64{"cantina_leader": 1, `cantina_sessions{state="HEALTHY"}`: 1,
		`cantina_instances{state="running"}`: 1, "cantina_instances_desired": 1,
		`cantina_tasks{state="completed"}`: 1, "cantina_placements_total": 2, "cantina_placement_wait_seconds_count": 2,
		"cantina_placement_queue_items": 0, "cantina_cell_launches_total": 2,
		`cantina_cell_sessions{state="HEALTHY"}`: 1, `cantina_cell_containers{state="RUNNING"}`: 1,
		`cantina_cell_log_dropped_lines_total{reason="disk"}`: 0, "cantina_held_work": 0} {
		if got, ok := values[name]; !ok || got != want {
			t.Errorf("%s is %v, %v; want %v", name, got, ok, want)
		}
	}
	for _, name := range []string{"cantina_store_commit_duration_seconds_count", "cantina_store_commit_bytes_sum",
		"cantina_store_commit_wait_seconds_count", "cantina_placement_rounds_total",
		`cantina_cell_log_dropped_lines_total{reason="rate_limit"}`, "cantina_cell_log_bytes",
		`cantina_api_requests_total{status="2xx"}`, "cantina_api_response_seconds_count",
		"etcd_disk_wal_fsync_duration_seconds_count", "process_cpu_seconds_total", "go_goroutines"} {
		if values[name] <= 0 {
			t.Errorf("%s is %v", name, values[name])
		}
	}
	must(t, d.Addr, "service", "scale", "web", "0")
	if !eventually(func() bool { now, _ := d.metrics(); return now["cantina_cell_kills_total"] == 1 }) {
		t.Error("the kill of an instance that ignores TERM is not counted")
	}
	known := documented(t)
	for name, kind := range types {
		if strings.HasPrefix(name, "cantina_") && known[name] != kind {
			t.Errorf("%s is a %s, and documented as %q", name, kind, known[name])
		}
		delete(known, name)
	}
	if len(known) > 0 {
		t.Errorf("documented, and not there: %v", known)
	}
	for _, q := range queries(t) {
		if missing := unknown(q, values); len(missing) > 0 {
			t.Errorf("%s: no series has %v", q, missing)
		}
	}
	header := http.Header{}
	token.Sign(header)
	if code, text := scrape(t, d.monitored(), "/debug/pprof/goroutine?debug=1", header); code != http.StatusOK ||
		!strings.Contains(text, "goroutine profile") {
		t.Errorf("a profile: %d", code)
	}
	s := start(t, "cells", "cell", "--simulate", "3", "--name", "many", "--data", filepath.Join(dir, "many"), "--servers",
		"127.0.0.1:1", "--metrics", "127.0.0.1:0").wait()
	if now, _ := s.metrics(); now[`cantina_cell_sessions{state="NEW"}`] != 3 {
		t.Errorf("simulated cells: %v", now)
	}
	for _, c := range []struct {
		address, path string
		code          int
		lines         string
	}{
		{d.Addr, "/healthz", 200, "[+]server ok\n[+]cell ok\nhealthz check passed\n"},
		{d.monitored(), "/readyz", 200, "[+]store ok\n[+]leader ok\n[+]writes ok\n[+]session ok\n[+]executor ok\n" +
			"[+]processes ok\n[+]disk ok\n[+]work ok\nreadyz check passed\n"},
		{s.monitored(), "/healthz", 200, "[+]cells ok\nhealthz check passed\n"},
		{s.monitored(), "/readyz", 503, "[-]session failed: is NEW: no leader counts on this cell\nreadyz check failed\n"},
	} {
		if code, text := scrape(t, c.address, c.path, nil); code != c.code || text != c.lines {
			t.Errorf("%s: %d\n%s", c.path, code, text)
		}
	}
	if r := cli(t, d.Addr, "server", "--data", filepath.Join(dir, "other"), "--socket", "none", "--listen", "127.0.0.1:0",
		"--metrics", d.monitored()); r.code == 0 || !strings.Contains(r.err, "--metrics") {
		t.Errorf("an address that is in use: code %d, %s", r.code, r.err)
	}
}

// TestHealthWithoutAMajority: a server that is alone of three works, so that it is not restarted, and takes no traffic.
func TestHealthWithoutAMajority(t *testing.T) {
	s := start(t, "a", "server", "--name", "a", "--data", tempDir(t), "--socket", "none", "--listen", "127.0.0.1:0",
		"--new-cluster", "--initial-cluster", "a="+etcdtest.FreeAddr(t)+",b=127.0.0.1:1,c=127.0.0.1:2").wait()
	if !eventually(func() bool {
		_, text := scrape(t, s.Addr, "/readyz", nil)
		return strings.Contains(text, "[-]store failed: is starting; this needs a majority")
	}) {
		t.Error("the missing majority is not reported")
	}
	if code, text := scrape(t, s.Addr, "/healthz", nil); code != http.StatusOK {
		t.Errorf("%d %s", code, text)
	}
}
