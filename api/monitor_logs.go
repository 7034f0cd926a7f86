package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cantina/internal/text"
	"cantina/logstore"
	pb "cantina/wire/cantinav1"
)

// logsQuery are the parameters of task_logs.
type logsQuery struct {
	Type    string           `json:"log_type"`
	Sort    string           `json:"sort"`
	Time    *json.Number     `json:"time"`
	Line    *json.Number     `json:"line_id"` // a number, or its digits as a string
	Regex   string           `json:"regex_filter"`
	Columns *json.RawMessage `json:"columns"`
}

// logPage is the number of lines in an answer of task_logs.
const logPage = 1000

// lastLine is the next line at the end of the output.
const lastLine = "-1"

// logStream is the stream of a log of Bistro. Statuses are the events of containers.
func logStream(name string) (string, error) {
	switch name {
	case "stdout", "stderr":
		return name, nil
	case "statuses":
		return logstore.Event.String(), nil
	case "":
		return "", errors.New("log_type is missing")
	}
	return "", fmt.Errorf("unknown log_type %q: must be one of stdout, stderr, statuses", text.Shorten(name, 60))
}

// seconds is a time in seconds since 1970 before which positions fit into their type.
const seconds = 1 << 33

// begin is the place between two lines at which a page begins; false is the end of the direction.
func (q *logsQuery) begin(backward bool) (at logstore.Position, ok bool, err error) {
	switch {
	case q.Time != nil && q.Line != nil:
		return 0, false, errors.New("only one of time and line_id is allowed")
	case q.Time != nil:
		t, err := q.Time.Int64()
		if err != nil || t < 0 || t > seconds {
			return 0, false, fmt.Errorf("time %q is no time in seconds since 1970", text.Shorten(q.Time.String(), 60))
		}
		if backward { // that second included
			return logstore.Position((t+1)*1e9) - 1, true, nil
		}
		return max(logstore.Position(t*1e9), 1) - 1, true, nil
	case q.Line != nil && q.Line.String() != lastLine:
		id, err := strconv.ParseUint(q.Line.String(), 10, 63)
		if err != nil {
			return 0, false, fmt.Errorf("line_id %q is no line", text.Shorten(q.Line.String(), 60))
		}
		if !backward && id > 0 {
			id--
		}
		return logstore.Position(id), true, nil
	}
	return 0, false, nil
}

// taskLogs reads a page of the output of the chosen tasks, which need not exist any more. The number of
// a line is its position; a page goes on at the number, with or without another direction.
func (m *monitor) taskLogs(q *query) (any, error) {
	if q.Columns != nil {
		return nil, errors.New("columns is not supported")
	}
	stream, err := logStream(q.Type)
	if err != nil {
		return nil, err
	}
	order := strings.ToLower(cmp.Or(q.Sort, "desc"))
	if order != "asc" && order != "desc" {
		return nil, fmt.Errorf("unknown sort %q: must be asc or desc", text.Shorten(q.Sort, 60))
	}
	backward := order == "desc"
	at, from, err := q.begin(backward)
	if err != nil {
		return nil, err
	}
	wanted, err := logQuery(&pb.OutputQuery{Stream: []string{stream}, Grep: q.Regex, Backward: backward})
	if err != nil {
		return nil, err
	}
	wanted.Labels = map[string]string{"kind": "batch", "domain": m.domain}
	if len(q.Jobs) == 1 {
		wanted.Labels["job"] = q.Jobs[0]
	}
	if len(q.Nodes) == 1 {
		wanted.Labels["node"] = q.Nodes[0]
	}
	start := ""
	if from {
		start = logstore.Line{Position: at}.Cursor()
	}
	lines, missing, err := m.logLines(q, wanted, start)
	if err != nil {
		return nil, err
	}
	return map[string]any{"lines": m.logRows(lines[:logEnd(lines)], missing), "next_line_id": nextLine(lines)}, nil
}

// logLines reads lines in the order of the query until one more than a page is found, and names the
// cells that do not answer.
func (m *monitor) logLines(q *query, wanted *pb.LogQuery, start string) (lines []logstore.CellLine, missing []string,
	err error) {
	place := logstore.Place{}
	for more := true; more && len(lines) <= logPage; {
		for _, cell := range m.b.Logs.Holders(wanted) {
			if _, ok := place[cell]; !ok {
				place[cell] = start
			}
		}
		page, err := readPlace(m.ctx, m.b.Logs, wanted, place, pageSize{lines: logPage + 1})
		if err != nil {
			return nil, nil, err
		}
		if place, more, missing = page.Next, page.More, page.Missing; wanted.Backward {
			place = page.Prev
			slices.Reverse(page.Lines)
		}
		for _, l := range page.Lines {
			of := l.Source.Labels
			if (len(q.Jobs) == 0 || slices.Contains(q.Jobs, of["job"])) &&
				(len(q.Nodes) == 0 || slices.Contains(q.Nodes, of["node"])) {
				lines = append(lines, l)
			}
		}
	}
	if len(missing) > 0 && len(missing) == len(m.b.Logs.Holders(wanted)) {
		return nil, nil, fmt.Errorf("no cell answers: %s", strings.Join(missing, "; "))
	}
	return lines, missing, nil
}

// logEnd is the number of lines of the first page: those of the next line's number come with it.
func logEnd(lines []logstore.CellLine) int {
	end := len(lines)
	if end > logPage {
		end = logPage
		for end > 0 && lines[end-1].Position == lines[logPage].Position {
			end--
		}
	}
	return end
}

func nextLine(lines []logstore.CellLine) string {
	if len(lines) <= logPage {
		return lastLine
	}
	return strconv.FormatUint(uint64(lines[logPage].Position), 10)
}

// logRows are lines in Bistro's form. A cell that does not answer is a line without job and node.
func (m *monitor) logRows(lines []logstore.CellLine, missing []string) [][]any {
	rows := [][]any{}
	for _, why := range missing {
		rows = append(rows, []any{"", "", m.clock().Unix(), text.Clean(why), lastLine})
	}
	for _, l := range lines {
		line := text.Clean(string(l.Data))
		if g := l.Gap; g != nil {
			line = fmt.Sprintf("[%d bytes of output are missing: %s]", g.Bytes, g.Reason)
		}
		of := l.Source.Labels
		rows = append(rows, []any{of["job"], of["node"], l.Time.Unix(), line, strconv.FormatUint(uint64(l.Position), 10)})
	}
	return rows
}
