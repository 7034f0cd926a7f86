package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cantina/action"
	"cantina/api"
	"cantina/lrp"
	"cantina/resource"
	pb "cantina/wire/cantinav1"
	"cantina/worker"
)

// jobRunFlags are the flags of job run.
type jobRunFlags struct {
	over, name, resume, domain string
	parallel, retries          int
	detach, remove, prefix     bool
	env, envFiles              []string
	dir, user                  string
	memory                     int64
	cpu                        int // thousandths
	limit                      time.Duration
	volumes                    []action.Volume
}

// newJobFlags are those that a resumed job without a command has already.
func newJobFlags() []string {
	return []string{"over", "parallel", "retries", "env", "env-file", "dir", "user", "memory", "cpu", "time-limit",
		"volume"}
}

func jobRunVerb(c *cli) *cobra.Command {
	f := &jobRunFlags{}
	cmd := &cobra.Command{
		Use:   "run --over FILE|GLOB|RANGE|- [flags] -- PROGRAM [ARG...]",
		Short: "Run a program once for each line, file or number, and follow it",
		Long: "run makes a job with one batch task for each value of --over, follows its output and waits for " +
			"its end. {} in the command is the value, {/} its last path element; without either, the " +
			"value is the last argument. Exits 0 if all succeeded, 1 if any failed.\n" +
			"\n" +
			"--over is a file with one value per line, a pattern of files (quoted, so that the shell does not " +
			"expand it; the values are absolute paths), a range of numbers FIRST-LAST or FIRST-LAST:STEP, or - " +
			"for standard input. Empty lines are left out; a value that occurs twice runs once.\n" +
			"\n" +
			"Batch tasks can run on any cell and outlive this command. They have no standard input and not " +
			"your working directory: use --dir and --env, or files that the cells can read. Ctrl-C detaches; a " +
			"second Ctrl-C stops the job. --resume continues a job: its failed and unfinished batch tasks run. " +
			"The name of the job is printed to standard error. On a terminal a line shows progress, rate and " +
			"estimated time.",
		Example: "  cantina job run --over 'photos/*.jpg' -P 4 -- convert {} /thumbs/{/}\n" +
			"  cantina job run --over hosts.txt --retries 2 --name ping -- ping -c 1 {}\n" +
			"  seq 100 | cantina job run --over - -- sh -c 'echo \"$1\"' sh {}\n" +
			"  cantina job run --resume ping",
		RunE: func(cmd *cobra.Command, args []string) error { return runJob(c, cmd, f, args) },
	}
	fl := cmd.Flags()
	fl.SetInterspersed(false)
	fl.StringVar(&f.over, "over", "", "values: a file with one per line, a pattern of files, a range like 1-100 or "+
		"0-100:5, or - for standard input")
	numberVar(fl, &f.parallel, "parallel", "P", 0, 1, 1_000_000, "maximum number at once (default: the processors "+
		"of the cells)")
	numberVar(fl, &f.retries, "retries", "", 0, 0, 1_000_000, "number of retries after a failed attempt")
	fl.StringVar(&f.resume, "resume", "", "continue the job of this name: run its failed and unfinished batch tasks")
	fl.StringVar(&f.name, "name", "", "name of the job (default: generated)")
	fl.StringVar(&f.domain, "domain", "", "domain of the job (default: default)")
	fl.BoolVarP(&f.detach, "detach", "d", false, "print the name of the job and return")
	fl.BoolVar(&f.remove, "rm", false, "remove the job when all has succeeded")
	fl.BoolVar(&f.prefix, "prefix", false, "print the job and the value before each line")
	envFileFlag(fl, &f.envFiles)
	fl.StringArrayVarP(&f.env, "env", "e", nil, "environment variable: NAME=VALUE, or NAME to pass on the local "+
		"value if set")
	fl.StringVar(&f.dir, "dir", "", "working directory of the program")
	fl.Var(&userFlag{&f.user}, "user", "user: name, uid or uid:gid; a name must exist on the cell")
	fl.VarP(&volumeFlag{to: &f.volumes}, "volume", "v", "file or directory of the cell's machine: HOST:CONTAINER or "+
		"HOST:CONTAINER:ro; repeatable. The batch tasks have isolation namespaces then")
	fl.Var(&sizeFlag{bytes: &f.memory}, "memory", "memory that each reserves, also its limit, like 64Mi")
	fl.Var(&cpuFlag{&f.cpu}, "cpu", "processors that each reserves, like 0.5 or 500m")
	fl.Var(&durationFlag{d: &f.limit}, "time-limit", "maximum run time of one attempt")
	oneOf(cmd, "resume", "name")
	c.writing(cmd)
	fl.Lookup("output").Usage = "print the job when it has ended, instead of its output: table, wide, json, yaml, name " +
		"or jsonl"
	return cmd
}

func runJob(c *cli, cmd *cobra.Command, f *jobRunFlags, args []string) error {
	if err := f.check(cmd, args); err != nil {
		return err
	}
	s, since := subject{kind: "job", domain: cmp.Or(f.domain, "default"), name: f.name}, (*timestamppb.Timestamp)(nil)
	if f.resume != "" {
		var err error
		if s, err = findWhole(c, "job", f.resume, f.domain); err != nil {
			return err
		}
		since = timestamppb.New(c.Now())
	}
	if len(args) > 0 {
		if s.name == "" {
			s.name = overName(args)
		}
		if nothing, err := f.apply(c, s, args); nothing || err != nil {
			return err
		}
	}
	if f.resume != "" {
		if err := continueJob(c, s); err != nil {
			return err
		}
	}
	switch {
	case f.detach && c.answers():
		return resourceOf(c, s)
	case f.detach:
		return line(c.Out, s.domain+"/"+s.name)
	}
	return f.follow(c, s, since)
}

// check refuses flags that do not fit together.
func (f *jobRunFlags) check(cmd *cobra.Command, args []string) error {
	if f.name != "" && !lrp.ValidName(f.name) {
		return failf(api.ExitUsage, "--name: %s, not %q", lrp.NameRule, f.name)
	}
	if len(args) > 0 {
		if f.over == "" {
			return failf(api.ExitUsage, "--over is missing; for example: cantina job run --over 1-10 -- echo {}")
		}
		return nil
	}
	if f.resume == "" {
		return failf(api.ExitUsage, "no program given; for example: cantina job run --over 1-10 -- echo {}")
	}
	for _, flag := range newJobFlags() {
		if cmd.Flags().Changed(flag) {
			return failf(api.ExitUsage, "--%s needs the command, too; --resume %s alone continues the job as it "+
				"is", flag, f.resume)
		}
	}
	return nil
}

// apply creates the job, or changes the one that is resumed. nothing: there are no values.
func (f *jobRunFlags) apply(c *cli, s subject, args []string) (nothing bool, err error) {
	values, err := readOver(c, f.over)
	if err != nil {
		return false, err
	}
	noteOver(c, values)
	if len(values.values) == 0 && values.numbers == nil {
		c.notef("--over %s has no values; nothing to run\n", f.over)
		return true, nil
	}
	_, err = call(c, calls.GetJob, &pb.GetJobRequest{Domain: s.domain, Name: s.name})
	switch {
	case err == nil && f.resume == "":
		return false, failf(api.ExitFailed, "job %s/%s already exists; choose another --name, or continue it: cantina "+
			"job run --resume %[1]s/%[2]s", s.domain, s.name)
	case err != nil && (f.resume != "" || !isCode(err, "not_found", "collected")):
		return false, err
	}
	content, err := f.definition(c, s, values, args)
	if err != nil {
		return false, err
	}
	here, err := os.Getwd()
	if err != nil {
		return false, failf(api.ExitFailed, "working directory: %v", err)
	}
	files := []*pb.SpecFile{{Name: "job run", Dir: here, Content: content}}
	if _, err := parseSpecs(c, files); err != nil {
		return false, err
	}
	_, err = call(c, calls.Apply, &pb.ApplyRequest{Files: files, Write: &pb.Write{}})
	if isCode(err, "too_large") {
		return false, failf(api.ExitFailed, "--over %s: too many values for one job: %v", f.over, err)
	}
	return false, err
}

// definition is the job as a spec file.
func (f *jobRunFlags) definition(c *cli, s subject, values over, args []string) ([]byte, error) {
	for _, a := range args {
		if !utf8.ValidString(a) {
			return nil, failf(api.ExitUsage, "argument %q is not UTF-8", a)
		}
	}
	args, err := withValue(args)
	if err != nil {
		return nil, err
	}
	path, err := program(args[0])
	if err != nil {
		return nil, err
	}
	env, err := taskVariables(c, f.envFiles, f.env)
	if err != nil {
		return nil, err
	}
	if f.parallel == 0 {
		if f.parallel, err = processors(c); err != nil {
			return nil, err
		}
	}
	type object = map[string]any
	job := object{
		"command": append([]string{path}, args[1:]...), "nodes": []object{values.source()},
		"node_order": "original",
		"retries":    f.retries, "backoff": []string{"1s", "5s", "15s", "1m", "5m", "repeat"},
		"resources": object{"instance": object{"parallel": object{"limit": f.parallel}}},
	}
	if len(env) > 0 {
		variables := map[string]string{}
		for _, v := range env {
			variables[v.Name] = v.Value
		}
		job["env"] = variables
	}
	if len(f.volumes) > 0 {
		var volumes []object
		for _, v := range f.volumes {
			volumes = append(volumes, object{"host": v.Host, "container": v.Container, "read_only": v.ReadOnly})
		}
		job["volumes"], job["isolation"] = volumes, action.IsolationNamespaces.String()
	}
	for field, value := range map[string]string{
		"dir": f.dir, "user": f.user, "memory": unit((f.memory+1<<20-1)>>20, "Mi"), "cpu": unit(int64(f.cpu), "m"),
		"time_limit": (&durationFlag{d: &f.limit}).String(),
	} {
		if value != "" {
			job[field] = value
		}
	}
	return json.Marshal(object{"domain": s.domain, "jobs": object{s.name: job}})
}

// unit is an amount with its unit; empty for 0.
func unit(n int64, name string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d%s", n, name)
}

// processors counts those of the cells that can get work; of this machine if there is none.
func processors(c *cli) (int, error) {
	sum := int32(0)
	err := pages(func(cursor string) (string, error) {
		l, err := call(c, calls.ListCells, &pb.ListCellsRequest{Page: &pb.Page{Cursor: cursor, Limit: api.MaxPage}})
		for _, x := range l.GetCells() {
			if x.Session == worker.Healthy.String() && !x.Draining {
				sum += x.Capacity[resource.CPUMilli]
			}
		}
		return l.GetListing().GetNext(), err
	})
	if sum < 1000 {
		return runtime.NumCPU(), err
	}
	return int(sum / 1000), err
}

// continueJob lets a job run what is not done.
func continueJob(c *cli, s subject) error {
	got, err := call(c, calls.GetJob, &pb.GetJobRequest{Domain: s.domain, Name: s.name})
	if err != nil {
		return err
	}
	if got.Job.Paused {
		if _, err := call(c, calls.PauseJob, &pb.PauseJobRequest{Domain: s.domain, Name: s.name}); err != nil {
			return err
		}
	}
	_, err = call(c, calls.RetryJob, &pb.RetryJobRequest{Domain: s.domain, Name: s.name})
	return err
}

// follow prints the output of a job until its end.
func (f *jobRunFlags) follow(c *cli, s subject, since *timestamppb.Timestamp) error {
	name := s.domain + "/" + s.name
	stop := func() error {
		said, _, err := stopIt(c, s)
		if err == nil {
			c.notef("%s: %s\n", s, said)
		}
		return err
	}
	var end *pb.Job
	err := c.detachable("cantina job run --resume "+name+", cantina wait "+name, stop, func(ctx context.Context) error {
		seen, done := f.showProgress(ctx, c, s)
		defer done()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		results := make(chan error, 2)
		go func() {
			var err error
			end, err = jobEnd(ctx, c, s, seen)
			results <- err
		}()
		go func() {
			if c.answers() {
				results <- nil
				return
			}
			p := &linePrinter{c: c, split: true, joined: true, prefix: f.prefix}
			q := &pb.OutputQuery{Domain: s.domain, Job: s.name, Since: since}
			results <- followOutput(ctx, c, &pb.FollowOutputRequest{Query: q}, p)
		}()
		err := <-results
		if err != nil {
			cancel()
		}
		return cmp.Or(err, <-results)
	})
	if err != nil {
		return timedOut(c, s, err)
	}
	if err := answer(c, jobTable(c), end); err != nil {
		return err
	}
	return f.ended(c, end)
}

// showProgress begins a progress line if there is a terminal. seen takes the job whenever it has
// changed; done ends the line.
func (f *jobRunFlags) showProgress(ctx context.Context, c *cli, s subject) (seen func(*pb.Job), done func()) {
	c.notef("job %s/%s\n", s.domain, s.name)
	if !c.ErrTTY || c.quiet {
		return func(*pb.Job) {}, func() {}
	}
	p := &progressLine{term: c.Err, width: c.Width}
	out, errs := c.Out, c.Err
	c.Out, c.Err = p.over(out), p.over(errs)
	if !c.OutTTY {
		c.Out = out
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() { defer close(ended); p.run(c, stop) }()
	reasons := startReasonsUnless(ctx, c, s, p.busy)
	return p.update, func() {
		reasons()
		close(stop)
		<-ended
		c.Out, c.Err = out, errs
	}
}

// ended is the end of the verb for a job that has ended.
func (f *jobRunFlags) ended(c *cli, j *pb.Job) error {
	name := j.Domain + "/" + j.Name
	switch j.State {
	case "done":
		if f.remove {
			_, err := call(c, calls.RemoveJob, &pb.RemoveJobRequest{Domain: j.Domain, Name: j.Name})
			return err
		}
		return nil
	case "removed":
		return failf(api.ExitFailed, "job %s was removed: %d of %d done", name, j.Counts.GetDone(),
			j.Counts.GetTotal())
	case "invalid":
		return failf(api.ExitFailed, "job %s is invalid%s", name, whyInvalid(j))
	case "empty":
		return failf(api.ExitFailed, "job %s has no nodes%s", name,
			strings.TrimSuffix(": "+printable(j.NodesError), ": "))
	}
	return failf(api.ExitFailed, "job %s: %d of %d failed; list them: cantina job nodes %s --state failed; run them "+
		"again: cantina job run --resume %s",
		name, j.Counts.GetFailed(), j.Counts.GetTotal(), name, name)
}
