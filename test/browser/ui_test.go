package browser

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// TestPages opens every page on real work: its content, its console, its accessibility, in light and
// dark, wide and narrow.
func TestPages(t *testing.T) {
	c := startCluster(t)
	c.run("apply", "testdata/work.yaml")
	x := openTab(t)
	x.open0(c.run("ui", "-q"))
	x.shows("live", "Needs attention", "shop/flaky", "not placed: insufficient resources", "task shop.broken")
	if key := eval[string](x, "location.href + document.referrer"); strings.Contains(key, "key=") {
		t.Errorf("the key stays in the address bar: %s", key)
	}
	c.run("wait", "shop/web")
	x.open("#/job/shop/measure", "running", "Level rack")
	x.shoot("job-running")
	c.fails(1, "wait", "job/measure", "--timeout", "100s")
	for _, p := range []struct {
		name, hash string
		texts      []string
	}{
		{"overview", "#/", []string{"3/5", "10 of 200 batch tasks failed"}},
		{"services", "#/services", []string{"shop/web", "rolling out"}},
		{"service", "#/service/shop/web", []string{"web/2", "Follow output", "Definition of version 1"}},
		{"service-unplaced", "#/service/shop/huge", []string{"memory 900Gi needed, largest free", "remedy:",
			"0 of 1 healthy"}},
		{"service-crashed", "#/service/shop/flaky", []string{"exit status 3", "cannot open /etc/flaky.conf"}},
		{"jobs", "#/jobs", []string{"measure", "190/200"}},
		{"job", "#/job/shop/measure", []string{"Retry failed…", "Level rack", "rack10", "19/20", "95 %"}},
		{"job-after", "#/job/shop/report", []string{"stranded", "ranked priority", "round robin", "after", "measure"}},
		{"job-failed", "#/job/shop/measure?state=failed", []string{"Failed nodes", "rack7/d7", "exit status 1"}},
		{"job-below", "#/job/shop/measure?below=rack2", []string{"All nodes below rack2", "rack2/d20"}},
		{"node", "#/node/shop/measure/rack3%2Fd7", []string{"bad sector on rack3/d7", "exit status 1", "Retry…"}},
		{"node-result", "#/node/shop/measure/rack3%2Fd8", []string{"4096", "measured rack3/d8"}},
		{"tasks", "#/tasks", []string{"shop.report", "succeeded", "failed"}},
		{"task", "#/task/shop.report", []string{"succeeded", "42", "counted 42 rows"}},
		{"task-callback", "#/task/shop.broken", []string{"its callback is tried again: "}},
		{"schedules", "#/schedules", []string{"Europe/Berlin"}},
		{"schedule", "#/schedule/shop/nightly", []string{"t 02:30 on day 31 of the month in December", "Next firings",
			"missing hour: run, repeated hour: first"}},
		{"schedule-every", "#/schedule/shop/hourly", []string{"@every 1h", "Next firings"}},
		{"cells", "#/cells", []string{"c1", "HEALTHY"}},
		{"cell", "#/cell/c1", []string{"processors", "of 2", "shop/web/0", "control groups",
			"/usr/share read-only"}},
		{"events", "#/events", []string{"t-ui"}},
		{"output", "#/output?domain=shop&service=web&grep=caf%7C%5B17%5D+200",
			[]string{"GET /cart/", `caf\xe9`, "<b>bold</b>"}},
	} {
		t.Run(p.name, func(t *testing.T) {
			x.t = t
			if p.name == "events" {
				x.open(p.hash, "waiting for events")
				c.run("run", "-d", "--id", "t-ui", "--", "true")
			}
			x.open(p.hash, p.texts...)
			x.shoot(p.name)
			x.accessible(p.name)
			x.scheme("dark")
			x.accessible(p.name + ", dark")
			if p.name != "events" {
				x.shoot(p.name + "-dark")
			}
			x.scheme("light")
			x.size(390, 844)
			x.holds("document.documentElement.scrollWidth <= innerWidth")
			if p.name == "overview" || p.name == "job" || p.name == "output" {
				x.shoot(p.name + "-narrow")
			}
			x.size(1360, 900)
		})
	}
	x.t = t
	x.open("#/node/shop/measure/rack3%2Fd7", "attempts")
	x.holds(`document.querySelector('a[aria-label="Output of attempt 1"]') !== null`)
	x.open("#/schedule/shop/hourly", "Next firings")
	x.holds(`!/missing hour|repeated hour/.test(document.body.innerText)`)
	keys(x)
	x.clean()
}

// keys moves through the pages by the keyboard.
func keys(x *tab) {
	press := func(keys ...string) {
		x.t.Helper()
		for _, k := range keys {
			eval[bool](x, "(document.activeElement ?? document.body).dispatchEvent(new KeyboardEvent('keydown', {key: "+
				quote(k)+", bubbles: true, cancelable: true}))")
		}
	}
	for key, page := range map[string]string{"s": "Services", "j": "Jobs", "t": "Tasks", "h": "Schedules",
		"c": "Cells", "e": "Events", "o": "Overview"} {
		press("g", key)
		x.holds("document.querySelector('nav [aria-current=page]').textContent === " + quote(page))
	}
	press("g", "s")
	x.shows("shop/flaky")
	press("j")
	first := eval[string](x, "document.activeElement.textContent")
	press("j")
	second := eval[string](x, "document.activeElement.textContent")
	press("k")
	if again := eval[string](x, "document.activeElement.textContent"); first == "" || first == second || again != first {
		x.t.Errorf("j, j, k: rows %q, %q, %q", first, second, again)
	}
	press("/")
	x.holds("document.activeElement.matches('[data-filter]')")
	eval[bool](x, "(document.activeElement.blur(), true)")
	press("?")
	x.shows("next and previous row")
	x.accessible("the list of keys")
	x.press("dialog", "Close")

	// Times are in the browser's zone, or in UTC.
	if _, err := chromedp.Call(x.ctx, emulation.SetTimezoneOverride,
		emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kolkata"}); err != nil {
		x.t.Fatal(err)
	}
	eval[bool](x, "(location.reload(), true)")
	x.holds("!document.querySelector('dialog')")
	x.open("#/task/shop.report", "succeeded")
	zones := func() string { return eval[string](x, "document.querySelector('header').innerText") }
	before := zones()
	press("u")
	x.holds("document.querySelector('header').innerText !== " + quote(before))
	press("u")
	x.holds("document.querySelector('header').innerText === " + quote(before))
}

// open0 loads the page itself.
func (x *tab) open0(url string) {
	x.t.Helper()
	x.do(chromedp.Navigate(url))
	x.holds("document.querySelector('header nav')")
}

// TestActions makes each write by its button, and looks for its effect at the server.
func TestActions(t *testing.T) {
	c := startCluster(t)
	c.run("apply", "testdata/endless.yaml")
	c.run("apply", "testdata/work.yaml")
	x := openTab(t)
	x.open0(c.run("ui", "-q"))

	x.open("#/job/shop/endless", "Pause…", "Kill…")
	x.press("main", "Pause…")
	x.press("dialog", "Pause")
	x.shows("is paused", "Resume…")
	x.press("main", "Resume…")
	x.press("dialog", "Resume")
	x.shows("Pause…") // the page has read the job again
	x.press("main", "Kill…")
	x.press("dialog", "Kill")
	x.shows("are being ended")
	x.open("#/job/shop/endless?state=running", "Running nodes")
	x.follow("main table a.name", "")
	x.press("main", "Kill…")
	x.shows("invocation")
	x.press("dialog", "Kill")
	x.shows("is being ended")
	c.fails(1, "wait", "job/measure", "--timeout", "100s")
	x.open("#/node/shop/measure/rack3%2Fd7", "attempts")
	x.press("main", "Retry…")
	x.press("dialog", "Retry")
	x.shows("runs again")
	c.fails(1, "wait", "job/measure", "--timeout", "100s")
	x.open("#/job/shop/measure", "Retry failed…")
	x.press("main", "Retry failed…")
	x.press("dialog", "Retry failed")
	x.shows("run again")

	x.open("#/service/shop/web", "Scale…")
	x.press("main", "Scale…")
	x.shows("Scale service shop/web?")
	x.shoot("dialog")
	x.accessible("a dialog")
	x.press("dialog", "Cancel")
	x.holds("!document.querySelector('dialog')")
	x.press("main", "Scale…")
	x.fill("dialog input", "1")
	x.press("dialog", "Scale")
	x.shows("service shop/web is scaled", "1 of 1")
	if got := c.run("service", "ls", "-o", "json"); !strings.Contains(got, `"instances": 1`) {
		t.Errorf("after the scaling: %s", got)
	}

	x.open("#/schedule/shop/nightly", "Run now…")
	x.press("main", "Run now…")
	x.press("dialog", "Run now")
	x.shows("runs", "May still run")
	x.press("main", "Pause…")
	x.press("dialog", "Pause")
	x.shows("is paused", "Resume…")

	x.press("main", "Resume…")
	x.press("dialog", "Resume")
	x.shows("is resumed", "Pause…")

	x.open("#/service/shop/web", "Restart…")
	x.press("main", "Restart…")
	x.press("dialog", "Restart")
	x.shows("restarts", "version")
	c.run("wait", "shop/web") // its rows change until then, and a dialog refers to one revision

	x.open("#/cell/c1", "Drain…")
	x.press("main", "Drain…")
	x.fill("dialog input", "new disk")
	x.press("dialog", "Drain")
	x.shows("is drained", "Drained: new disk", "Undrain…")
	x.press("main", "Undrain…")
	x.press("dialog", "Undrain")
	x.shows("is undrained", "Drain…")

	c.run("run", "-d", "--id", "t-long", "--", "sleep", "1000")
	x.open("#/tasks", "t-long")
	eval[bool](x, `([...document.querySelectorAll("a.name")].find(a => a.textContent === "t-long").click(), true)`)
	x.press("main", "Stop…")
	x.press("dialog", "Stop")
	x.shows("is being cancelled", "cancelled")

	x.open("#/output?domain=shop&service=web&index=0", "GET /cart/")
	first := eval[string](x, "document.querySelector('.lines').innerText")
	x.holds("document.querySelector('.lines').innerText.length > " +
		eval[string](x, "String(document.querySelector('.lines').innerText.length)"))
	if first == "" || eval[int](x, "document.querySelectorAll('.lines b, .lines script').length") != 0 {
		t.Errorf("output became markup, or there is none: %q", first)
	}
	eval[bool](x,
		`(i => { i.value = "bold"; i.dispatchEvent(new Event("input", {bubbles: true})); i.form.requestSubmit(); `+
			`return true })(document.querySelector(".toolbar input"))`)
	x.holds("[...document.querySelectorAll('.line .txt')].length > 0 && [...document.querySelectorAll('.line " +
		".txt')].every(e => e.textContent.includes('bold'))")

	x.open("#/service/shop/web", "Stop…")
	x.press("main", "Stop…")
	x.press("dialog", "Stop")
	x.shows("is being removed")
	x.clean()
}

// TestNoAccess: without a key the page asks for one, and shows no data. The server refuses a key that
// it did not make.
func TestNoAccess(t *testing.T) {
	c := startCluster(t)
	x := openTab(t)
	for _, hash := range []string{"", "#key=ABCDEFGHIJKLMNOPQRSTUVWXYZ"} {
		x.open0("http://" + c.address + "/ui/" + hash)
		x.shows("This browser has no access", "cantina ui", "no access")
	}
	x.accessible("no access")
	x.shoot("no-access")
	r, err := http.Get("http://" + c.address + "/ui/")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if got := r.Header.Get("Content-Security-Policy"); !strings.HasPrefix(got,
		"default-src 'none'; script-src 'self'; style-src 'self'") {
		t.Errorf("policy %q", got)
	}
}

// TestALostTaskIsResolved: a task whose end was not reported needs a person. A key of the process before is refused.
func TestALostTaskIsResolved(t *testing.T) {
	c := startCluster(t)
	c.run("run", "-d", "--id", "t-lost", "--", "sleep", "1000")
	c.until("RUNNING", "task", "get", "t-lost", "--template", "{{.state}}")
	c.crash()
	c.fails(6, "wait", "t-lost")
	x := openTab(t)
	x.open0(c.run("ui", "-q"))
	x.shows("Needs attention", "t-lost", "resolve it")
	x.open("#/task/t-lost", "Resolve as rerun…")
	x.press("main", "Resolve as failed…")
	x.shows("It does not run again.")
	x.press("dialog", "Resolve as failed")
	x.shows("is resolved as failed", "resolved as failed")
	x.clean()
}

// TestHeldWorkIsShown: in the initial wait, work that an unknown cell may run is held, with the reason. It starts when
// the wait ends.
func TestHeldWorkIsShown(t *testing.T) {
	c := newCluster(t)
	_, c.address, _ = c.start("server", "--data", c.dir+"/server", "--listen", "127.0.0.1:0")
	c.env = append(c.env, "CANTINA_ADDR="+c.address)
	c.start("cell", "--data", c.dir+"/cell", "--name", "c1", "--servers", c.address, "--zone", "z1")
	c.run("apply", "testdata/web.yaml")
	x := openTab(t)
	x.open0(c.run("ui", "-q"))
	c.run("run", "-d", "--id", "t-held", "--", "true")
	x.shows("Needs attention", "t-held", "held: initial wait")
	x.shoot("held")
	c.run("leader", "end-wait", "--accept-double-starts", "--yes")
	c.run("wait", "web")
	x.open("#/service/default/web", "web/0", "z1")
	x.clean()
}

// largeJob is the spec file of a job of 100,000 nodes.
func largeJob(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(file, []byte(`domain: shop
jobs:
  large:
    levels: [host, db]
    nodes:
      - range: {first: 1, last: 100, format: 'host{i}'}
      - range: {first: 1, last: 1000, format: '{parent}.{i}'}
        parent_level: host
    command: ['true']
    memory: 900Gi # none is placed
`), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestALargeJob: its page reads counts, and the nodes that it shows. The bytes do not grow with the job.
func TestALargeJob(t *testing.T) {
	c := startCluster(t)
	c.run("apply", largeJob(t))
	x := openTab(t)
	x.open0(c.run("ui", "-q"))
	x.open("#/jobs", "large", "100,000")
	const size = `performance.getEntriesByType("resource").reduce((n, e) => n + e.transferSize, 0)`
	before := eval[int](x, size)
	begin := eval[float64](x, `performance.now()`)
	x.open("#/job/shop/large", "Level host", "host100", "0/1,000", "100,000")
	took := eval[float64](x, `performance.now()`) - begin
	x.holds(`document.querySelectorAll('main tbody tr').length === 100`)
	if n := eval[int](x, size) - before; n > 1<<20 {
		t.Errorf("%d bytes were transferred", n)
	} else {
		t.Logf("100,000 nodes: shown after %.0f ms, %d bytes", took, n)
	}
	x.shoot("job-large")
	x.accessible("job-large")
	x.clean()
}
