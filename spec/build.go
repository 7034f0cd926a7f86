package spec

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"cantina/action"
	"cantina/internal/text"
	"cantina/label"
	"cantina/lrp"
	"cantina/resource"
	"cantina/task"
)

func (b *builder) service(domain, name string, s *service) lrp.Desired {
	out := lrp.Desired{
		Service: lrp.ServiceKey{Domain: domain, Name: name}, Instances: 1,
		Routes: pairs(s.Routes), Annotation: s.Annotation,
		Workload: b.workload(&s.place, &s.workload, s.Resources),
		Stack:    s.Stack, PlacementTags: s.Placement, Labels: literals(s.CellLabels), Tolerations: s.Tolerations,
		Exclusive: s.Exclusive, OnPartition: lrp.OnPartition(s.OnPartition.index),
		ReplaceAfter: time.Duration(s.ReplaceAfter), OnReturn: lrp.OnReturn(s.OnReturn.index),
		Conditions: conditions(b, &s.place, s.CellMatch),
	}
	neighbours(b, s, &out)
	out.PreemptPriority = preemptPriority(s.Preempt)
	if s.Instances != nil {
		out.Instances = *s.Instances
	}
	w := &out.Workload
	if w.Ports = b.ports(s); w.OwnNet && len(w.Ports) > 0 {
		b.field(&s.place, "ports", action.ErrNoWayIn.Error(), "remove own_net or the ports")
	}
	b.overridden(s.joined, w.Ports)
	if s.has("start_timeout") {
		b.longer(&s.place, "start_timeout", s.StartTimeout, "remove it: there is then no limit")
	}
	w.Checks = b.checks(s.Checks, w.Ports)
	w.ReadinessChecks = b.checks(s.Readiness, w.Ports)
	w.Monitor = b.step(s.Monitor)
	w.StartTimeout = time.Duration(s.StartTimeout)
	for i := range s.Sidecars {
		w.Sidecars = append(w.Sidecars, *b.step(&s.Sidecars[i]))
	}
	if w.CheckKeep() != nil && len(w.Sidecars) > 0 {
		b.field(&s.place, "sidecars", "work with on_cell_restart: keep has none",
			"use on_cell_restart: stop, or make the sidecar a service of its own")
	}
	b.annotation(&s.place, s.Annotation)
	if s.Restart != nil {
		out.Restart = b.restart(s.Restart)
	}
	if s.Update != nil {
		if s.Update.has("progress_deadline") {
			b.longer(&s.Update.place, "progress_deadline", s.Update.Deadline, "remove it: the default is 10m")
		}
		out.Strategy = lrp.Strategy(s.Update.Order.index)
		out.Rollout = lrp.RolloutPolicy{
			Batch: s.Update.Batch, Settle: time.Duration(s.Update.Settle), ProgressDeadline: time.Duration(s.Update.Deadline),
			KeepFailed: s.Update.OnFailure.index == 1,
		}
	}
	if s.Exclusive {
		if s.Update != nil && s.Update.has("order") && out.Strategy == lrp.StartFirst {
			b.field(&s.Update.place, "order", "an exclusive service is always replaced stop_first",
				"use stop_first, or remove the field")
		}
		if s.has("on_partition") && out.OnPartition == lrp.PartitionKeep {
			b.field(&s.place, "on_partition", "an exclusive service is always stopped on a partition",
				"use stop, or remove the field")
		}
		if s.ReplaceAfter != 0 || s.has("on_return") {
			field := "on_return"
			if s.ReplaceAfter != 0 {
				field = "replace_after"
			}
			b.field(&s.place, field, "an exclusive instance is replaced only after its old copy is declared dead",
				"remove replace_after or exclusive")
		}
		out.Strategy, out.OnPartition = lrp.StopFirst, lrp.PartitionStop
	}
	return out
}

func (b *builder) annotation(p *place, s string) {
	if len(s) > lrp.MaxAnnotation {
		b.field(p, "annotation", "longer than 10 KiB", "")
	}
}

func (b *builder) restart(r *restart) lrp.RestartPolicy {
	for field, d := range map[string]duration{"base": r.Base, "max": r.Max, "reset_after": r.ResetAfter} {
		if r.has(field) {
			b.longer(&r.place, field, d, "remove it for the default")
		}
	}
	out := lrp.RestartPolicy{Mode: lrp.RestartMode(r.Mode.index), Base: time.Duration(r.Base), Max: time.Duration(r.Max),
		ResetAfter: time.Duration(r.ResetAfter)}
	if r.Immediate != nil {
		if out.Immediate = *r.Immediate + 1; *r.Immediate == 0 {
			out.Immediate = -1
		}
	}
	if r.GiveUp != nil {
		if out.GiveUp = *r.GiveUp; out.GiveUp == 0 {
			b.field(&r.place, "give_up", "must be at least 1, or -1 for never", "mode: never has no restarts")
		}
	}
	if err := out.Validate(); err != nil {
		b.meaning(r.at, r.node, strings.TrimSuffix(strings.TrimPrefix(err.Error(), "restart: "), ": "+lrp.ErrInvalid.Error()),
			"")
	}
	return out
}

// preemptPriority is the default, written or not, as a definition has it.
func preemptPriority(p *int) int {
	if p == nil || *p == action.DefaultPriority {
		return 0
	}
	return *p
}

func (b *builder) task(t *oneTask) task.Definition {
	out := task.Definition{
		Workload: b.workload(&t.place, &t.workload, t.Resources),
		Stack:    t.Stack, PlacementTags: t.Placement, Labels: literals(t.CellLabels), Tolerations: t.Tolerations,
		Annotation: t.Annotation, CallbackURL: t.Callback,
		WhenFull: task.WhenFull(t.WhenFull.index), OnLost: task.OnLost(t.OnLost.index),
		PendingTimeout: time.Duration(t.Pending), Conditions: conditions(b, &t.place, t.CellMatch),
	}
	out.Workload.ResultFile, out.PreemptPriority = t.ResultFile, preemptPriority(t.Preempt)
	if t.has("pending_timeout") {
		b.longer(&t.place, "pending_timeout", t.Pending, "when_full: fail does not wait for room")
	}
	b.annotation(&t.place, t.Annotation)
	if t.Callback != "" {
		if u, err := url.Parse(t.Callback); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			b.field(&t.place, "callback", "must be an http or https address", "")
		}
	}
	return out
}

// workload builds the common part of all kinds of work.
func (b *builder) workload(p *place, w *workload, extra named[amount]) action.Workload {
	w.joined = b.env.variables(w)
	out := action.Workload{
		Setup: b.step(w.Setup), TimeLimit: time.Duration(w.TimeLimit), Env: joined(w.joined), User: b.user(p, w.User),
		Resources: b.amounts(p, w, extra), MaxPids: w.MaxPids,
		Isolation: action.Isolation(w.Isolation.index), OwnNet: w.OwnNet, Rootfs: b.rootfs(p, w.Rootfs),
		Termination:   b.termination(p, w),
		OnCellRestart: action.OnCellRestart(w.OnCellRestart.index), LogRate: int(w.LogRate), API: w.API,
		Labels: literals(w.Labels),
	}
	for _, l := range w.Labels {
		if err := label.Check(l.key, string(l.value)); err != nil {
			b.field(p, "labels", oneLine(err), "")
			break
		}
	}
	switch {
	case w.Command.set() && w.Action != nil:
		b.field(p, "action", "command and action are mutually exclusive", "")
	case w.Action != nil:
		out.Action = *b.step(w.Action)
		for _, f := range []string{"dir", "open_files", "suppress_output"} {
			if p.has(f) {
				b.field(p, f, "applies to command only; with action, set it in each run step", "")
			}
		}
	case p.has("command"):
		r := b.program(p, w.Command)
		r.Dir, r.OpenFiles, r.SuppressOutput = b.relative(p, "dir", w.Dir), w.OpenFiles, w.Quiet
		out.Action = action.Action{Run: &r}
	case w.Rootfs != "": // the image names it
		out.Action = action.Action{Run: &action.Run{Dir: b.relative(p, "dir", w.Dir), OpenFiles: w.OpenFiles,
			SuppressOutput: w.Quiet}}
	default:
		b.meaning(p.at, p.node, "field command is missing", "or use action")
	}
	b.isolation(p, w)
	b.overridden(w.joined, nil)
	if p.has("time_limit") {
		b.longer(p, "time_limit", w.TimeLimit, "remove it: there is then no limit")
	}
	if err := out.CheckKeep(); err != nil && (out.Action.Run != nil || w.Action != nil) {
		b.field(p, "on_cell_restart", err.Error(), "use on_cell_restart: stop, or a single command")
	}
	if err := action.CheckEnv(env(w.Env)); err != nil {
		b.field(p, "env", oneLine(err), "")
	}
	for _, s := range w.Secrets {
		out.Secrets = append(out.Secrets, action.SecretFile{Name: s.key, File: string(s.value)})
	}
	if err := action.CheckSecrets(out.Secrets, out.Env); err != nil {
		b.field(p, "secrets", oneLine(err), "")
	}
	b.volumes(p, w.Volumes, &out)
	out.EachRun(func(_ string, r *action.Run) {
		if err := r.CheckArguments(out.Env); err != nil && (len(out.Env) > 0 || w.Action == nil) {
			b.meaning(p.at, p.node, err.Error(), "")
		}
	})
	return out
}

// volumes builds the volumes of work whose isolation is known.
func (b *builder) volumes(p *place, list []volume, out *action.Workload) {
	valid := true
	for i := range list {
		v := &list[i]
		out.Volumes = append(out.Volumes, action.Volume{Host: v.Host, Container: cmp.Or(v.Container, v.Host),
			ReadOnly: v.ReadOnly})
		if err := out.Volumes[i].Check(); err != nil {
			b.meaning(v.at, v.node, err.Error(), "")
			valid = false
		}
	}
	if err := out.CheckVolumes(); valid && err != nil {
		hint := ""
		if out.Isolation == action.IsolationProcess || out.Isolation == action.IsolationNone {
			hint = "with namespaces, the rest of the machine is read-only and /tmp is private"
		}
		b.field(p, "volumes", oneLine(err), hint)
	}
}

// oneLine is an error that may be several.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

func (b *builder) isolation(p *place, w *workload) {
	rootfs, namespaces := w.Isolation.index == int(action.IsolationRootfs),
		w.Isolation.index == int(action.IsolationNamespaces)
	if rootfs != (w.Rootfs != "") {
		b.field(p, "rootfs", "rootfs and isolation: rootfs need each other", "")
	}
	if w.OwnNet && !rootfs && !namespaces {
		b.field(p, "own_net", "needs isolation: namespaces or rootfs", "")
	}
}

// rootfs parses the name of a root file system; one that begins with ./ is relative to the file.
func (b *builder) rootfs(p *place, name string) string {
	if name == "" {
		return ""
	}
	path := b.relative(p, "rootfs", name)
	if path == name && strings.HasPrefix(name, ".") { // the file has no directory
		return name
	}
	if err := action.CheckRootfs(path); err != nil {
		hint := ""
		if !strings.ContainsAny(name, "@:/") {
			hint = "use ./" + text.Shorten(name, 60) + " for a path relative to the directory of this file"
		}
		b.field(p, "rootfs", reason(err, action.ErrRootfs), hint)
	}
	return path
}

// user parses the user of a program.
func (b *builder) user(p *place, text literal) string {
	if _, err := action.ParseUser(string(text)); p.has("user") && err != nil {
		b.field(p, "user", reason(err, action.ErrUser), "")
	}
	return string(text)
}

// reason is the text of an error without its kind.
func reason(err, word error) string { return strings.TrimPrefix(err.Error(), word.Error()+" ") }

func (b *builder) termination(p *place, w *workload) action.Termination {
	t := action.Termination{Mode: action.KillMode(w.KillMode.index), Target: action.KillTarget(w.KillTarget.index)}
	if w.StopSignal != nil {
		t.Signal = int(*w.StopSignal)
	}
	if w.ParentDeath != nil {
		t.ParentDeath = int(*w.ParentDeath)
	}
	if w.Session != nil {
		t.NoSession = !*w.Session
	}
	t.Grace = b.positive(p, "stop_grace", w.StopGrace)
	t.LeftoverGrace = b.positive(p, "leftover_grace", w.LeftoverGrace)
	return t
}

// positive refuses 0, which would mean the default.
func (b *builder) positive(p *place, field string, d *duration) time.Duration {
	if d == nil {
		return 0
	}
	if *d == 0 {
		b.field(p, field, "must be longer than 0", "use kill_mode: kill to send KILL at once")
	}
	return time.Duration(*d)
}

// longer refuses 0 in a written field, which would mean the default.
func (b *builder) longer(p *place, field string, d duration, hint string) {
	if d == 0 {
		b.field(p, field, "must be longer than 0", hint)
	}
}

// overridden warns of variables that the cell sets itself: with ports the variables of those, else
// all others.
func (b *builder) overridden(vars []placed, ports []action.Port) {
	for _, v := range vars {
		by := ""
		switch i := slices.IndexFunc(ports, func(p action.Port) bool { return action.PortVariable(p.Name) == v.Name }); {
		case i >= 0:
			by = "port " + ports[i].Name
		case v.Name == "PORT" && len(ports) > 0:
			by = "port " + ports[0].Name
		case len(ports) == 0 && slices.Contains(cellVariables(), v.Name):
			by = "the cell"
		}
		if by != "" {
			v.Text = "this value is not used: " + by + " sets the variable"
			b.notes = append(b.notes, v.Problem.String())
		}
	}
}

// cellVariables are the variables that a cell sets whatever the file has.
func cellVariables() []string {
	return []string{"CANTINA_CELL", "CANTINA_CONTAINER", "CANTINA_DIR", "CANTINA_DOMAIN", "CANTINA_SCHEDULED_AT",
		"CANTINA_SCHEDULE", "CANTINA_JOB", "CANTINA_NODE", "CANTINA_PATH", "CANTINA_FENCE", "CANTINA_STATUS"}
}

func (b *builder) amounts(p *place, w *workload, extra named[amount]) resource.Amounts {
	out := resource.Amounts{}
	set := func(name string, v int) {
		if v > 0 {
			out[name] = v
		}
	}
	set(resource.MemoryMB, w.Memory.mebibytes())
	set(resource.DiskMB, w.Disk.mebibytes())
	set(resource.CPUMilli, int(w.CPU))
	for _, e := range extra {
		if field := ownField(e.key); field != "" {
			b.meaning(e.at, e.node, "this resource has its own field", "use "+field)
			continue
		}
		set(e.key, int(e.value))
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// ownField is the field that sets an amount of that name, or "".
func ownField(name string) string {
	return map[string]string{
		resource.MemoryMB: "memory: 64Mi", resource.DiskMB: "disk: 1Gi", resource.CPUMilli: "cpu: 500m",
		resource.Containers: "no field: each instance counts as one container",
	}[name]
}

func (b *builder) program(p *place, c command) action.Run {
	if c.shell != "" {
		return action.Run{Path: "/bin/sh", Args: []string{"-c", c.shell}}
	}
	if len(c.args) == 0 {
		return action.Run{}
	}
	r := action.Run{Path: b.relative(p, "command", c.args[0])}
	if len(c.args) > 1 {
		r.Args = c.args[1:]
	}
	return r
}

// step builds one step of an action tree; nil stays nil.
func (b *builder) step(a *tree) *action.Action {
	if a == nil {
		return nil
	}
	switch {
	case a.Run != nil:
		return &action.Action{Run: b.run(a.Run)}
	case a.Download != nil:
		return &action.Action{Download: b.download(a.Download)}
	case a.Upload != nil:
		return &action.Action{Upload: &action.Upload{From: a.Upload.From, To: a.Upload.To}}
	case a.Serial != nil:
		return &action.Action{Serial: b.steps(&a.place, "serial", a.Serial)}
	case a.Parallel != nil:
		return &action.Action{Parallel: b.steps(&a.place, "parallel", a.Parallel)}
	case a.Codependent != nil:
		return &action.Action{Codependent: b.steps(&a.place, "codependent", a.Codependent)}
	case a.Try != nil:
		return &action.Action{Try: b.step(a.Try)}
	case a.Timeout != nil:
		if a.Timeout.After == 0 {
			b.field(&a.Timeout.place, "after", "must be longer than 0", "")
		}
		return &action.Action{Timeout: &action.Timeout{Action: *b.step(&a.Timeout.Action),
			After: time.Duration(a.Timeout.After)}}
	case a.EmitProgress != nil:
		e := a.EmitProgress
		return &action.Action{EmitProgress: &action.EmitProgress{
			Action: *b.step(&e.Action), Start: e.Start, Success: e.Success, FailureMessagePrefix: e.Failure,
		}}
	}
	b.meaning(a.at, a.node, "a step needs a kind, such as run", "")
	return &action.Action{}
}

func (b *builder) steps(p *place, field string, list trees) []action.Action {
	if len(list) == 0 {
		b.field(p, field, "must have at least one step", "")
	}
	out := make([]action.Action, len(list))
	for i := range list {
		out[i] = *b.step(&list[i])
	}
	return out
}

func (b *builder) run(r *run) *action.Run {
	out := b.program(&r.place, r.Command)
	out.Dir, out.Env, out.User = b.relative(&r.place, "dir", r.Dir), env(r.Env), b.user(&r.place, r.User)
	out.OpenFiles, out.SuppressOutput = r.OpenFiles, r.Quiet
	if err := action.CheckEnv(out.Env); err != nil {
		b.field(&r.place, "env", oneLine(err), "")
	}
	if err := out.CheckArguments(nil); err != nil {
		b.meaning(r.at, r.node, err.Error(), "")
	}
	return &out
}

func (b *builder) download(d *download) *action.Download {
	out := &action.Download{From: d.From, To: d.To, Unpack: d.Unpack, CacheKey: d.CacheKey, AllowUnpinned: d.AllowUnpinned}
	check := func(algorithm, value string, bytes int) {
		if value == "" {
			return
		}
		if raw, err := hex.DecodeString(value); err != nil || len(raw) != bytes {
			b.field(&d.place, algorithm, "must be a checksum in hexadecimal digits", "")
		}
		out.ChecksumAlgorithm, out.ChecksumValue = algorithm, strings.ToLower(value)
	}
	check("sha256", d.SHA256, 32)
	check("sha512", d.SHA512, 64)
	if d.SHA256 == "" && d.SHA512 == "" && !d.AllowUnpinned {
		b.meaning(d.at, d.node, "a download needs sha256 or sha512", "or set allow_unpinned: true to accept any content")
	}
	if u, err := url.Parse(d.From); err != nil || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "file" {
		b.field(&d.place, "from", "must be an http, https or file address", "")
	}
	return out
}

func (b *builder) ports(s *service) []action.Port {
	var out []action.Port
	seen := map[string]*port{}
	for i := range s.Ports {
		p := &s.Ports[i]
		variable := action.PortVariable(p.Name)
		first, twice := seen[variable]
		switch {
		case !lrp.ValidName(p.Name):
			b.field(&p.place, "name", lrp.NameRule, "")
		case twice && first.Name == p.Name:
			b.field(&p.place, "name", "is a duplicate: each name must be unique",
				fmt.Sprintf("see line %d", first.node.Line))
		case twice:
			b.field(&p.place, "name", fmt.Sprintf("sets the variable %s, like port %s in line %d",
				variable, first.Name, first.node.Line), "choose another name")
		default:
			seen[variable] = p
		}
		if at := slices.IndexFunc(out, func(q action.Port) bool { return p.Fixed != 0 && q.Fixed == p.Fixed }); at >= 0 {
			b.field(&p.place, "fixed", fmt.Sprintf("same fixed port as port %s", out[at].Name),
				"use a different number for each port of a service")
		}
		out = append(out, action.Port{Name: p.Name, Fixed: p.Fixed})
	}
	return out
}

// portsAlone reports errors in the ports and checks of services of a file with other errors, so
// that one run reports all of them. Fields with a syntax error are skipped: their values are not
// reliable.
func (b *builder) portsAlone(f *file) {
	form := b.problems.List
	broken := func(at *path, field string) bool {
		whole := (&path{outer: at, name: field}).String()
		return slices.ContainsFunc(form, func(p Problem) bool { return strings.HasPrefix(p.Path, whole) })
	}
	for i := range f.Services {
		s := &f.Services[i].value
		if !b.broken(f.Services[i].at) { // judged as a whole
			continue
		}
		if broken(s.at, "ports") {
			continue
		}
		ports := b.ports(s)
		if !broken(s.at, "checks") {
			b.checks(s.Checks, ports)
		}
		if !broken(s.at, "readiness_checks") {
			b.checks(s.Readiness, ports)
		}
	}
}

func (b *builder) checks(list []check, ports []action.Port) []action.Check {
	var out []action.Check
	for i := range list {
		c := &list[i]
		for field, d := range map[string]duration{
			"timeout": c.Timeout, "startup_interval": c.Startup, "interval": c.Interval,
		} {
			if c.has(field) {
				b.longer(&c.place, field, d, "remove it for the default")
			}
		}
		x := action.Check{Timeout: time.Duration(c.Timeout), StartupInterval: time.Duration(c.Startup),
			Interval: time.Duration(c.Interval)}
		kinds := 0
		if c.HTTP != nil {
			kinds++
			x.HTTP = &action.HTTPCheck{Port: b.portOf(&c.HTTP.place, c.HTTP.Port, ports), Path: "/"}
			if c.HTTP.Path != "" {
				x.HTTP.Path = c.HTTP.Path
			}
			if !strings.HasPrefix(x.HTTP.Path, "/") {
				b.field(&c.HTTP.place, "path", "must begin with /", "")
			}
		}
		if c.TCP != nil {
			kinds++
			x.TCP = &action.TCPCheck{Port: b.portOf(&c.TCP.place, c.TCP.Port, ports)}
		}
		if c.Exec != nil {
			kinds++
			x.Exec = b.run(c.Exec)
		}
		if kinds != 1 {
			b.meaning(c.at, c.node, "a check needs exactly one of http, tcp and exec", "")
		}
		out = append(out, x)
	}
	return out
}

func (b *builder) portOf(p *place, name string, ports []action.Port) string {
	if len(ports) == 0 {
		b.field(p, "port", "the service has no ports", "add ports: [{name: http}]")
		return name
	}
	if name == "" {
		return ports[0].Name
	}
	var names []string
	for _, q := range ports {
		if q.Name == name {
			return name
		}
		names = append(names, q.Name)
	}
	b.field(p, "port", "the service has no port "+name, b.guess(name, names))
	return name
}

func joined(vars []placed) []action.Variable {
	var out []action.Variable
	for _, v := range vars {
		out = append(out, v.Variable)
	}
	return out
}

func env(vars variables) []action.Variable {
	var out []action.Variable
	for _, e := range vars {
		out = append(out, action.Variable{Name: e.key, Value: string(e.value)})
	}
	return out
}

func literals(m free[literal]) map[string]string {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]string, len(m))
	for _, e := range m {
		out[e.key] = string(e.value)
	}
	return out
}

func pairs(m free[string]) map[string]string {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]string, len(m))
	for _, e := range m {
		out[e.key] = e.value
	}
	return out
}
