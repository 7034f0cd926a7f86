package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"cantina/api"
	"cantina/cron"
	"cantina/internal/text"
	"cantina/lrp"
)

// crontabFlags are the flags of cron import and cron lint.
type crontabFlags struct {
	system, userForm bool
	user             string
	strict           bool
}

func (f *crontabFlags) add(c *cli, cmd *cobra.Command) {
	p := cmd.Flags()
	p.BoolVar(&f.system, "system", false,
		"the file has a user before each command (default for /etc/crontab and /etc/cron.d)")
	p.BoolVar(&f.userForm, "user-form", false, "the file has no users, like the output of crontab -l")
	const zone = "zone of the lines, unless CRON_TZ sets it (default: this machine's)"
	if tz := p.Lookup("tz"); tz != nil { // it is also the zone of output
		tz.Usage = zone
	} else {
		p.StringVar(&c.tz, "tz", "", zone)
	}
	oneOf(cmd, "system", "user-form")
}

// hasUsers reports whether a crontab has a user before each command.
func (f *crontabFlags) hasUsers(name string) bool {
	full, err := filepath.Abs(name)
	known := err == nil && (full == "/etc/crontab" || filepath.Dir(full) == "/etc/cron.d")
	return f.system || known && !f.userForm
}

func cronImportVerb(c *cli) *cobra.Command {
	f := &crontabFlags{}
	cmd := &cobra.Command{
		Use: "import CRONTAB", Short: "Print a spec file with a schedule for each line of a crontab",
		Long: "import reads a crontab (- for standard input) and prints a spec file with a schedule for each line. " +
			"It needs no server. Lines that a schedule cannot express are reported by number; then the exit code is 1. " +
			"Variables, CRON_TZ, RANDOM_DELAY, SHELL, % and comments are kept.\n\n" +
			"Unlike with cron, a run that is due while an earlier one runs is skipped, and output is not " +
			"mailed but kept for cantina logs.",
		Example: "  crontab -l | cantina cron import - > cantina.yaml\n" +
			"  cantina cron import /etc/crontab --tz Europe/Berlin > cantina.yaml\n" +
			"  cantina plan cantina.yaml",
		Args: exactly(1, "CRONTAB"),
		RunE: func(_ *cobra.Command, args []string) error { return importCrontab(c, f, args[0]) },
	}
	f.add(c, cmd)
	cmd.Flags().StringVar(&f.user, "user", "", "user that runs the commands of a file without users (default: you)")
	return cmd
}

func cronLintVerb(c *cli) *cobra.Command {
	f := &crontabFlags{}
	cmd := &cobra.Command{
		Use: "lint FILE ...", Short: "Check the lines of a crontab, or the schedules of a spec file",
		Long: "lint checks every line of a crontab (- for standard input), or the schedules of a .yaml file, " +
			"and prints errors and warnings with their places. It needs no server. Exits 2 if there are errors.",
		Example: "  crontab -l | cantina cron lint -\n" +
			"  cantina cron lint /etc/crontab cantina.yaml --strict",
		Args: atLeast(1, "FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			worst, found := error(nil), &findings{c: c}
			for _, name := range args {
				if err := lintFile(c, f, name, found); err != nil {
					c.finish(err)
					worst = code(exitOf(err))
				}
			}
			if err := answers(c, factTable("file", "line", "severity", "text"), found.all); err != nil {
				return err
			}
			if worst == nil && found.warned && f.strict {
				return code(api.ExitFailed)
			}
			return worst
		},
	}
	c.writing(cmd)
	cmd.Flags().Lookup("output").Usage = "print errors and warnings to standard output: table, wide, json, yaml, name " +
		"or jsonl"
	f.add(c, cmd)
	cmd.Flags().BoolVar(&f.strict, "strict", false, "treat warnings as errors (exit code 1)")
	return cmd
}

// readCrontab reads the lines of a file, and the zone of those that name none.
func readCrontab(c *cli, f *crontabFlags, name string) ([]cron.CrontabEntry, []cron.CrontabProblem, *time.Location,
	error) {
	data, err := readNamed(c, name)
	if err != nil {
		return nil, nil, nil, failf(api.ExitUsage, "%v", err)
	}
	if err := c.chooseZone(); err != nil {
		return nil, nil, nil, err
	}
	zone, err := cronZone(c)
	if err != nil {
		return nil, nil, nil, err
	}
	entries, problems := cron.ParseCrontab(string(data), f.hasUsers(name))
	entries = slices.DeleteFunc(entries, func(e cron.CrontabEntry) bool {
		word, _, _ := strings.Cut(cmp.Or(e.User, e.Command), " ")
		if strings.Trim(word, "*?/-,0123456789") != "" {
			return false
		}
		problems = append(problems, cron.CrontabProblem{Line: e.Line, Text: fmt.Sprintf("%q after the fifth field is no "+
			"program and no user: a line of a crontab has no seconds and no year", word)})
		return true
	})
	slices.SortStableFunc(problems, func(a, b cron.CrontabProblem) int { return a.Line - b.Line })
	return entries, problems, zone, nil
}

// readNamed reads a file, or standard input for -.
func readNamed(c *cli, name string) ([]byte, error) {
	if name == "-" {
		return readLimited(c.In)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readLimited(file)
}

// zoneOf is the zone of one line.
func zoneOf(e cron.CrontabEntry, rest *time.Location) (*time.Location, error) {
	if e.Zone == "" {
		return rest, nil
	}
	loader, err := zones()
	if err != nil {
		return nil, err
	}
	z, err := loader.Load(e.Zone)
	return z.Location, err
}

// findings are the errors and warnings of lint. Without -o each is printed at once.
type findings struct {
	c      *cli
	warned bool
	all    []*structpb.Struct
}

// add adds an error, or a warning; line 0 = of the whole file.
func (f *findings) add(file string, line int, warning bool, text string) {
	severity := "error"
	if warning {
		severity, f.warned = "warning", true
	}
	if f.c.answers() {
		f.all = append(f.all, fact(map[string]any{"file": file, "line": line, "severity": severity, "text": text}))
		return
	}
	if line > 0 {
		file = fmt.Sprintf("%s:%d", file, line)
	}
	if warning {
		text = "warning: " + text
	}
	f.c.sayf("%s: %s\n", file, text)
}

func lintFile(c *cli, f *crontabFlags, name string, found *findings) error {
	if ext := filepath.Ext(name); ext == ".yaml" || ext == ".yml" {
		return lintSpec(c, name, found)
	}
	entries, problems, rest, err := readCrontab(c, f, name)
	if err != nil {
		return err
	}
	for _, p := range problems {
		found.add(name, p.Line, false, p.Text)
	}
	bad := len(problems) > 0
	for _, e := range entries {
		zone, err := zoneOf(e, rest)
		if err == nil {
			var warnings []cron.Warning
			opt := cron.LineOptions{Name: programName(e.Command), Zone: zone, Vixie: true, Now: c.Now()}
			_, warnings, err = cron.ParseLine(e.Calendar, opt)
			for _, w := range warnings {
				found.add(name, e.Line, true, w.String())
			}
		}
		if err != nil {
			bad = true
			found.add(name, e.Line, false, err.Error())
		}
	}
	c.notef("%s: %s\n", name, text.Count(len(entries), "line"))
	if bad {
		return code(api.ExitUsage)
	}
	return nil
}

func lintSpec(c *cli, name string, found *findings) error {
	files, err := readSource(c, name)
	if err != nil {
		return err
	}
	parsed, err := parseSpecs(c, files)
	if err != nil {
		return err
	}
	n := 0
	for _, f := range parsed {
		for _, s := range f.Schedules {
			n++
			for _, w := range s.Warnings {
				found.add(name, 0, true, fmt.Sprint(w))
			}
		}
	}
	c.notef("%s: %s\n", name, text.Count(n, "schedule"))
	return nil
}

func importCrontab(c *cli, f *crontabFlags, name string) error {
	entries, problems, rest, err := readCrontab(c, f, name)
	if err != nil {
		return err
	}
	w := &crontabWriter{c: c, f: f, rest: rest, taken: map[string]bool{}}
	for _, e := range entries {
		if err := w.schedule(e); err != nil {
			problems = append(problems, cron.CrontabProblem{Line: e.Line, Text: err.Error()})
		}
	}
	slices.SortStableFunc(problems, func(a, b cron.CrontabProblem) int { return a.Line - b.Line })
	for _, p := range problems {
		c.sayf("%s:%d: %s\n", name, p.Line, p.Text)
	}
	if len(w.schedules.Content) > 0 {
		page, err := w.page(name)
		if err != nil {
			return err
		}
		if _, err := c.Out.Write(page); err != nil {
			return err
		}
	}
	if len(problems) > 0 {
		return code(api.ExitFailed)
	}
	return nil
}

// crontabWriter makes schedules from the lines of a crontab.
type crontabWriter struct {
	c         *cli
	f         *crontabFlags
	rest      *time.Location // zone of lines that name none
	taken     map[string]bool
	schedules yaml.Node
}

func (w *crontabWriter) page(name string) ([]byte, error) {
	w.schedules.Kind = yaml.MappingNode
	root := mapping("schedules", &w.schedules)
	root.HeadComment = "From " + name + ", by cantina cron import. Unlike with cron,\n" +
		"a run that is due while an earlier one still runs is skipped (overlap: forbid),\n" +
		"and output is not mailed: cantina logs NAME prints it."
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(root); err != nil {
		return nil, err
	}
	return out.Bytes(), e.Close()
}

// schedule adds the schedule of one line.
func (w *crontabWriter) schedule(e cron.CrontabEntry) error {
	zone, err := zoneOf(e, w.rest)
	if err != nil {
		return fmt.Errorf("CRON_TZ: %w", err)
	}
	name := w.name(programName(e.Command))
	it, warnings, err := cron.ParseLine(e.Calendar, cron.LineOptions{Name: name, Zone: zone, Vixie: true, Now: w.c.Now()})
	if err != nil {
		return err
	}
	for _, warning := range warnings {
		w.c.notef("line %d: warning: %s\n", e.Line, warning)
	}
	s := mapping("cron", scalar(e.Calendar))
	if it.TimezoneDependent() {
		add(s, "timezone", scalar(zone.String()))
		add(s, "gap", scalar(it.Gap().String()))
		add(s, "fold", scalar(it.Fold().String()))
	}
	if e.Delay > 0 {
		add(s, "jitter", scalar(fmt.Sprintf("%dm", int(e.Delay.Minutes()))))
	}
	add(s, "misfire", scalar("skip"))
	t, err := w.task(e)
	if err != nil {
		return err
	}
	add(s, "task", t)
	key := scalar(name)
	key.HeadComment = strings.Join(e.Comments, "\n")
	w.schedules.Content = append(w.schedules.Content, key, s)
	return nil
}

// task is the work of one line.
func (w *crontabWriter) task(e cron.CrontabEntry) (*yaml.Node, error) {
	command := e.Command
	if e.Input != "" {
		command = "printf '%s' " + shellQuote(e.Input) + " | {\n" + command + "\n}"
	}
	t := mapping("command", scalar(command))
	if e.Shell != "" && e.Shell != "/bin/sh" {
		t = mapping("command",
			&yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{scalar(e.Shell), scalar("-c"), scalar(command)}})
	}
	u, err := crontabUser(e.User, w.f.user)
	if err != nil {
		return nil, err
	}
	home := u.HomeDir
	env := &yaml.Node{Kind: yaml.MappingNode}
	for _, v := range e.Environment {
		if v.Name == "HOME" {
			home = v.Value
		}
		add(env, v.Name, scalar(v.Value))
	}
	add(t, "user", scalar(u.Username))
	if home != "" {
		add(t, "dir", scalar(home)) // where cron runs commands
	}
	if len(env.Content) > 0 {
		add(t, "env", env)
	}
	return t, nil
}

// crontabUser is the user of a line, the one of --user, or the one who runs this.
func crontabUser(names ...string) (*user.User, error) {
	for _, n := range names {
		if n != "" {
			return user.Lookup(n)
		}
	}
	return user.Current()
}

// name makes the name of a schedule unique.
func (w *crontabWriter) name(base string) string {
	name := base
	for n := 2; w.taken[name]; n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	w.taken[name] = true
	return name
}

// programName is a name for the command of a crontab: that of its program, after what only
// prepares it.
func programName(command string) string {
	command = strings.NewReplacer("&&", "\n", "||", "\n", ";", "\n", "|", "\n", "(", " ", ")", " ", "{",
		" ").Replace(command)
	for part := range strings.SplitSeq(command, "\n") {
		words := strings.Fields(part)
		if len(words) == 0 ||
			slices.Contains([]string{"cd", "test", "[", "[[", "export", "umask", "sleep", "set", ":"}, words[0]) {
			continue
		}
		for _, word := range words {
			prepares := []string{"sudo", "nice", "ionice", "env", "exec", "timeout", "nohup", "command", "sh", "bash",
				"python3", "perl"}
			if strings.ContainsAny(word, "=$`'\"<>") || word[0] == '-' || word[0] >= '0' && word[0] <= '9' ||
				slices.Contains(prepares, path.Base(word)) {
				continue
			}
			base := path.Base(word)
			base = strings.TrimSuffix(base, path.Ext(base))
			if lrp.ValidName(base) {
				return base
			}
		}
	}
	return "line"
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func mapping(key string, value *yaml.Node) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	add(n, key, value)
	return n
}

func add(n *yaml.Node, key string, value *yaml.Node) {
	n.Content = append(n.Content, scalar(key), value)
}

func scalar(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	return n
}
