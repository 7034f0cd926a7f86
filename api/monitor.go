package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"connectrpc.com/connect"

	"cantina/batch"
	"cantina/bistro"
	"cantina/fault"
	"cantina/internal/text"
	"cantina/plan"
	"cantina/spec"
	pb "cantina/wire/cantinav1"
)

// query is one query of the monitor protocol of Bistro.
type query struct {
	Handler string   `json:"handler"`
	Jobs    []string `json:"jobs"`
	Nodes   []string `json:"nodes"`
	Fields  []string `json:"fields"`
	Samples int      `json:"num_samples"`
	Job     string   `json:"job_id"`
	Node    string   `json:"node_id"`
	logsQuery
}

// monitor answers the queries of Bistro's HTTP API about the jobs of one domain (Bistro, HTTP API).
type monitor struct {
	*Server
	b      *Backend
	ctx    context.Context
	domain string
	jobs   []plan.Job // of the domain, that are not being removed
}

// monitorHandlers are the handlers by name.
func monitorHandlers() map[string]func(*monitor, *query) (any, error) {
	return map[string]func(*monitor, *query) (any, error){
		"errors": (*monitor).errorsOf, "refresh_time": (*monitor).refreshTime, "jobs": (*monitor).exports,
		"sorted_node_names": (*monitor).nodeNames, "job_node_runtime": (*monitor).runtimes,
		"running_tasks": (*monitor).running, "histogram": (*monitor).histogram, "nodes": (*monitor).nodesOf,
		"delete_job": (*monitor).delete, bistro.HandlerRetry: (*monitor).retry, "kill_task": (*monitor).kill,
		"save_job": func(*monitor, *query) (any, error) {
			return nil, errors.New("not implemented: change the configuration file, and import it again")
		},
		"task_logs": (*monitor).taskLogs,
	}
}

// v1Monitor serves POST /v1/bistro: named queries, and an answer for each. Like Bistro it always
// answers 200; a body that is no JSON object, or no leader, is a bare string.
func (s *Server) v1Monitor(w http.ResponseWriter, r *http.Request) {
	m := &monitor{Server: s, ctx: withHeaders(r.Context(), r.Header),
		domain: cmp.Or(r.URL.Query().Get("domain"), spec.BistroDomain)}
	var queries map[string]json.RawMessage
	body, err := readBody(r)
	if err == nil {
		if err = json.Unmarshal(body, &queries); err != nil {
			err = fmt.Errorf("body is no JSON object: %w", err)
		}
	}
	if err == nil {
		m.b, err = s.now()
	}
	if err == nil {
		err = m.load()
	}
	if err != nil {
		writeJSON(w, http.StatusOK, text.Clean(err.Error()))
		return
	}
	out := make(map[string]map[string]any, len(queries))
	for _, key := range slices.Sorted(maps.Keys(queries)) {
		if key == "prefs" {
			continue
		}
		data, err := m.answer(queries[key])
		if err != nil {
			out[key] = map[string]any{"error": text.Clean(err.Error())}
			continue
		}
		out[key] = map[string]any{"data": data}
	}
	writeJSON(w, http.StatusOK, out)
}

func (m *monitor) answer(raw json.RawMessage) (any, error) {
	var q query
	if err := json.Unmarshal(raw, &q); err != nil {
		return nil, fmt.Errorf("query: %w", err)
	}
	h := monitorHandlers()[q.Handler]
	if h == nil {
		return nil, fmt.Errorf("unknown handler %q", text.Shorten(q.Handler, 60))
	}
	return h(m, &q)
}

// load reads the jobs of the domain.
func (m *monitor) load() error {
	got, err := m.b.Jobs.ListJobs(plan.NameFilter{Domain: m.domain}, plan.Range{Limit: math.MaxInt32})
	for _, j := range got.Items {
		if !j.Removed {
			m.jobs = append(m.jobs, j)
		}
	}
	return err
}

// chosen are the jobs of a query: all if it names none; unknown ones are left out.
func (m *monitor) chosen(q *query) (out []*plan.Job) {
	for i := range m.jobs {
		if j := &m.jobs[i]; len(q.Jobs) == 0 || slices.Contains(q.Jobs, j.ShortName()) {
			out = append(out, j)
		}
	}
	return out
}

// tasks are the batch tasks of a job, of some classes.
func (m *monitor) tasks(j *plan.Job, classes ...batch.Class) ([]plan.JobNode, error) {
	got, err := m.b.Jobs.ListNodes(plan.JobNodeFilter{Job: j.Name, Classes: classes}, plan.Range{Limit: math.MaxInt32})
	return got.Items, err
}

func (m *monitor) errorsOf(*query) (any, error) {
	out := map[string]string{}
	got, err := operationCalls{m.Server}.GetStatus(m.ctx, connect.NewRequest(&pb.GetStatusRequest{}))
	if err != nil {
		return nil, err
	}
	for i, warning := range got.Msg.Status.Warnings {
		out["status "+strconv.Itoa(i)] = warning
	}
	for i := range m.jobs {
		if j := &m.jobs[i]; j.NodesError != "" {
			out["nodes of job "+j.ShortName()] = j.NodesError
		}
	}
	return out, nil
}

func (m *monitor) refreshTime(*query) (any, error) { return m.clock().Unix(), nil }

func (m *monitor) clock() time.Time {
	if m.cfg.Now != nil {
		return m.cfg.Now()
	}
	return time.Time{}
}

func (m *monitor) exports(q *query) (any, error) {
	out := map[string]any{}
	for _, j := range m.chosen(q) {
		out[j.ShortName()] = bistro.Effective(&j.Job, &j.Forest)
	}
	return out, nil
}

// levelOf is the level of a step of a path.
func levelOf(j *plan.Job, i int) string {
	if i == 0 || i > len(j.Forest.Levels) {
		return batch.LevelInstance
	}
	return j.Forest.Levels[i-1]
}

// names are the nodes of the domain's jobs by level, those of one path from the root down.
func (m *monitor) names() (map[string][]string, error) {
	out, seen := map[string][]string{}, map[string]bool{}
	for i := range m.jobs {
		j := &m.jobs[i]
		list, err := m.tasks(j)
		if err != nil {
			return nil, err
		}
		for _, n := range list {
			for at, name := range n.Path {
				level := levelOf(j, at)
				if key := level + "\x00" + name; !seen[key] {
					seen[key] = true
					out[level] = append(out[level], name)
				}
			}
		}
	}
	return out, nil
}

func (m *monitor) nodeNames(*query) (any, error) { return m.names() }

// eachRunning calls do for each running task of the chosen jobs.
func (m *monitor) eachRunning(q *query, do func(of map[string]any, n *plan.JobNode)) (any, error) {
	out := map[string]map[string]any{}
	for _, j := range m.chosen(q) {
		list, err := m.tasks(j, batch.ClassRunning)
		if err != nil {
			return nil, err
		}
		of := map[string]any{}
		for i := range list {
			do(of, &list[i])
		}
		if len(of) > 0 {
			out[j.ShortName()] = of
		}
	}
	return out, nil
}

func (m *monitor) running(q *query) (any, error) {
	return m.eachRunning(q, func(of map[string]any, n *plan.JobNode) {
		of[n.Node] = map[string]any{"start_time": n.Since / 1000, "worker_shard": n.Cell}
	})
}

func (m *monitor) runtimes(q *query) (any, error) {
	now := m.clock().UnixMilli()
	return m.eachRunning(q, func(of map[string]any, n *plan.JobNode) { of[n.Node] = max(now-n.Since, 0) / 1000 })
}

// Bits that only the monitor has, and those that it does not show.
const (
	bitUnstarted, bitRunning, bitBackoff = 1, 2, 64
	bitAvoided, bitDisabled              = 128, 256
	shownBits                            = 3711
)

// monitorBits are the bits of a batch task in a histogram.
func monitorBits(n *plan.JobNode) int {
	bits := int(n.Status.Bits) & shownBits &^ bitBackoff
	switch n.Class {
	case batch.ClassRunning:
		bits = bitRunning
	case batch.ClassBackoff:
		bits |= bitBackoff
	case batch.ClassAvoided:
		return bits | bitAvoided
	case batch.ClassDisabled:
		return bits | bitDisabled
	}
	if bits == 0 {
		bits = bitUnstarted
	}
	return bits
}

// code writes bits in digits of base64url, the low six bits first.
func code(bits int) string {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	out := string(digits[bits&63])
	if bits >>= 6; bits != 0 {
		out += string(digits[bits&63])
	}
	return out
}

// histogram counts the nodes of each level by the bits of the tasks below them; invalid jobs have none.
func (m *monitor) histogram(q *query) (any, error) {
	counts, samples := map[string]any{}, map[string]any{}
	for _, j := range m.chosen(q) {
		if j.Progress.State == batch.JobInvalid {
			continue
		}
		list, err := m.tasks(j)
		if err != nil {
			return nil, err
		}
		byLevel := make([]map[string]int, len(j.Forest.Levels)+1)
		for i := range list {
			for at, name := range list[i].Path {
				if byLevel[at] == nil {
					byLevel[at] = map[string]int{}
				}
				byLevel[at][name] |= monitorBits(&list[i])
			}
		}
		of, some := map[string]map[string]int{}, map[string]map[string][]string{}
		for at, names := range byLevel {
			if names == nil {
				continue
			}
			level := levelOf(j, at)
			of[level], some[level] = map[string]int{}, map[string][]string{}
			for _, name := range slices.Sorted(maps.Keys(names)) {
				c := code(names[name])
				if of[level][c]++; len(some[level][c]) < q.Samples {
					some[level][c] = append(some[level][c], name)
				}
			}
		}
		counts[j.ShortName()], samples[j.ShortName()] = of, some
	}
	out := map[string]any{"histograms": counts}
	if q.Samples > 0 {
		out["samples"] = samples
	}
	return out, nil
}

// nodesOf are the nodes with the resources of their level.
func (m *monitor) nodesOf(q *query) (any, error) {
	names, err := m.names()
	if err != nil {
		return nil, err
	}
	off := map[string]bool{}
	for i := range m.jobs {
		list, err := m.tasks(&m.jobs[i], batch.ClassDisabled)
		if err != nil {
			return nil, err
		}
		for _, n := range list {
			off[n.Node] = true
		}
	}
	field := func(name string) bool { return len(q.Fields) == 0 || slices.Contains(q.Fields, name) }
	results := map[string]any{}
	for level, list := range names {
		resources := map[string]any{}
		for i := range m.jobs {
			for name, l := range m.jobs[i].Forest.Limits[level] {
				resources[name] = map[string]int{"default": l.Default, "limit": l.Limit, "weight": l.Weight}
			}
		}
		of := map[string]any{}
		for _, name := range list {
			if len(q.Nodes) > 0 && !slices.Contains(q.Nodes, name) {
				continue
			}
			one := map[string]any{}
			if field("resources") {
				one["resources"] = resources
			}
			if field("disabled") && off[name] {
				one["disabled"] = true
			}
			of[name] = one
		}
		results[level] = of
	}
	return map[string]any{"results": results}, nil
}

// known returns the key of a job of the domain.
func (m *monitor) known(name string) (string, error) {
	for i := range m.jobs {
		if m.jobs[i].ShortName() == name {
			return m.jobs[i].Name, nil
		}
	}
	return "", fmt.Errorf("unknown job %q: %w", text.Shorten(name, 60), fault.ErrNotFound)
}

// change writes to a known job.
func (m *monitor) change(job, done string, do func(key string, w plan.Write) error) (any, error) {
	key, err := m.known(job)
	if err != nil {
		return nil, err
	}
	return done, write(m.ctx, m.Server, nil, func(_ *Backend, w plan.Write) error { return do(key, w) })
}

func (m *monitor) delete(q *query) (any, error) {
	return m.change(q.Job, "deleted", func(key string, w plan.Write) error { return m.b.Jobs.RemoveJob(m.ctx, key, w) })
}

func (m *monitor) retry(q *query) (any, error) {
	for _, name := range q.Jobs { // all of them are known, or nothing is done
		if _, err := m.known(name); err != nil {
			return nil, err
		}
	}
	for _, name := range q.Jobs {
		if _, err := m.change(name, "", func(key string, w plan.Write) error {
			_, err := m.b.Jobs.RetryJob(m.ctx, plan.JobNodeFilter{Job: key}, w)
			return err
		}); err != nil {
			return nil, err
		}
	}
	return bistro.AnswerRetried, nil
}

func (m *monitor) kill(q *query) (any, error) {
	return m.change(q.Job, "signaled", func(key string, w plan.Write) error {
		if q.Node == "" {
			return errors.New("node_id is missing")
		}
		n, err := m.b.Jobs.KillJob(m.ctx, plan.JobNodeFilter{Job: key, Node: q.Node}, w)
		if err == nil && n == 0 {
			err = fmt.Errorf("job %q does not run on node %q", q.Job, text.Shorten(q.Node, 60))
		}
		return err
	})
}
