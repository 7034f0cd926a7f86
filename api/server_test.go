package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"cantina/action"
	"cantina/api"
	"cantina/api/apitest"
	"cantina/batch"
	"cantina/event"
	"cantina/fault"
	"cantina/fence"
	"cantina/lrp"
	"cantina/plan"
	"cantina/task"
	pb "cantina/wire/cantinav1"
	"cantina/wire/cantinav1/cantinav1connect"
)

type calls = cantinav1connect.CantinaServiceClient

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world has a server over a fake leader, and a client of that server.
type world struct {
	*apitest.Fake
	server *api.Server
	http   *httptest.Server
	client *api.Client
}

func clock() time.Time { return time.Unix(1_800_000_000, 0).UTC() }

var ids atomic.Int64

func newID() string { return fmt.Sprintf("id-%d", ids.Add(1)) }

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Fake: apitest.New(clock)}
	w.server = api.New(api.Config{Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Build: "test", NewID: newID})
	w.server.Lead(w.Backend())
	w.http = httptest.NewServer(w.server.Handler())
	w.client = api.NewClient(api.ClientConfig{Addresses: []string{strings.TrimPrefix(w.http.URL, "http://")},
		NewKey: newID})
	t.Cleanup(func() {
		w.client.Close()
		w.Hub.Close()
		w.http.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return w
}

func (w *world) apply(t *testing.T, text string) *pb.ApplyResponse {
	t.Helper()
	got, err := api.Call(t.Context(), w.client, calls.Apply,
		&pb.ApplyRequest{Files: []*pb.SpecFile{{Name: "f.yaml", Dir: "/x", Content: []byte(text)}}})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// get calls /v1 and returns status, headers and body.
func (w *world) get(t *testing.T, method, path, kind, body string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, w.http.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(text)
}

const demo = `
domain: d
services:
  web: {command: [serve], instances: 3, ports: [{name: http}]}
tasks:
  once: {command: [run]}
jobs:
  j: {command: [x, "{}"], levels: [n], nodes: [{manual: [a, b]}]}
`

func TestApplyPlanAndLists(t *testing.T) {
	w := newWorld(t)
	w.apply(t, demo)
	l, err := api.Call(t.Context(), w.client, calls.ListInstances, &pb.ListInstancesRequest{Page: &pb.Page{Limit: 2}})
	if err != nil || len(l.Instances) != 2 || l.Listing.Next == "" {
		t.Fatalf("first page: %v, %v", l, err)
	}
	l, err = api.Call(t.Context(), w.client, calls.ListInstances,
		&pb.ListInstancesRequest{Page: &pb.Page{Limit: 2, Cursor: l.Listing.Next}})
	if err != nil || len(l.Instances) != 1 || l.Listing.Next != "" || l.Instances[0].Index != 2 {
		t.Fatalf("second page: %v, %v", l, err)
	}
	p, err := api.Call(t.Context(), w.client, calls.Plan,
		&pb.PlanRequest{Files: []*pb.SpecFile{{Content: []byte(strings.Replace(demo, "3", "5", 1))}}})
	if err != nil || p.Domains[0].Changes[0].Verb != "update" || p.Domains[0].Changes[0].Fields[0].New != "5" ||
		p.Domains[0].Changes[1].Verb != "keep" {
		t.Fatalf("plan: %v, %v", p, err)
	}
	if w.Writes() != 1 {
		t.Fatalf("a plan writes nothing: %d writes", w.Writes())
	}
	s, err := api.Call(t.Context(), w.client, calls.GetService, &pb.GetServiceRequest{Domain: "d", Name: "web"})
	if err != nil || s.Service.Versions[0].Workload.Action.GetRun().Path != "serve" {
		t.Fatalf("service: %v, %v", s, err)
	}
}

func TestABadSpecReportsAllErrors(t *testing.T) {
	w := newWorld(t)
	_, err := api.Call(t.Context(), w.client, calls.Apply, &pb.ApplyRequest{Files: []*pb.SpecFile{
		{Name: "a", Content: []byte("domian: x\n")}, {Name: "b", Content: []byte("tasks: {t: {command: [a], memory: 64}}")},
	}})
	var e *api.Error
	if !errors.As(err, &e) || e.Code != "invalid_spec" || e.Exit != 2 || len(e.Detail.Problems) != 2 ||
		e.Detail.Problems[1].Column != 35 || e.Detail.RequestId == "" {
		t.Fatalf("got %+v", e)
	}
	res, body := w.get(t, "POST", "/v1/apply", "application/yaml", "domian: x\n")
	var p map[string]any
	if json.Unmarshal([]byte(body), &p) != nil || res.StatusCode != 422 ||
		res.Header.Get("Content-Type") != "application/problem+json" ||
		p["code"] != "invalid_spec" || p["hint"] != "did you mean domain?" || p["line"] != 1.0 || p["request_id"] == "" ||
		p["status"] != 422.0 {
		t.Fatalf("%d %s", res.StatusCode, body)
	}
	if w.Writes() != 0 {
		t.Fatal("something was applied")
	}
}

// TestOneKeyOneTask is the scenario of two submits with one token that both ran.
func TestOneKeyOneTask(t *testing.T) {
	w := newWorld(t)
	run := action.Action{Run: &action.Run{Path: "true"}}
	def := api.FromDefinition(task.Definition{Workload: action.Workload{Action: run}})
	var mu sync.Mutex
	seen := map[string]int{}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			got, err := api.Call(t.Context(), w.client, calls.RunTask,
				&pb.RunTaskRequest{Definition: def, Write: &pb.Write{IdempotencyKey: "same"}})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			seen[got.Task.Id+got.Task.Uid]++
		})
	}
	wg.Wait()
	if len(seen) != 1 || w.Writes() != 1 {
		t.Fatalf("%d writes, answers %v", w.Writes(), seen)
	}
	// The header is the same as the field.
	body := `{"definition":{"workload":{"action":{"run":{"path":"true"}}}}}`
	_, one := w.get(t, "POST", "/v1/tasks", "application/json", body, "Idempotency-Key", "k2")
	_, two := w.get(t, "POST", "/v1/tasks", "application/json", body, "Idempotency-Key", "k2")
	if one != two || w.Writes() != 2 {
		t.Fatalf("%s\n%s\n%d writes", one, two, w.Writes())
	}
}

func TestIfMatch(t *testing.T) {
	w := newWorld(t)
	w.apply(t, demo)
	res, _ := w.get(t, "GET", "/v1/services/d/web", "", "")
	tag := res.Header.Get("ETag")
	if res, body := w.get(t, "PUT", "/v1/services/d/web/instances", "application/json", `{"instances": 1}`, "If-Match",
		`"3"`); res.StatusCode != 409 || !strings.Contains(body, "revision_mismatch") {
		t.Fatalf("%d %s", res.StatusCode, body)
	}
	if res, body := w.get(t, "PUT", "/v1/services/d/web/instances", "application/json", `{"instances": 1}`, "If-Match",
		tag); res.StatusCode != 200 || !strings.Contains(body, `"instances":1`) {
		t.Fatalf("%d %s (tag %s)", res.StatusCode, body, tag)
	}
}

func TestErrorsHaveTheirStatus(t *testing.T) {
	w := newWorld(t)
	w.apply(t, demo)
	w.SetTask("d.once", func(x *task.Task) { x.State, x.Outcome = task.Completed, task.Succeeded })
	if res, body := w.get(t, "DELETE", "/v1/tasks/d.once", "", ""); res.StatusCode != 200 {
		t.Fatalf("%d %s", res.StatusCode, body)
	}
	for _, id := range []string{"open", "ended"} {
		body := `{"id":"` + id + `","definition":{"workload":{"action":{"run":{"path":"a"}}}}}`
		if res, text := w.get(t, "POST", "/v1/tasks", "application/json", body); res.StatusCode != 200 &&
			res.StatusCode != 201 {
			t.Fatalf("%d %s", res.StatusCode, text)
		}
	}
	w.SetTask("ended", func(x *task.Task) { x.State, x.Outcome = task.Completed, task.Succeeded })
	for _, c := range []struct {
		method, path, kind, body string
		status                   int
		says                     string
	}{
		{"GET", "/v1/tasks/none", "", "", 404, `"code":"not_found"`},
		{"GET", "/v1/tasks/d.once", "", "", 410, "kept 24 h"},
		{"GET", "/v1/output?task=d.once", "", "", 410, `"code":"collected"`},
		{"POST", "/v1/plan", "text/plain", "x", 422, "must be application/yaml or application/json"},
		{"POST", "/v1/tasks", "text/plain", "x", 422, "must be application/json, not"},
		{"GET", "/v1/output", "", "", 422, "a service, task, job or container is required"},
		{"GET", "/v1/output?domain=d&job=j&node=nope", "", "", 404, "no node nope"},
		{"GET", "/v1/output?domain=d&job=j&grep=(", "", "", 422, "query.grep"},
		{"GET", "/v1/jobs/d/j/nodes?below=zz", "", "", 404, "no node below zz"},
		{"GET", "/v1/jobs/d/gone/groups", "", "", 404, "gone"},
		{"POST", "/v1/services/d/web/restart", "application/json", `{"index":[9]}`, 404, "no index 9"},
		{"POST", "/v1/tasks/open/resolve", "application/json", `{"as":"done"}`, 409,
			"task open has not ended: it is PENDING"},
		{"DELETE", "/v1/tasks/open", "", "", 409, "task open has not ended: it is PENDING"},
		{"POST", "/v1/tasks/ended/cancel", "application/json", "{}", 409, "task ended has already ended: succeeded"},
		{"GET", "/v1/nonsense", "", "", 404, "docs/api.md"},
		{"GET", "/v1/services?limit=x", "", "", 422, `"field":"limit"`},
		{"GET", "/v1/services?limit=5000", "", "", 422, "from 1 to 1000"},
		{"GET", "/v1/services?dommain=x", "", "", 422, "did you mean domain?"},
		{"GET", "/v1/instances?state=WALKING", "", "", 422, "UNCLAIMED"},
		{"GET", "/v1/jobs/d/j/nodes?state=odd", "", "", 422, "backoff"},
		{"GET", "/v1/events?since=yesterday", "", "", 422, `"field":"since"`},
		{"GET", "/v1/events?kind=cat", "", "", 422, "must be one of service"},
		{"GET", "/v1/tasks?outcome=gone", "", "", 422, "none of succeeded"},
		{"POST", "/v1/tasks", "text/plain", "{}", 422, "application/json"},
		{"POST", "/v1/tasks", "application/json", "{", 422, `"field":"body"`},
		{"POST", "/v1/tasks", "application/json", `{"definition":{}}`, 422, "workload missing"},
		{"POST", "/v1/tasks", "application/json",
			`{"definition":{"workload":{"action":{"run":{"path":"a","args":["\u0000"]}}}}}`, 422, "NUL"},
		{"POST", "/v1/tasks", "application/json", `{"id":"a/b","definition":{"workload":{"action":{"run":{"path":"a"}}}}}`,
			422, `"field":"id"`},
		{"POST", "/v1/apply", "application/json", strings.Repeat(" ", 21<<20), 413, "too_large"},
		{"POST", "/v1/wait/end", "application/json", "{}", 422, "a second time"},
		{"POST", "/v1/tasks/none/resolve", "application/json", `{"as":"maybe"}`, 422, "done, failed or rerun"},
		{"GET", "/v1/explain/cat/x", "", "", 422, "subject.kind"},
		{"POST", "/v1/services", "application/json", "{}", 404, "not_found"},
	} {
		res, body := w.get(t, c.method, c.path, c.kind, c.body)
		if res.StatusCode != c.status || !strings.Contains(body, c.says) || res.Header.Get("Cantina-Request-Id") == "" {
			t.Errorf("%s %s: %d %s", c.method, c.path, res.StatusCode, body)
		}
	}
}

func TestClientFollowsTheLeader(t *testing.T) {
	leader, standby := newWorld(t), newWorld(t)
	leader.apply(t, demo)
	address := strings.TrimPrefix(leader.http.URL, "http://")
	standby.server.Follow(address, fence.Term{Epoch: 1, Revision: 9})
	got, err := api.Call(t.Context(), standby.client, calls.ListServices, &pb.ListServicesRequest{})
	if err != nil || len(got.Services) != 1 || standby.client.Address() != address {
		t.Fatalf("got %v, %v from %s", got, err, standby.client.Address())
	}
	res, body := standby.get(t, "GET", "/v1/services", "", "")
	if res.StatusCode != 503 || res.Header.Get("Cantina-Leader") != address || !strings.Contains(body, `"leader"`) {
		t.Fatalf("%d %s", res.StatusCode, body)
	}
	if _, body := standby.get(t, "GET", "/health", "", ""); !strings.Contains(body, "standby") {
		t.Fatal(body)
	}
	lost := newWorld(t)
	lost.server.Follow("", fence.Term{})
	_, err = api.Call(t.Context(), lost.client, calls.ListServices, &pb.ListServicesRequest{})
	var e *api.Error
	if !errors.As(err, &e) || e.Code != "not_leader" || e.Exit != api.ExitConnection {
		t.Fatalf("got %v", err)
	}
}

// TestPatienceCountsFromTheFirstFailure: a server that was stopped for longer than the patience
// and then no longer leads is called again.
func TestPatienceCountsFromTheFirstFailure(t *testing.T) {
	const patience = 50 * time.Millisecond
	leader, lost := newWorld(t), newWorld(t)
	leader.apply(t, demo)
	lost.server.Follow("", fence.Term{})
	to := func(w *world) http.Handler {
		u, err := url.Parse(w.http.URL)
		if err != nil {
			t.Fatal(err)
		}
		return httputil.NewSingleHostReverseProxy(u)
	}
	first := true
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !first {
			to(leader).ServeHTTP(w, r)
			return
		}
		first = false
		<-time.After(3 * patience) // stopped
		to(lost).ServeHTTP(w, r)
	}))
	defer between.Close()
	c := api.NewClient(api.ClientConfig{Addresses: []string{between.Listener.Addr().String()}, Patience: patience})
	got, err := api.Call(t.Context(), c, calls.ListServices, &pb.ListServicesRequest{})
	if err != nil || len(got.Services) != 1 {
		t.Fatalf("got %v, %v", got, err)
	}
}

// TestAServerThatDoesNotAnswerIsNamed: during the wait, and in the error with the remedy.
func TestAServerThatDoesNotAnswerIsNamed(t *testing.T) {
	reported := make(chan string, 1)
	stopped := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		<-r.Context().Done()
	}))
	defer stopped.Close()
	address := stopped.Listener.Addr().String()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := api.NewClient(api.ClientConfig{Addresses: []string{address}, Unanswered: func(a string) { reported <- a }})
	var failed error
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, failed = api.Call(ctx, c, calls.ListServices, &pb.ListServicesRequest{})
	}()
	if got := <-reported; got != address {
		t.Errorf("waiting for %q", got)
	}
	cancel()
	<-done
	short, end := context.WithTimeout(t.Context(), time.Millisecond)
	defer end()
	_, failed = api.Call(short, c, calls.ListServices, &pb.ListServicesRequest{})
	var e *api.Error
	if !errors.As(failed, &e) || e.Exit != api.ExitTimeout || e.Message != "timed out: no answer from "+address ||
		!strings.Contains(e.Detail.Hint, "stopped") {
		t.Errorf("%v", failed)
	}
}

func TestNoServer(t *testing.T) {
	c := api.NewClient(api.ClientConfig{Addresses: []string{"unix:" + t.TempDir() + "/none.sock"}})
	_, err := api.Call(t.Context(), c, calls.ListServices, &pb.ListServicesRequest{})
	var e *api.Error
	if !errors.As(err, &e) || e.Code != "no_connection" || e.Exit != api.ExitConnection ||
		!strings.Contains(e.Message, "none.sock") || e.Detail.Hint == "" {
		t.Fatalf("got %v", err)
	}
}

func TestAListAndItsEventsMissNothing(t *testing.T) {
	w := newWorld(t)
	w.apply(t, demo)
	l, err := api.Call(t.Context(), w.client, calls.ListTasks, &pb.ListTasksRequest{})
	if err != nil {
		t.Fatal(err)
	}
	w.SetTask("d.once", func(x *task.Task) { x.State = task.Running })
	w.SetTask("d.once", func(x *task.Task) { x.State, x.Outcome = task.Completed, task.Succeeded })
	var states []string
	err = w.client.Events(t.Context(), &pb.StreamEventsRequest{Since: l.Listing.Position, Kind: []string{"task"}},
		func(m *pb.StreamEventsResponse) error {
			if m.Event != nil {
				states = append(states, m.Event.Task.State)
			}
			if len(states) == 2 {
				return api.Stop()
			}
			return nil
		})
	if err != nil || fmt.Sprint(states) != "[RUNNING COMPLETED]" {
		t.Fatalf("got %v, %v", states, err)
	}
}

// TestInstanceEventsFollowTheRowThatCounts: one event whenever it becomes another, and
// with all each row as it changes.
func TestInstanceEventsFollowTheRowThatCounts(t *testing.T) {
	w := newWorld(t)
	k := lrp.Key{Process: "p", Index: 0}
	old := &lrp.Actual{Key: k, Service: lrp.ServiceKey{Domain: "d", Name: "web"}, State: lrp.Running,
		Identity: lrp.Identity{Instance: "i1", Cell: "a"}}
	leaves, next := *old, *old
	leaves.Presence = lrp.Evacuating
	next.Instance, next.Cell, next.State = "i2", "b", lrp.Claimed
	runs := next
	runs.State = lrp.Running
	steps := []lrp.Index{{Key: k}, {Key: k, Ordinary: old}, {Key: k, Evacuating: &leaves, Ordinary: &next},
		{Key: k, Ordinary: &runs}, {Key: k}}
	for i := range steps[1:] {
		var events []event.Event
		for _, c := range lrp.Changes(steps[i], steps[i+1]) {
			row := c.After
			if row == nil {
				row = c.Before
			}
			events = append(events, event.Event{Kind: event.Instance, Domain: "d", Subject: "d/web/0", Instance: row,
				Gone: c.After == nil, Hidden: c.Hidden, Turn: c.Turn, Shown: c.Shown})
		}
		w.Hub.Publish(int64(200+i), events...)
	}
	for _, c := range []struct {
		all  bool
		want string
	}{
		{false, "RUNNING ORDINARY i1, RUNNING EVACUATING i1, RUNNING ORDINARY i2, gone i2"},
		{true,
			"RUNNING ORDINARY i1, RUNNING EVACUATING i1, CLAIMED ORDINARY i2 hidden, RUNNING ORDINARY i2, gone i1, gone i2"},
	} {
		var got []string
		err := w.client.Events(t.Context(), &pb.StreamEventsRequest{Since: "199", Kind: []string{"instance"}, All: c.all},
			func(m *pb.StreamEventsResponse) error {
				e := m.Event
				switch {
				case e == nil:
					return nil
				case e.Gone:
					got = append(got, "gone "+e.Instance.Instance)
				default:
					got = append(got, strings.TrimSuffix(fmt.Sprintf("%s %s %s %s", e.Instance.State, e.Instance.Presence,
						e.Instance.Instance, map[bool]string{true: "hidden"}[e.Instance.Hidden]), " "))
				}
				if e.Gone && e.Instance.Instance == "i2" {
					return api.Stop()
				}
				return nil
			})
		if s := strings.Join(got, ", "); err != nil || s != c.want {
			t.Errorf("all %v: %s, %v\nwant %s", c.all, s, err, c.want)
		}
	}
}

func TestServerSentEventsResume(t *testing.T) {
	w := newWorld(t)
	w.apply(t, demo)
	read := func(header ...string) string {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, "GET", w.http.URL+"/v1/events?since=100&kind=instance", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "text/event-stream")
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var got bytes.Buffer
		buf := make([]byte, 1)
		for !strings.HasSuffix(got.String(), "\n\n") || strings.Count(got.String(), "data:") < 2 {
			if _, err := res.Body.Read(buf); err != nil {
				t.Fatalf("%v after %s", err, got.String())
			}
			got.Write(buf)
		}
		return got.String()
	}
	first := read()
	if !strings.HasPrefix(first, "id: 101.1\nevent: instance\ndata: {") {
		t.Fatal(first)
	}
	if next := read("Last-Event-ID", "101.1"); !strings.HasPrefix(next, "id: 101.2\n") {
		t.Fatal(next)
	}
}

func TestAGapIsReported(t *testing.T) {
	w := newWorld(t)
	w.apply(t, demo)
	var gap *pb.Gap
	err := w.client.Events(t.Context(), &pb.StreamEventsRequest{Since: "7"}, func(m *pb.StreamEventsResponse) error {
		gap = m.Gap
		return api.Stop()
	})
	if err != nil || gap == nil || gap.After != "7" {
		t.Fatalf("got %v, %v", gap, err)
	}
}

func TestExplainHasReasonsEventsAndLines(t *testing.T) {
	w := newWorld(t)
	w.apply(t, demo)
	w.Logs.Write("c1", "t-1", map[string]string{"task": "d.once", "kind": "task"}, pb.LogStream_LOG_STREAM_STDOUT, "hello")
	_, body := w.get(t, "GET", "/v1/explain/task/d.once", "", "")
	var x pb.ExplainResponse
	got, err := api.Call(t.Context(), w.client, calls.Explain,
		&pb.ExplainRequest{Subject: &pb.Subject{Kind: "task", Name: "d.once"}})
	if err != nil || got.Fine || got.Reasons[0].Need != 512 || len(got.Events) != 1 || len(got.Lines) != 1 ||
		got.Lines[0].Text != "hello" {
		t.Fatalf("%v, %v", got, err)
	}
	if !strings.Contains(body, `"need":512`) || x.Fine {
		t.Fatal(body)
	}
}

func TestFieldsAndFilter(t *testing.T) {
	w := newWorld(t)
	w.apply(t, demo)
	w.SetInstance(lrp.ServiceKey{Domain: "d", Name: "web"}, 1, func(a *lrp.Actual) {
		a.State, a.Identity, a.Net = lrp.Running, lrp.Identity{Instance: "i", Cell: "c1", Proc: "p"},
			lrp.Net{Address: "10.0.0.1", Routable: true}
	})
	_, body := w.get(t, "GET", "/v1/instances?filter=state=RUNNING,domain=d&fields=index,state", "", "")
	if !strings.Contains(body, `"instances":[{"index":1,"state":"RUNNING"}]`) {
		t.Fatal(body)
	}
}

// failing is a backend with failing calls.
type failing struct {
	api.Services
	api.Tasks
	err error
}

func (f failing) ListServices(plan.NameFilter, plan.Range) (plan.Page[plan.Service], error) {
	return plan.Page[plan.Service]{}, f.err
}

func (f failing) CancelTask(context.Context, string, plan.Write) (plan.Task, error) {
	return plan.Task{}, f.err
}

func TestErrorsOfTheLoopsAreReportedByTheirMeaning(t *testing.T) {
	over, gone := fault.New(fault.ErrTermOver, "board: over"), fault.New(fault.ErrNotFound, "board: no such thing")
	w := newWorld(t)
	s := api.New(api.Config{
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)), NewID: newID,
	})
	srv := httptest.NewServer(s.Handler())
	defer srv.Close()
	w.http.URL = srv.URL
	for _, c := range []struct {
		err          error
		method, path string
		status       int
		code         string
	}{
		{over, "GET", "/v1/services", 503, "term_over"},
		{over, "POST", "/v1/tasks/x/cancel", 503, "unknown_outcome"},
		{gone, "GET", "/v1/services", 404, "not_found"},
		{gone, "POST", "/v1/tasks/x/cancel", 404, "not_found"},
	} {
		b := *w.Backend()
		f := failing{b.Services, b.Tasks, fmt.Errorf("list: %w", c.err)}
		b.Services, b.Tasks = f, f
		s.Lead(&b)
		if res, body := w.get(t, c.method, c.path, "", ""); res.StatusCode != c.status || !strings.Contains(body, c.code) ||
			!strings.Contains(body, "list: board") {
			t.Errorf("%v: %d %s", c, res.StatusCode, body)
		}
	}
}

func TestAPanicIsAnAnswer(t *testing.T) {
	w := newWorld(t)
	b := *w.Backend()
	b.Cells = nil
	w.server.Lead(&b)
	res, body := w.get(t, "GET", "/v1/cells", "", "")
	if res.StatusCode != 500 || !strings.Contains(body, "internal") {
		t.Fatalf("%d %s", res.StatusCode, body)
	}
	_, err := api.Call(t.Context(), w.client, calls.ListCells, &pb.ListCellsRequest{})
	var e *api.Error
	if !errors.As(err, &e) || e.Code != "internal" {
		t.Fatalf("got %v", err)
	}
}

// TestTheHistoryOfAScheduleHasItsOutcome: of each run of a task, and of the newest run
// of a job, which is renewed for each.
func TestTheHistoryOfAScheduleHasItsOutcome(t *testing.T) {
	w := newWorld(t)
	w.apply(t, demo)
	w.apply(t, `
domain: d
schedules:
  t: {cron: "@every 60s", task: {command: [x]}}
  j: {cron: "@every 60s", job: {command: [x, "{}"], levels: [n], nodes: [{manual: [a]}]}}
`)
	history := func(name string) (out []string) {
		t.Helper()
		got, err := api.Call(t.Context(), w.client, calls.GetSchedule, &pb.GetScheduleRequest{Domain: "d", Name: name})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range got.Schedule.History {
			out = append(out, e.What+" "+e.Outcome)
		}
		return out
	}
	state := func(s batch.State) {
		w.SetJob("d/j", func(j *plan.Job) { j.NodesKnown, j.Progress.State = true, s })
	}
	run := func(name string) string {
		t.Helper()
		got, err := api.Call(t.Context(), w.client, calls.RunSchedule, &pb.RunScheduleRequest{Domain: "d", Name: name})
		if err != nil {
			t.Fatal(err)
		}
		return got.Run
	}
	run("j")
	for _, s := range []batch.State{batch.JobRunning, batch.JobFailed, batch.JobDone} {
		state(s)
		if got := history("j"); len(got) != 1 || got[0] != "started "+s.String() {
			t.Errorf("%s: %q", s, got)
		}
	}
	id := run("t")
	body := `{"id":"` + id + `","definition":{"workload":{"action":{"run":{"path":"a"}}}}}`
	if res, text := w.get(t, "POST", "/v1/tasks", "application/json", body); res.StatusCode/100 != 2 {
		t.Fatalf("%d %s", res.StatusCode, text)
	}
	w.SetTask(id, func(x *task.Task) { x.State, x.Outcome = task.Completed, task.Failed })
	if got := history("t"); len(got) != 1 || got[0] != "started failed" {
		t.Errorf("%q", got)
	}
	w.SetJob("d/j", func(j *plan.Job) { j.NodesKnown = false })
	if got := history("j"); got[0] != "started " {
		t.Errorf("a job of which nothing is known: %q", got)
	}
}

// TestGroupsOfAJob: counts below the nodes of one level, at most so many, and how many are left out.
func TestGroupsOfAJob(t *testing.T) {
	w := newWorld(t)
	var nodes []plan.JobNode
	const most = 2000
	for h := range most + 3 {
		for n := range 2 {
			node := plan.JobNode{Path: []string{"i", fmt.Sprint("h", h), fmt.Sprintf("h%d.%d", h, n)}}
			node.Node, node.Class = node.Path[2], batch.ClassDone
			if h == 1 && n == 0 {
				node.Class = batch.ClassFailed
			}
			nodes = append(nodes, node)
		}
	}
	w.apply(t, demo)
	w.SetJob("d/j", func(*plan.Job) {}, nodes...)
	type answer struct {
		Groups []struct {
			Node   string
			Counts struct{ Total, Failed int }
		}
		More int
	}
	read := func(query string) (out answer) {
		t.Helper()
		res, body := w.get(t, "GET", "/v1/jobs/d/j/groups"+query, "", "")
		if err := json.Unmarshal([]byte(body), &out); err != nil || res.StatusCode != 200 {
			t.Fatalf("HTTP %d, %v: %s", res.StatusCode, err, body)
		}
		return out
	}
	all := read("")
	if len(all.Groups) != most || all.More != 3 {
		t.Errorf("%d groups, %d more", len(all.Groups), all.More)
	}
	for _, g := range all.Groups {
		if want := map[bool]int{true: 1}[g.Node == "h1"]; g.Counts.Total != 2 || g.Counts.Failed != want {
			t.Errorf("%+v", g)
		}
	}
	if below := read("?below=h1"); len(below.Groups) != 0 || below.More != 0 {
		t.Errorf("below the last level of groups: %+v", below)
	}
}
