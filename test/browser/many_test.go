package browser

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// work is the spec of one of several servers: the same job with other nodes, and other retries at one of them.
func work(t *testing.T, server, retries int) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "work.yaml")
	text := fmt.Sprintf(`domain: shop
services:
  web: {command: 'while true; do echo serving at %[1]d; sleep 1; done', instances: 3, memory: 8Mi}
tasks:
  report: {command: 'echo counted at %[1]d'}
jobs:
  copy:
    levels: [host, db]
    nodes:
      - manual: {h%[1]d: [h%[1]d.a, h%[1]d.b, h%[1]d.c], g%[1]d: [g%[1]d.a, g%[1]d.bad]}
    resources: {instance: {running: {limit: 5}}}
    command: ['sh', '-c', 'echo copying $0; case $0 in *.bad) exit 3;; esac', '{}']
    retries: %[2]d
    backoff: [1s, fail]
schedules:
  nightly: {cron: '0 5 * * *', timezone: Europe/Berlin, task: {command: 'true'}}
`, server, retries)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestManyServers: one page over three servers, of which one has another definition of a job, and is stopped then.
func TestManyServers(t *testing.T) {
	token := "CANTINA_TOKEN_FILE=" + filepath.Join(t.TempDir(), "token")
	var servers []*cluster
	var list []string
	for i := range 3 {
		c := startCluster(t, token)
		c.run("apply", work(t, i+1, i/2))
		servers, list = append(servers, c), append(list, c.address)
	}
	link, _, _ := servers[0].start("ui", "--servers", strings.Join(list, ","), "--listen", "127.0.0.1:0", "-q")
	x := openTab(t)
	x.open0(link)
	x.shows("3/3", "9/9", list[0], list[1], list[2])
	for _, c := range servers {
		c.fails(1, "wait", "job/copy")
	}
	if key := eval[string](x, "location.href + document.referrer"); strings.Contains(key, "key=") {
		t.Errorf("the key stays in the address bar: %s", key)
	}
	at := "#/at/" + strings.ReplaceAll(list[0], ":", "%3A")
	pages := func(names ...string) {
		for _, p := range []struct {
			name, hash string
			texts      []string
		}{
			{"many-servers", "#/", []string{list[0], list[2]}},
			{"many-services", "#/services", []string{"shop/web", list[0], list[1]}},
			{"many-tasks", "#/tasks", []string{"shop.report", list[0], list[1]}},
			{"many-schedules", "#/schedules", []string{"Europe/Berlin", list[0], list[1]}},
			{"many-cells", "#/cells", []string{"HEALTHY", list[0], list[1]}},
			{"many-jobs", "#/jobs", []string{"shop/copy"}},
			{"many-job", "#/job/shop/copy", []string{"Servers disagree", "definition.retries", "By server",
				list[0], list[1]}},
			{"many-one-overview", at + "/", []string{"All servers", list[0], "live", "Needs attention"}},
			{"many-one-job", at + "/job/shop/copy", []string{"Retry failed…", "Level host", "g1", "1/2"}},
			{"many-one-node", at + "/node/shop/copy/g1.bad", []string{"copying g1.bad", "exit status 3"}},
			{"many-one-output", at + "/output?domain=shop&service=web", []string{"serving at 1"}},
		} {
			if len(names) > 0 && !strings.Contains(strings.Join(names, " "), p.name) {
				continue
			}
			t.Run(p.name, func(t *testing.T) {
				x.t = t
				x.open(p.hash, p.texts...)
				x.shoot(p.name)
				x.accessible(p.name)
				x.size(390, 844)
				x.holds("document.documentElement.scrollWidth <= innerWidth")
				x.size(1360, 900)
			})
		}
		x.t = t
	}
	pages()

	// The way of the original's test drive: servers, jobs, bars, batch tasks, output.
	x.open("#/", list[1])
	x.follow("nav a", "Jobs")
	x.shows("12/15")
	x.follow("main a.name", "shop/copy")
	x.shows("By server")
	x.follow("main a.name", list[1])
	x.shows("All servers", "Level host", "g2")
	eval[bool](x, `(document.querySelector('main .bar a.seg.failed').click(), true)`)
	x.shows("Failed nodes", "g2.bad")
	x.follow("main a.name", "g2.bad")
	x.shows("copying g2.bad", "exit status 3")

	// A write goes to the server of the page, which its confirmation names, and to no other.
	x.open(at+"/job/shop/copy", "Retry failed…")
	x.press("main", "Pause…")
	x.shows("on server " + list[0])
	x.press("dialog", "Pause")
	x.shows("Resume…")
	paused := func(c *cluster) string { return c.run("job", "get", "copy", "--template", "{{.paused}}") }
	if got := paused(servers[0]) + paused(servers[1]); got != "truefalse" {
		t.Errorf("paused: %s", got)
	}

	// One server stops. It is named, with the age of its data; the others are as before.
	x.open("#/", "3/3")
	servers[2].stop()
	x.shows("2/3", "down", "9/9")
	x.holds(`[...document.querySelectorAll('main tbody tr')].some(r =>
		r.innerText.includes("down") && /\d+s ago/.test(r.innerText))`)
	x.shoot("many-down")
	x.accessible("many-down")
	x.open("#/job/shop/copy", "1 server of 3 did not answer", list[2], "By server")
	pages("many-services", "many-jobs")
	eval[string](x, "location.hash = "+quote("#/at/"+strings.ReplaceAll(list[2], ":", "%3A")+"/"))
	x.shows("no connection to "+list[2]+": connection refused", "offline")
	x.allowed(func(m string) bool { return strings.Contains(m, "status of 502") })
	x.clean()
}

// TestALargeJobOverThreeServers: the job of 100,000 nodes at each of three servers, of which one is stopped, is shown
// soon and with little data, together and at one of them.
func TestALargeJobOverThreeServers(t *testing.T) {
	token := "CANTINA_TOKEN_FILE=" + filepath.Join(t.TempDir(), "token")
	var servers []*cluster
	var list []string
	for range 3 {
		c := startCluster(t, token)
		c.run("apply", largeJob(t))
		servers, list = append(servers, c), append(list, c.address)
	}
	servers[2].stop()
	link, _, _ := servers[0].start("ui", "--servers", strings.Join(list, ","), "--listen", "127.0.0.1:0", "-q")
	x := openTab(t)
	x.open0(link)
	x.shows("2/3", "down")
	const size = `performance.getEntriesByType("resource").reduce((n, e) => n + e.transferSize, 0)`
	for _, p := range []struct {
		name, hash string
		texts      []string
	}{
		{"large-many", "#/job/shop/large", []string{"1 server of 3 did not answer", "By server", list[0], list[1],
			"200,000"}},
		{"large-one", "#/at/" + strings.ReplaceAll(list[1], ":", "%3A") + "/job/shop/large",
			[]string{"Level host", "host100", "0/1,000", "100,000"}},
	} {
		before, begin := eval[int](x, size), eval[float64](x, `performance.now()`)
		x.open(p.hash, p.texts...)
		took := eval[float64](x, `performance.now()`) - begin
		if n := eval[int](x, size) - before; n > 1<<20 {
			t.Errorf("%s: %d bytes were transferred", p.name, n)
		} else {
			t.Logf("%s: shown after %.0f ms, %d bytes", p.name, took, n)
		}
		x.shoot(p.name)
	}
	x.allowed(func(m string) bool { return strings.Contains(m, "status of 502") })
	x.clean()
}

// TestTwoHundredServers: 20 hang and 5 have another version. All good rows are there long before the deadline of
// those, and then each row has its state.
func TestTwoHundredServers(t *testing.T) {
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	var list []string
	for i := range 200 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		answer := func(w http.ResponseWriter, r *http.Request) {
			switch {
			case i%10 == 3:
				select {
				case <-release:
				case <-r.Context().Done():
				}
				return
			case i%40 == 5:
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{"status": map[string]any{
				"cluster": fmt.Sprint("cluster-", i), "build": "v1", "warnings": []string{},
				"counts": map[string]int{"cells": 2, "cells_healthy": 2}}})
		}
		s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(answer)}
		go func() { _ = s.Serve(ln) }()
		t.Cleanup(func() { _ = s.Close() })
		list = append(list, ln.Addr().String())
	}
	file := filepath.Join(t.TempDir(), "servers")
	if err := os.WriteFile(file, []byte("# all\n"+strings.Join(list, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, program: program(t), env: append(os.Environ(), "XDG_DATA_HOME="+t.TempDir(), "CANTINA_ADDR=")}
	link, _, _ := c.start("ui", "--servers", file, "--listen", "127.0.0.1:0", "-q", "--server-timeout", "10s")
	x := openTab(t)
	x.open0(link)
	// Before the deadline: the hanging ones have no row yet.
	x.holds(`[...document.querySelectorAll('main tbody tr')].filter(r => / ok/.test(r.innerText)).length === 175`)
	if n := eval[int](x, `document.querySelectorAll('main tbody tr').length`); n > 180 {
		t.Errorf("%d rows: some that hang are final", n)
	}
	took := eval[float64](x, `performance.now()`)
	t.Logf("175 good rows %.0f ms after the page was loaded", took)
	x.shows("175/200")
	x.holds(`[...document.querySelectorAll('main tbody tr')].filter(r => /no answer/.test(r.innerText)).length === 20`)
	x.shows("other version")
	if n := eval[int](x, `document.querySelectorAll('main tbody tr').length`); n != 200 {
		t.Errorf("%d rows", n)
	}
	x.shoot("many-200")
	x.clean()
}

// TestOtherServersByForm: a person types servers. Only those of the list or permitted ones are read.
func TestOtherServersByForm(t *testing.T) {
	token := "CANTINA_TOKEN_FILE=" + filepath.Join(t.TempDir(), "token")
	c, other := startCluster(t, token), startCluster(t, token)
	link, address, _ := c.start("ui", "--servers", c.address, "--servers-allow", "127.0.0.0/8",
		"--listen", "127.0.0.1:0", "-q")
	x := openTab(t)
	x.open0(link)
	x.shows("1/1", c.address)
	eval[bool](x, fmt.Sprintf(`(() => {
		const i = document.querySelector('form.servers input')
		Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(i, %s)
		i.dispatchEvent(new Event('input', {bubbles: true}))
		return true
	})()`, quote(other.address+" 192.0.2.1:7480")))
	x.press("form.servers", "Read")
	x.shows(other.address, "192.0.2.1:7480", "not allowed", "1/2")
	x.holds(`!document.body.innerText.includes(` + quote(c.address) + `)`)
	// Without its key the gateway answers nothing.
	for _, path := range []string{"/many/servers", "/many/v1/status", "/at/" + c.address + "/v1/status"} {
		res, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: HTTP %d", path, res.StatusCode)
		}
	}
}
