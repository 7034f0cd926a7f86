package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	pb "cantina/wire/cantinav1"
)

// logAnswer is an answer of task_logs.
type logAnswer struct {
	Data struct {
		Lines [][]any
		Next  string `json:"next_line_id"`
	}
	Error string
}

// askLogs queries the output of batch tasks; more are parameters in JSON.
func askLogs(t *testing.T, w *world, more string) logAnswer {
	t.Helper()
	res, body := w.get(t, "POST", "/v1/bistro", "application/json", `{"a": {"handler": "task_logs"`+more+`}}`)
	var got struct{ A logAnswer }
	if err := json.Unmarshal([]byte(body), &got); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v, %s", more, err, body)
	}
	return got.A
}

// readAll follows the numbers of next lines to the end, and returns the texts.
func readAll(t *testing.T, w *world, more string) (texts []string) {
	t.Helper()
	at := ""
	for {
		got := askLogs(t, w, more+at)
		for _, l := range got.Data.Lines {
			texts = append(texts, l[3].(string))
		}
		if got.Error != "" || got.Data.Next == "-1" {
			if got.Error != "" {
				t.Error(got.Error)
			}
			return texts
		}
		at = fmt.Sprintf(`, "line_id": %q`, got.Data.Next)
	}
}

// TestBistroTaskLogs: the output of batch tasks by job, node, stream, time and regular expression, in
// pages in both directions; no line is lost or comes twice, also where few lines match.
func TestBistroTaskLogs(t *testing.T) {
	w := newWorld(t)
	var all, ofA, few []string
	for i := range 5000 {
		job, node := []string{"j", "k", "k"}[i%3], []string{"a", "b"}[i%2]
		line := fmt.Sprintf("line %d", i)
		w.Logs.Write([]string{"c1", "c2"}[i/7%2], job+node, map[string]string{"kind": "batch", "domain": "bistro", "job": job,
			"node": node}, pb.LogStream_LOG_STREAM_STDOUT, line)
		all = append(all, line)
		if job != "k" && node == "a" {
			ofA = append(ofA, line)
		}
		if strings.HasSuffix(line, "99") {
			few = append(few, line)
		}
	}
	w.Logs.Write("c1", "y", map[string]string{"kind": "task", "task": "other"}, pb.LogStream_LOG_STREAM_STDOUT, "other")
	w.Logs.Write("c1", "x", map[string]string{"kind": "batch", "domain": "bistro", "job": "j", "node": "a"},
		pb.LogStream_LOG_STREAM_EVENT, "started")
	for _, row := range []struct {
		what, more string
		want       []string
	}{
		{"all", `"log_type": "stdout"`, all},
		{"a job and a node", `"log_type": "stdout", "jobs": ["j"], "nodes": ["a"]`, ofA},
		{"some jobs and nodes", `"log_type": "stdout", "jobs": ["j", "gone"], "nodes": ["a", "none"]`, ofA},
		{"few lines", `"log_type": "stdout", "regex_filter": "99$"`, few},
		{"other stream", `"log_type": "stderr"`, nil},
		{"statuses", `"log_type": "statuses"`, []string{"started"}},
	} {
		if got := readAll(t, w, `, "sort": "ASC", `+row.more); !slices.Equal(got, row.want) {
			t.Errorf("%s: %d lines, want %d", row.what, len(got), len(row.want))
		}
		got := readAll(t, w, ", "+row.more)
		slices.Reverse(got)
		if !slices.Equal(got, row.want) {
			t.Errorf("%s, backward: %d lines, want %d", row.what, len(got), len(row.want))
		}
	}
	// A line has its job, node, seconds, text and number. The number is the first of a page in each direction.
	for _, order := range []string{"asc", "desc"} {
		got := askLogs(t, w, `, "log_type": "stdout", "line_id": "3", "sort": "`+order+`"`)
		if l := got.Data.Lines[0]; fmt.Sprintf("%v %v %.0f %v %v", l...) !=
			"k a 1700000003 line 2 3" {
			t.Errorf("%s: %v", order, l)
		}
	}
	for more, want := range map[string]int{`"sort": "desc"`: 1000, `"sort": "asc"`: 1000} {
		if got := askLogs(t, w, `, "log_type": "stdout", "time": 0, `+more); len(got.Data.Lines) != want {
			t.Errorf("%s: %d lines", more, len(got.Data.Lines))
		}
	}
	if got := askLogs(t, w, `, "log_type": "stdout", "time": 5, "sort": "asc"`); len(got.Data.Lines) != 0 ||
		got.Data.Next != "-1" {
		t.Errorf("%+v", got)
	}
	for more, want := range map[string]string{
		`"log_type": "out"`: "unknown log_type",
		`"log_type": "stdout", "time": 1, "line_id": "2"`: "only one of",
		`"log_type": "stdout", "time": -1`:                "no time in seconds",
		`"log_type": "stdout", "time": 1e300`:             "no time in seconds",
		`"log_type": "stdout", "line_id": "-7"`:           "no line",
		`"log_type": "stdout", "line_id": "x"`:            "invalid number",
		`"log_type": "stdout", "sort": "up"`:              "unknown sort",
		`"log_type": "stdout", "columns": []`:             "columns",
		`"log_type": "stdout", "regex_filter": "("`:       "missing closing )",
	} {
		if got := askLogs(t, w, ", "+more); !strings.Contains(got.Error, want) {
			t.Errorf("%s: %+v", more, got)
		}
	}
	// A cell that does not answer is named in a line of its own; without any, the query fails.
	w.Logs.Cut("c1", errors.New("gone"))
	got := askLogs(t, w, `, "log_type": "stdout", "sort": "asc"`)
	if l := got.Data.Lines[0]; l[0] != "" || l[1] != "" || l[4] != "-1" || !strings.Contains(l[3].(string), "cell c1") {
		t.Errorf("%v", l)
	}
	w.Logs.Cut("c2", errors.New("gone"))
	if got := askLogs(t, w, `, "log_type": "stdout"`); !strings.Contains(got.Error, "no cell answers") {
		t.Errorf("%+v", got)
	}
}
