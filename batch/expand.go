package batch

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"cantina/action"
	"cantina/fence"
	"cantina/resource"
)

// StatusPipe is where a batch task writes its status.
const StatusPipe = "/dev/fd/3"

// Where is the cell that a batch task goes to.
type Where struct{ Cell, Host string }

// Expanded is the work of one batch task: the job's workload with its own environment, and the
// parts that "{}" changed.
type Expanded struct {
	// Env of this batch task, stronger than the workload's.
	Env []action.Variable
	// Program replaces the run action of a workload that is a single one; nil = as
	// the workload has it.
	Program *action.Run
	// Workload replaces the job's when "{}" occurs deeper in the tree; nil = the
	// job's.
	Workload *action.Workload
	// Resources that it takes from its cell.
	Resources resource.Amounts
	// Attempt is 1, and one more after each attempt that ended in an error or was lost
	// with its cell; after progress it is 1 again.
	Attempt int
}

// Payload is a cell's input for one invocation: the job's workload, shared by all its batch tasks,
// and the part of this one. (Seams, Containers: labels.)
type Payload struct {
	Domain   string
	Workload *action.Workload
	Env      []action.Variable
	Program  *action.Run // replaces the workload's single run action; nil = as it is
	// Resources are taken from the cell.
	Resources      resource.Amounts
	Labels         map[string]string
	IgnoreExitCode bool
}

// Payload builds the cell's input.
func (e Expanded) Payload(j *Job, k Key, inv fence.Invocation) Payload {
	p := Payload{Domain: j.Domain, Workload: &j.Workload, Env: e.Env, Program: e.Program, Resources: e.Resources,
		IgnoreExitCode: j.IgnoreExitCode}
	if e.Workload != nil {
		p.Workload = e.Workload
	}
	p.Labels = map[string]string{
		"kind": "batch", "domain": j.Domain, "job": j.ShortName(), "job_uid": j.UID, "node": k.Node,
		"invocation": inv.String(),
		"attempt":    strconv.Itoa(e.Attempt),
	}
	return p
}

// Expand makes a job's workload concrete for one batch task (Bistro, the input of a task).
func Expand(j *Job, s *Start, inv fence.Invocation, at Where, prev Status, prevData []byte) (Expanded, error) {
	list, err := json.Marshal(s.Path)
	if err != nil {
		return Expanded{}, fmt.Errorf("expand %s on %s: %w", j.Name, s.Key.Node, err)
	}
	e := Expanded{Resources: s.Cell, Attempt: prev.Attempts + prev.Losses + 1, Env: []action.Variable{
		{Name: "CANTINA_JOB", Value: j.ShortName()}, {Name: "CANTINA_NODE", Value: s.Key.Node},
		{Name: "CANTINA_PATH", Value: string(list)},
		{Name: "CANTINA_FENCE", Value: inv.String()}, {Name: "CANTINA_STATUS", Value: StatusPipe},
	}}
	switch j.Call {
	case CallBistro:
		return e, e.bistro(j, s, at, prev, prevData)
	case CallTemplate:
		e.template(j, s.Key.Node)
	}
	return e, nil
}

// template puts the node's name for "{}" and its last path element for "{/}".
func (e *Expanded) template(j *Job, node string) {
	r := braces(node)
	if run := j.Workload.Action.Run; run != nil && j.Workload.Setup == nil && j.Workload.Monitor == nil &&
		len(j.Workload.Sidecars) == 0 {
		if p := fill(*run, r); !same(p, *run) {
			e.Program = &p
		}
		return
	}
	w := j.Workload
	changed := false
	w.Action = fillAction(w.Action, r, &changed)
	for _, part := range []**action.Action{&w.Setup, &w.Monitor} {
		if *part != nil {
			a := fillAction(**part, r, &changed)
			*part = &a
		}
	}
	w.Sidecars = fillAll(w.Sidecars, r, &changed)
	if changed {
		e.Workload = &w
	}
}

// braces is the name of a node that is put for "{}", and its last path element for "{/}".
type braces string

// Replace replaces all of them in a text.
func (node braces) Replace(text string) string {
	at := strings.IndexByte(text, '{')
	if at < 0 {
		return text
	}
	var b strings.Builder
	for ; at >= 0; at = strings.IndexByte(text, '{') {
		b.WriteString(text[:at])
		switch text = text[at:]; {
		case strings.HasPrefix(text, "{}"):
			b.WriteString(string(node))
			text = text[len("{}"):]
		case strings.HasPrefix(text, "{/}"):
			b.WriteString(path.Base(string(node)))
			text = text[len("{/}"):]
		default:
			b.WriteByte('{')
			text = text[1:]
		}
	}
	b.WriteString(text)
	return b.String()
}

func fill(run action.Run, r braces) action.Run {
	run.Path, run.Dir = r.Replace(run.Path), r.Replace(run.Dir)
	args := make([]string, len(run.Args))
	for i, a := range run.Args {
		args[i] = r.Replace(a)
	}
	if len(args) > 0 {
		run.Args = args
	}
	return run
}

func same(a, b action.Run) bool {
	return a.Path == b.Path && a.Dir == b.Dir && slices.Equal(a.Args, b.Args)
}

func fillAction(a action.Action, r braces, changed *bool) action.Action {
	if a.Run != nil {
		p := fill(*a.Run, r)
		*changed = *changed || !same(p, *a.Run)
		a.Run = &p
	}
	if a.Download != nil {
		d := *a.Download
		d.From, d.To, d.CacheKey = r.Replace(d.From), r.Replace(d.To), r.Replace(d.CacheKey)
		*changed = *changed || d != *a.Download
		a.Download = &d
	}
	if a.Upload != nil {
		u := action.Upload{From: r.Replace(a.Upload.From), To: r.Replace(a.Upload.To)}
		*changed = *changed || u != *a.Upload
		a.Upload = &u
	}
	a.Serial, a.Parallel, a.Codependent = fillAll(a.Serial, r, changed), fillAll(a.Parallel, r, changed),
		fillAll(a.Codependent, r, changed)
	if a.Try != nil {
		t := fillAction(*a.Try, r, changed)
		a.Try = &t
	}
	if a.Timeout != nil {
		t := action.Timeout{Action: fillAction(a.Timeout.Action, r, changed), After: a.Timeout.After}
		a.Timeout = &t
	}
	if a.EmitProgress != nil {
		p := *a.EmitProgress
		p.Action = fillAction(p.Action, r, changed)
		a.EmitProgress = &p
	}
	return a
}

func fillAll(list []action.Action, r braces, changed *bool) []action.Action {
	if list == nil {
		return nil
	}
	out := make([]action.Action, len(list))
	for i, a := range list {
		out[i] = fillAction(a, r, changed)
	}
	return out
}

// bistro appends the node's name, the status pipe and a JSON object to the
// command.
func (e *Expanded) bistro(j *Job, s *Start, at Where, prev Status, prevData []byte) error {
	type previous struct {
		Bits    Bits            `json:"result_bits"`
		Data    json.RawMessage `json:"data,omitempty"`
		Time    int64           `json:"time"`
		Backoff int             `json:"backoff_duration,omitempty"`
	}
	doc := struct {
		ID        string                      `json:"id"`
		Path      []string                    `json:"path_to_node"`
		Config    json.RawMessage             `json:"config"`
		Resources map[string]resource.Amounts `json:"resources_by_node"`
		Previous  *previous                   `json:"prev_status,omitempty"`
		Worker    string                      `json:"worker_node"`
		Host      string                      `json:"worker_host"`
	}{
		ID: j.ShortName(), Path: s.Path, Config: json.RawMessage(cmp.Or(j.Config, "{}")), Worker: at.Cell, Host: at.Host,
		Resources: map[string]resource.Amounts{at.Cell: s.Cell},
	}
	for _, d := range s.Draws { // a cell and nodes of several levels may have one name
		all := make(resource.Amounts)
		maps.Copy(all, doc.Resources[d.Node])
		maps.Copy(all, d.Amounts)
		doc.Resources[d.Node] = all
	}
	if prev.Bits != 0 {
		doc.Previous = &previous{Bits: prev.Bits, Data: prevData, Time: prev.Time / 1000, Backoff: prev.Backoff}
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return fmt.Errorf("expand %s on %s: %w", j.Name, s.Key.Node, err)
	}
	run := j.Workload.Action.Run
	if run == nil {
		return fmt.Errorf("expand %s on %s: a Bistro job runs one command: %w", j.Name, s.Key.Node, ErrStatus)
	}
	p := *run
	p.Args = slices.Concat(run.Args, []string{s.Key.Node, StatusPipe, string(text)})
	e.Program = &p
	return nil
}
