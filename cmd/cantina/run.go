package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cantina/action"
	"cantina/api"
	"cantina/resource"
	"cantina/spec"
	"cantina/task"
	pb "cantina/wire/cantinav1"
)

// Exit codes that programs have.
const (
	exitSignal      = 128 // + the signal's number
	exitInterrupted = 130
)

// secondInterrupt is how long a second Ctrl-C is waited for.
const secondInterrupt = 2 * time.Second

// runFlags are the flags of run.
type runFlags struct {
	id, domain, name  string
	detach, ownCode   bool
	env, envFiles     []string
	dir, user, result string
	memory, disk      int64
	cpu               int // thousandths
	limit, pending    time.Duration
	onLost, whenFull  string
	stack, annotation string
	labels            map[string]string
	isolation         string
	volumes           []action.Volume
	timestamps        bool
}

func runVerb(c *cli) *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run [flags] -- PROGRAM [ARG...]",
		Short: "Run a program once as a task and follow it",
		Long: "run submits a task, follows its output and exits with the program's exit code: 128+n if signal " +
			"n ended it, 6 if the task was lost. A task starts at most once. -d prints the id and returns " +
			"while the task continues.\n" +
			"\n" +
			"A task runs in a directory of its own, not in yours: for files here, add --dir . if its cell is " +
			"this machine. It has no standard input, and only the variables of --env and --env-file. It can run " +
			"on any cell and outlives this command. Ctrl-C detaches; a second Ctrl-C stops the task.",
		Example: "  cantina run -- sh -c 'echo hello; exit 3'\n" +
			"  cantina run --dir . -- cat notes.txt\n" +
			"  id=$(cantina run -d --memory 512Mi -- ./measure.sh)\n" +
			"  cantina run --result out.json -- ./report && cantina task result report",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return failf(api.ExitUsage, "no program given; for example: cantina run -- echo hello")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(f.volumes) > 0 && !cmd.Flags().Changed("isolation") {
				f.isolation = action.IsolationNamespaces.String()
			}
			return runTask(c, f, args)
		},
	}
	fl := cmd.Flags()
	fl.SetInterspersed(false)
	fl.StringVar(&f.id, "id", "", "id of the task (default: generated)")
	fl.StringVar(&f.domain, "domain", "default", "domain of the task")
	fl.StringVar(&f.name, "name", "", "name of the task")
	fl.BoolVarP(&f.detach, "detach", "d", false, "print the id and return")
	fl.BoolVar(&f.ownCode, "client-exit-code", false, "exit with 0, 1 or 6 instead of the program's exit code")
	fl.StringArrayVarP(&f.env, "env", "e", nil,
		"environment variable: NAME=VALUE, or NAME to pass on the local value if set")
	envFileFlag(fl, &f.envFiles)
	fl.StringVar(&f.dir, "dir", "", "working directory of the program; . or ./DIRECTORY is relative to this one")
	fl.Var(&userFlag{&f.user}, "user", "user: name, uid or uid:gid; a name must exist on the cell")
	fl.StringVar(&f.result, "result", "", "file with the task's result, read when the program ends")
	fl.Var(&sizeFlag{bytes: &f.memory}, "memory", "memory to reserve, also the limit, like 64Mi")
	fl.Var(&sizeFlag{bytes: &f.disk}, "disk", "disk space to reserve, like 1Gi")
	fl.Var(&cpuFlag{&f.cpu}, "cpu", "processors to reserve, like 0.5 or 500m")
	fl.Var(&durationFlag{d: &f.limit, least: 1}, "time-limit", "maximum run time")
	fl.Var(&durationFlag{d: &f.pending, least: 1}, "pending-timeout",
		"fail the task if it has not started after this duration (default 30m)")
	choiceVar(fl, &f.onLost, "on-lost", "", "end", []string{"end", "keep"},
		"end or keep: reaction of the cell when it loses contact with the leader")
	choiceVar(fl, &f.whenFull, "when-full", "", "wait", []string{"wait", "fail"},
		"wait or fail: reaction when no cell has room (a task too large for any cell always fails at once)")
	fl.StringVar(&f.stack, "stack", "", "stack that the cell must provide")
	fl.StringVar(&f.annotation, "annotation", "", "opaque text, kept with the task")
	fl.StringToStringVar(&f.labels, "cell-label", nil, "label that the cell must have: NAME=VALUE")
	choiceVar(fl, &f.isolation, "isolation", "", "process", []string{"process", "none", "namespaces"},
		"isolation: process, none or namespaces; with --volume namespaces is the default")
	fl.VarP(&volumeFlag{to: &f.volumes}, "volume", "v",
		"file or directory of the cell's machine: HOST:CONTAINER or HOST:CONTAINER:ro; repeatable")
	fl.BoolVar(&f.timestamps, "timestamps", false, "print the time before each line")
	c.waiting(cmd)
	c.writing(cmd)
	fl.Lookup("output").Usage = "print the task when it has ended, instead of its output: table, wide, json, yaml, " +
		"name or jsonl"
	return cmd
}

func runTask(c *cli, f *runFlags, args []string) error {
	d, err := f.definition(args)
	if err != nil {
		return err
	}
	if d.Workload.Env, err = taskVariables(c, f.envFiles, f.env); err != nil {
		return err
	}
	reported := noteInput(c, false)
	got, err := call(c, calls.RunTask,
		&pb.RunTaskRequest{Id: f.id, Domain: f.domain, Name: f.name, Definition: api.FromDefinition(d)})
	if err != nil {
		return err
	}
	id := got.Task.Id
	if f.detach && c.answers() {
		return answer(c, taskTable(c), got.Task)
	}
	if f.detach {
		return line(c.Out, id)
	}
	c.notef("task %s\n", id)
	stop := func() error {
		said, err := stopTask(c, id)
		if err == nil {
			c.notef("task %s: %s\n", id, said)
		}
		return err
	}
	var end *pb.Task
	err = c.detachable("cantina logs -f "+id+", cantina wait "+id, stop, func(ctx context.Context) error {
		defer startReasons(ctx, c, subject{kind: "task", name: id})()
		p := &linePrinter{c: c, timestamps: f.timestamps, split: true}
		if c.answers() { // standard output is for the task itself
			end, err = waitTask(ctx, c, id)
			return err
		}
		if err := followOutput(ctx, c, &pb.FollowOutputRequest{Query: &pb.OutputQuery{Task: id}}, p); err != nil {
			return err
		}
		end, err = waitTask(ctx, c, id)
		return err
	})
	noteInput(c, reported)
	if err != nil {
		return timedOut(c, subject{kind: "task", name: id}, err)
	}
	if f.dir != "" && strings.Contains(end.Reason, "no such file or directory") {
		end.Reason += fmt.Sprintf("; does directory %s (--dir) exist on cell %s?", f.dir, end.Cell)
	}
	if err := answer(c, taskTable(c), end); err != nil {
		return err
	}
	err = taskCode(c, end, f.ownCode)
	if err != nil {
		noteDirectory(c, f, args)
	}
	return err
}

// taskVariables are those of --env-file and --env, which is stronger; later files are stronger. A
// name alone passes on its value here; a variable that is not set here is left out, so that the
// cell's value applies.
func taskVariables(c *cli, files, given []string) ([]action.Variable, error) {
	var out []action.Variable
	at := map[string]int{}
	set := func(v action.Variable) {
		if i, twice := at[v.Name]; twice {
			out[i] = v
			return
		}
		at[v.Name] = len(out)
		out = append(out, v)
	}
	for _, name := range files {
		data, err := readEnvFile(name)
		if err != nil {
			return nil, failf(api.ExitUsage, "--env-file: %v", err)
		}
		found, err := spec.ParseEnv(name, data)
		if err != nil {
			return nil, err
		}
		for _, v := range found {
			set(v.Variable)
		}
	}
	for _, e := range given {
		name, value, ok := strings.Cut(e, "=")
		if name == "" {
			return nil, failf(api.ExitUsage, "--env %q: the name must not be empty", e)
		}
		if !ok {
			if value, ok = c.LookupEnv(name); !ok {
				c.notef("--env %s: not set here; omitted\n", name)
				continue
			}
		}
		set(action.Variable{Name: name, Value: value})
	}
	return out, nil
}

// envFileFlag adds --env-file.
func envFileFlag(fl *pflag.FlagSet, files *[]string) {
	fl.StringArrayVar(files, "env-file", nil,
		"file of variables, one NAME=VALUE a line (docs/spec.md); --env replaces its variables")
}

// definition makes the task of the flags, but for its environment.
func (f *runFlags) definition(args []string) (task.Definition, error) {
	d := task.Definition{Stack: f.stack, Annotation: f.annotation, Labels: f.labels, PendingTimeout: f.pending}
	dir, err := directory(f.dir)
	if err != nil {
		return d, err
	}
	path, err := program(args[0])
	if err != nil {
		return d, err
	}
	d.Workload = action.Workload{
		Action: action.Action{Run: &action.Run{Path: path, Args: args[1:], Dir: dir}},
		User:   f.user, ResultFile: f.result, TimeLimit: f.limit, Resources: f.resources(),
	}
	d.Workload.Isolation = map[string]action.Isolation{
		"process": action.IsolationProcess, "none": action.IsolationNone, "namespaces": action.IsolationNamespaces,
	}[f.isolation]
	d.Workload.Volumes = f.volumes
	if err := d.Workload.CheckVolumes(); err != nil {
		return d, failf(api.ExitUsage, "--volume: %v", err)
	}
	if f.onLost == "keep" {
		d.OnLost = task.LostKeep
	}
	if f.whenFull == "fail" {
		d.WhenFull = task.WhenFullFail
	}
	return d, nil
}

// directory makes one that is given relative to here, with ., absolute.
func directory(name string) (string, error) {
	switch {
	case name == "~", strings.HasPrefix(name, "~/"):
		return "", failf(api.ExitUsage, "--dir %q is not expanded; use --dir ~/DIRECTORY without = and quotes", name)
	case name != "." && name != ".." && !strings.HasPrefix(name, "./") && !strings.HasPrefix(name, "../"):
		return name, nil
	}
	here, err := os.Getwd()
	if err != nil {
		return "", failf(api.ExitFailed, "working directory: %v", err)
	}
	return filepath.Join(here, name), nil
}

// program makes a program that is given relative to here absolute; one without a
// slash is looked up where it runs.
func program(name string) (string, error) {
	if name == "" {
		return "", failf(api.ExitUsage, "program name is empty")
	}
	if !strings.Contains(name, "/") || filepath.IsAbs(name) {
		return name, nil
	}
	here, err := os.Getwd()
	if err != nil {
		return "", failf(api.ExitFailed, "working directory: %v", err)
	}
	return filepath.Join(here, name), nil
}

func (f *runFlags) resources() resource.Amounts {
	out := resource.Amounts{}
	if f.memory > 0 {
		out[resource.MemoryMB] = int((f.memory + 1<<20 - 1) >> 20)
	}
	if f.disk > 0 {
		out[resource.DiskMB] = int((f.disk + 1<<20 - 1) >> 20)
	}
	if f.cpu > 0 {
		out[resource.CPUMilli] = f.cpu
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// Exit codes of a shell for a program that cannot be started.
const (
	exitNotExecutable = 126
	exitNoProgram     = 127
)

// startCode is the exit code for a program that did not start, by the reason; 0 for any other
// reason. A directory or a volume that does not exist is no missing program.
func startCode(reason string) int {
	program, ok := strings.CutPrefix(reason, "start ")
	if !ok || strings.Contains(program, ": directory ") || strings.Contains(program, ": volume ") {
		return 0
	}
	for end, n := range map[string]int{
		": not found in PATH": exitNoProgram, ": no such file or directory": exitNoProgram,
		": permission denied": exitNotExecutable,
		": exec format error": exitNotExecutable, ": is a directory: permission denied": exitNotExecutable,
	} {
		if strings.HasSuffix(program, end) {
			return n
		}
	}
	return 0
}

// noteDirectory hints at --dir for a failed program with an argument that names a file here.
func noteDirectory(c *cli, f *runFlags, args []string) {
	if f.dir != "" {
		return
	}
	for _, a := range args[1:] {
		if a == "" || strings.HasPrefix(a, "-") || filepath.IsAbs(a) {
			continue
		}
		if _, err := os.Lstat(a); err == nil {
			c.notef("%s is in this directory, and a task runs in one of its own; to run it here, add --dir .\n", printable(a))
			return
		}
	}
}

// taskCode is the exit code for a task that has ended.
func taskCode(c *cli, t *pb.Task, own bool) error {
	if t.OutputLost > 0 {
		c.sayf("task %s: %s\n", t.Id, outputLost(t))
	}
	failed := func(n int) error {
		if own {
			return code(api.ExitFailed)
		}
		return code(n)
	}
	switch t.Outcome {
	case task.Succeeded.String():
		return nil
	case task.Lost.String():
		c.sayf("task %s was lost: %s; check whether it did its work, then: cantina task resolve %s --as done, "+
			"failed or rerun\n", t.Id, printable(t.Reason), t.Id)
		return code(api.ExitLost)
	}
	switch t.Reason {
	case "":
	case t.Outcome:
		c.notef("task %s %s\n", t.Id, t.Outcome)
	default:
		c.notef("task %s %s: %s\n", t.Id, t.Outcome, printable(t.Reason))
	}
	switch {
	case t.Signal > 0:
		return failed(exitSignal + int(t.Signal))
	case t.ExitCode > 0: // below 0 it never ran
		return failed(int(t.ExitCode))
	}
	if n := startCode(t.Reason); n > 0 {
		return failed(n)
	}
	return failed(api.ExitFailed)
}
