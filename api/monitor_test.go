package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"cantina/batch"
	"cantina/plan"
)

const bistroFile = `{"bistro_settings": {"enabled": true,
  "nodes": {"levels": ["host", "db"],
    "node_sources": [{"source": "manual", "prefs": {"h": ["a", "b", "c", "d", "e"]}}]},
  "resources": {"host": {"io": {"default": 1, "limit": 2, "weight": 3}}}},
 "bistro_job->j": {"owner": "me", "command": ["x"], "priority": 5},
 "bistro_job->bad": {"command": ["x"]}}`

// TestBistroMonitor: the queries of Bistro's HTTP API, with its forms of answers.
func TestBistroMonitor(t *testing.T) {
	w := newWorld(t)
	w.apply(t, bistroFile)
	node := func(name string, class batch.Class, bits batch.Bits) plan.JobNode {
		n := plan.JobNode{Path: []string{"instance", "h", name}}
		n.Node, n.Class, n.Status.Bits = name, class, bits
		return n
	}
	run := node("b", batch.ClassRunning, batch.Error)
	run.Cell, run.Since = "cell1", 9_000
	w.SetJob("bistro/j", func(j *plan.Job) { j.Progress.State, j.NodesError = batch.JobRunning, "no such file" },
		node("a", batch.ClassDone, batch.Done), run, node("c", batch.ClassReady, 0),
		node("d", batch.ClassBackoff, batch.Error|batch.UsesBackoff), node("e", batch.ClassDisabled, batch.Done))
	w.SetJob("bistro/bad", func(j *plan.Job) { j.Progress.State = batch.JobInvalid })
	ask := func(query string) string {
		t.Helper()
		res, body := w.get(t, "POST", "/v1/bistro", "application/json", query)
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d", query, res.StatusCode)
		}
		return strings.TrimSpace(body)
	}
	for _, row := range [][2]string{
		{`{"a": {"handler": "running_tasks"}, "prefs": 5, "b": {"handler": "nope"}}`, `{"a":{"data":{"j":{"b":` +
			`{"start_time":9,"worker_shard":"cell1"}}}},"b":{"error":"unknown handler \"nope\""}}`},
		{`{"a": {"handler": "histogram", "jobs": ["j", "unknown", "bad"], "num_samples": 1}}`,
			`{"a":{"data":{"histograms":` +
				`{"j":{"db":{"B":1,"C":1,"E":1,"EE":1,"gB":1},"host":{"nF":1},"instance":{"nF":1}}},` +
				`"samples":{"j":{"db":{"B":["c"],"C":["b"],"E":["a"],"EE":["e"],"gB":["d"]},"host":{"nF":["h"]},` +
				`"instance":{"nF":["instance"]}}}}}}`},
		{`{"a": {"handler": "sorted_node_names"}}`,
			`{"a":{"data":{"db":["a","b","c","d","e"],"host":["h"],"instance":["instance"]}}}`},
		{`{"a": {"handler": "nodes", "nodes": ["h", "e"]}}`, `{"a":{"data":{"results":{"db":{"e":{"disabled":true,` +
			`"resources":{}}},"host":{"h":{"resources":{"io":{"default":1,"limit":2,"weight":3}}}},"instance":{}}}}}`},
		{`{"a": {"handler": "nodes", "nodes": ["h"], "fields": ["disabled"]}}`,
			`{"a":{"data":{"results":{"db":{},"host":{"h":{}},` +
				`"instance":{}}}}}`},
		{`{"a": {"handler": "job_node_runtime", "jobs": ["bad"]}}`, `{"a":{"data":{}}}`},
		{`{"a": {"handler": "kill_task", "job_id": "j", "node_id": "b"}}`, `{"a":{"data":"signaled"}}`},
		{`{"a": {"handler": "kill_task", "job_id": "j", "node_id": "c"}}`,
			`{"a":{"error":"job \"j\" does not run on node \"c\""}}`},
		{`{"a": {"handler": "kill_task", "job_id": "x", "node_id": "c"}}`,
			`{"a":{"error":"unknown job \"x\": not found"}}`},
		{`{"a": {"handler": "forgive_jobs", "jobs": ["j"]}}`, `{"a":{"data":"forgiven"}}`},
		{`{"a": {"handler": "forgive_jobs", "jobs": ["j", "x"]}}`, `{"a":{"error":"unknown job \"x\": not found"}}`},
		{`{"a": {"handler": 5}}`,
			`{"a":{"error":"query: json: cannot unmarshal number into Go struct field query.handler of type string"}}`},
		{`{}`, `{}`},
	} {
		query, want := row[0], row[1]
		if got := ask(query); got != want {
			t.Errorf("%s\n got %s\nwant %s", query, got, want)
		}
	}
	for query, want := range map[string]string{
		`nonsense`: `"body is no JSON object: `, `[]`: `"body is no JSON object: `,
		`{"a": {"handler": "errors"}}`:       `"nodes of job j":"no such file"`,
		`{"a": {"handler": "save_job"}}`:     `"error":"not implemented: change the configuration file`,
		`{"a": {"handler": "task_logs"}}`:    `"error":"log_type is missing"`,
		`{"a": {"handler": "refresh_time"}}`: `{"a":{"data":`,
	} {
		if got := ask(query); !strings.Contains(got, want) {
			t.Errorf("%s: %s lacks %s", query, got, want)
		}
	}
	var jobs struct {
		A struct {
			Data map[string]struct {
				Enabled   bool
				Owner     string
				Priority  float64
				Resources map[string]int
				Errors    struct {
					KeyErrors map[string]string `json:"key_errors"`
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(ask(`{"a": {"handler": "jobs"}}`)), &jobs); err != nil {
		t.Fatal(err)
	}
	if j, bad := jobs.A.Data["j"], jobs.A.Data["bad"]; !j.Enabled || j.Owner != "me" || j.Priority != 5 ||
		j.Resources["io"] != 1 || bad.Errors.KeyErrors["owner"] != "is missing" {
		t.Errorf("%+v", jobs)
	}
	if got := ask(`{"a": {"handler": "delete_job", "job_id": "j"}}`); !strings.Contains(got,
		`"a":{"data":"deleted"}`) {
		t.Error(got)
	}
	if got := ask(`{"a": {"handler": "running_tasks"}}`); got != `{"a":{"data":{}}}` {
		t.Error(got)
	}
	// Jobs of a spec file, in a domain of their own.
	w.apply(t, demo)
	_, body := w.get(t, "POST", "/v1/bistro?domain=d", "application/json", `{"a": {"handler": "jobs"}}`)
	for _, want := range []string{`"command":["x","{}"]`, `"level_for_tasks":"n"`, `"backoff":[15,`, `"enabled":true`} {
		if !strings.Contains(body, want) {
			t.Errorf("%s lacks %s", body, want)
		}
	}
}
