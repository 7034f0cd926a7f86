package api_test

import (
	"net/http"
	"strings"
	"testing"

	"cantina/api"
	"cantina/worker"
)

func TestADrainIsAPathOfItsCell(t *testing.T) {
	w := newWorld(t)
	w.SetCell(api.Cell{Name: "c1", Proc: "p1", Session: worker.Healthy, Reported: true})
	w.exchanges(t, []exchange{
		{"no reason", http.MethodPut, "/v1/cells/c1/drain", `{}`, 422, "reason"},
		{"a reason of blanks", http.MethodPut, "/v1/cells/c1/drain", `{"reason": "  "}`, 422, "reason"},
		{"a reason as long as a book", http.MethodPut, "/v1/cells/c1/drain", `{"reason": "` + strings.Repeat("x", 1001) +
			`"}`, 422, "longer than"},
		{"a deadline of nothing", http.MethodPut, "/v1/cells/c1/drain", `{"reason": "disk", "deadline": "0s"}`, 422,
			"deadline"},
		{"a deadline in the past", http.MethodPut, "/v1/cells/c1/drain", `{"reason": "disk", "deadline": "-5s"}`, 422,
			"deadline"},
		{"no such cell", http.MethodPut, "/v1/cells/c9/drain", `{"reason": "disk"}`, 404, "c9"},
		{"nothing was done so far", http.MethodGet, "/v1/cells/c1", "", 200, `"session":"HEALTHY"`},
		{"drained", http.MethodPut, "/v1/cells/c1/drain", `{"reason": "disk", "deadline": "600s", "stop_batch": true}`, 200,
			`"reason":"disk"`},
		{"shown", http.MethodGet, "/v1/cells/c1", "", 200, `"draining":true`},
		{"taken back", http.MethodDelete, "/v1/cells/c1/drain", "", 200, `"name":"c1"`},
		{"taken back again", http.MethodDelete, "/v1/cells/c1/drain", "", 200, `"name":"c1"`},
		{"no such cell", http.MethodDelete, "/v1/cells/c9/drain", "", 404, "c9"},
	})
	if _, text := w.get(t, http.MethodGet, "/v1/cells/c1", "", ""); strings.Contains(text, "drain\":{") {
		t.Errorf("still drained: %s", text)
	}
}

// exchange is a request, in a situation, with the status of the response and a part of its text.
type exchange struct {
	situation, method, path, body string
	status                        int
	want                          string
}

// exchanges makes requests one after the other and compares their responses.
func (w *world) exchanges(t *testing.T, all []exchange) {
	t.Helper()
	for _, c := range all {
		kind := ""
		if c.body != "" {
			kind = "application/json"
		}
		res, text := w.get(t, c.method, c.path, kind, c.body)
		if res.StatusCode != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s: %s %s: %d %s", c.situation, c.method, c.path, res.StatusCode, text)
		}
	}
}
