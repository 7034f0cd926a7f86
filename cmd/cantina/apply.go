package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cantina/api"
	"cantina/plan"
	"cantina/spec"
	pb "cantina/wire/cantinav1"
)

// exitChanges is the exit code of plan if there are changes.
const exitChanges = 10

func applyVerb(c *cli) *cobra.Command {
	var files []string
	var prune bool
	var sel selector
	var check int64
	cmd := &cobra.Command{
		Use:   "apply FILE|DIR|-|URL ...",
		Short: "Create or update services, tasks, jobs and schedules from files",
		Long: "apply reads spec files and changes each domain in one commit. Resources that are not in the " +
			"files stay. With --prune those whose labels match --selector are deleted. Applying an unchanged file is a " +
			"no-op. See docs/spec.md for the fields.",
		Example: "  cantina apply cantina.yaml\n" +
			"  cantina apply -f services/ --prune -l app=shop --yes\n" +
			"  generate | cantina apply -",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := sel.toPrune(cmd, prune); err != nil {
				return err
			}
			specs, err := readSpecs(c, "apply", append(files, args...))
			if err != nil {
				return err
			}
			if prune {
				if err := c.confirm("delete resources with labels %s that are not in the spec files", sel.text); err != nil {
					return err
				}
			}
			got, err := call(c, calls.Apply, &pb.ApplyRequest{Files: specs, Prune: prune, Selector: sel.text,
				Write: &pb.Write{IfMatch: check}})
			if err != nil {
				return err
			}
			return printChanges(c, got.Domains)
		},
	}
	cmd.Flags().StringSliceVarP(&files, "file", "f", nil,
		"spec file, directory of spec files, - for standard input, or URL")
	cmd.Flags().BoolVar(&prune, "prune", false,
		"delete resources of the domain that are not in the spec files and whose labels match --selector")
	sel.add(cmd, "with --prune: delete only resources")
	numberVar(cmd.Flags(), &check, "check-revision", "", 0, 1, unbounded,
		"fail unless the domain is still at this revision (printed by plan)")
	c.needYes(cmd)
	c.waiting(cmd)
	return c.reading(cmd)
}

func planVerb(c *cli) *cobra.Command {
	var files []string
	var prune, schema bool
	var sel selector
	cmd := &cobra.Command{
		Use:   "plan FILE|DIR|-|URL ...",
		Short: "Show what apply would change",
		Long: "plan prints the changes that apply would make and changes nothing. It shows the fields that differ, " +
			"the cells that have room for new instances and tasks now, and the next firings of schedules. The revision is " +
			"that of apply --check-revision. Exits 0 if there are no changes, 10 if there are.",
		Example: "  cantina plan cantina.yaml\n" +
			"  cantina plan cantina.yaml -o json | jq '.[].changes[] | select(.verb != \"keep\")'\n" +
			"  cantina plan --schema > cantina.schema.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if schema {
				_, err := c.Out.Write(spec.Schema())
				return err
			}
			if err := sel.toPrune(cmd, prune); err != nil {
				return err
			}
			specs, err := readSpecs(c, "plan", append(files, args...))
			if err != nil {
				return err
			}
			got, err := call(c, calls.Plan, &pb.PlanRequest{Files: specs, Prune: prune, Selector: sel.text})
			if err != nil {
				return err
			}
			if err := printChanges(c, got.Domains); err != nil {
				return err
			}
			for _, d := range got.Domains {
				for _, ch := range d.Changes {
					if ch.Verb != string(plan.VerbKeep) {
						return code(exitChanges)
					}
				}
			}
			return nil
		},
	}
	cmd.Flags().StringSliceVarP(&files, "file", "f", nil,
		"spec file, directory of spec files, - for standard input, or URL")
	cmd.Flags().BoolVar(&prune, "prune", false, "include the deletions that apply --prune would make")
	sel.add(cmd, "with --prune: delete only resources")
	cmd.Flags().BoolVar(&schema, "schema", false, "print the JSON Schema of spec files and exit")
	c.waiting(cmd)
	return c.reading(cmd)
}

// readSpecs reads spec files and checks them here, so that a mistake is found
// without a server; the server checks them again.
func readSpecs(c *cli, verb string, sources []string) ([]*pb.SpecFile, error) {
	files, _, err := loadSpecs(c, verb, sources)
	return files, err
}

// loadSpecs reads spec files and parses them. verb is for the text of an error.
func loadSpecs(c *cli, verb string, sources []string) ([]*pb.SpecFile, []*spec.File, error) {
	if len(sources) == 0 {
		return nil, nil, failf(api.ExitUsage, "no spec file given; for example: cantina %s cantina.yaml", verb)
	}
	var out []*pb.SpecFile
	for _, s := range sources {
		files, err := readSource(c, s)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, files...)
	}
	parsed, err := parseSpecs(c, out)
	return out, parsed, err
}

// parseSpecs checks spec files here. It adds the contents of their env_file fields.
func parseSpecs(c *cli, files []*pb.SpecFile) ([]*spec.File, error) {
	times, err := specTimes(c)
	if err != nil {
		return nil, err
	}
	all := &spec.Problems{}
	var parsed []*spec.File
	for _, f := range files {
		got, err := spec.Input{Name: f.Name, Dir: f.Dir, Content: f.Content, EnvFile: envFilesOf(f)}.Parse(times)
		var p *spec.Problems
		if errors.As(err, &p) {
			all.List, all.More = append(all.List, p.List...), all.More+p.More
		} else if err != nil {
			return nil, err
		}
		parsed = append(parsed, got)
	}
	if len(all.List) > 0 {
		return nil, all
	}
	return spec.Merge(parsed)
}

// envFilesOf reads files of variables for a spec file and adds them to it.
func envFilesOf(f *pb.SpecFile) func(path string) ([]byte, error) {
	f.EnvFiles = nil
	return func(path string) ([]byte, error) {
		if f.Dir == "" { // a spec file from elsewhere must not choose files of this machine
			return nil, spec.ErrNoDir
		}
		name := path
		if !filepath.IsAbs(name) {
			name = filepath.Join(f.Dir, path)
		}
		text, err := readEnvFile(name)
		if err == nil {
			f.EnvFiles = append(f.EnvFiles, &pb.EnvFile{Path: path, Content: text})
		}
		return text, err
	}
}

// readEnvFile reads one byte more than a file of variables may have, so that its parser can refuse it.
func readEnvFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, spec.MaxEnvFile+1))
}

// specTimes has the zones and the time that are used to check calendars of schedules.
func specTimes(c *cli) (spec.Times, error) {
	loader, err := zones()
	if err != nil {
		return spec.Times{}, err
	}
	return spec.Times{Now: c.Now(), Zone: func(name string) (*time.Location, error) {
		z, err := loader.Load(name)
		return z.Location, err
	}}, nil
}

func readSource(c *cli, s string) ([]*pb.SpecFile, error) {
	here, err := os.Getwd()
	if err != nil {
		return nil, failf(api.ExitFailed, "working directory: %v", err)
	}
	switch {
	case s == "-":
		text, err := readLimited(c.In)
		if err != nil {
			return nil, failf(api.ExitUsage, "read standard input: %v", err)
		}
		return []*pb.SpecFile{{Name: "-", Dir: here, Content: text}}, nil
	case strings.HasPrefix(s, "http://"), strings.HasPrefix(s, "https://"):
		text, err := fetchURL(c, s)
		if err != nil {
			return nil, failf(api.ExitUsage, "%v", err)
		}
		return []*pb.SpecFile{{Name: s, Content: text}}, nil
	}
	info, err := os.Stat(s)
	if err != nil {
		return nil, failf(api.ExitUsage, "%v", err)
	}
	names := []string{s}
	if info.IsDir() {
		if names, err = specsIn(s); err != nil {
			return nil, err
		}
	}
	var out []*pb.SpecFile
	for _, name := range names {
		f, err := readFile(name)
		if err != nil {
			return nil, failf(api.ExitUsage, "%v", err)
		}
		out = append(out, f)
	}
	return out, nil
}

func specsIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, failf(api.ExitUsage, "%v", err)
	}
	var names []string
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); !e.IsDir() && (ext == ".yaml" || ext == ".yml") {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	if len(names) == 0 {
		return nil, failf(api.ExitUsage, "no .yaml file in %s", dir)
	}
	slices.Sort(names)
	return names, nil
}

func readFile(name string) (*pb.SpecFile, error) {
	full, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := readLimited(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &pb.SpecFile{Name: name, Dir: filepath.Dir(full), Content: text}, nil
}

// readLimited reads one byte more than a spec may have, so that spec.Parse can
// refuse it.
func readLimited(r io.Reader) ([]byte, error) { return io.ReadAll(io.LimitReader(r, spec.MaxSize+1)) }

// fetchTime bounds the download of a spec file.
const fetchTime = 30 * time.Second

func fetchURL(c *cli, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(c.ctx, fetchTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, res.Status)
	}
	return readLimited(res.Body)
}

// printChanges prints the changes of each domain.
func printChanges(c *cli, domains []*pb.DomainChange) error {
	for _, d := range domains {
		for _, w := range d.Warnings {
			c.notef("warning: %s\n", w)
		}
	}
	switch {
	case c.quiet || c.output == "name":
		for _, d := range domains {
			for _, ch := range d.Changes {
				if ch.Verb != string(plan.VerbKeep) {
					if err := line(c.Out, ch.Kind+"/"+d.Domain+"/"+ch.Name); err != nil {
						return err
					}
				}
			}
		}
		return nil
	case c.output != "table" && c.output != "wide" || c.template != "":
		return list(c, table[*pb.DomainChange]{id: func(d *pb.DomainChange) string { return d.Domain }}, domains)
	}
	for _, d := range domains {
		if err := list(c, changeTable(d.Domain, c.output == "wide"), d.Changes); err != nil {
			return err
		}
		for _, ch := range d.Changes {
			for _, f := range ch.Fields {
				if err := line(c.Out, printable(fmt.Sprintf("  %s/%s %s: %s -> %s", ch.Kind, ch.Name, f.Path, orNone(f.Old),
					orNone(f.New)))); err != nil {
					return err
				}
			}
		}
		c.notef("domain %s at revision %d\n", d.Domain, d.Revision)
	}
	return nil
}

func orNone(s string) string {
	if s == "" {
		return "(none)"
	}
	return s
}

func changeTable(domain string, wide bool) table[*pb.Change] {
	nodes := func(x *pb.Change) string {
		switch {
		case x.Kind != "job":
			return ""
		case x.Nodes < 0:
			return "not known yet"
		}
		return number(x.Nodes)
	}
	t := table[*pb.Change]{
		id: func(x *pb.Change) string { return x.Kind + "/" + domain + "/" + x.Name },
		columns: []column[*pb.Change]{
			{name: "CHANGE", text: func(x *pb.Change) string { return x.Verb }},
			{name: "KIND", text: func(x *pb.Change) string { return x.Kind }},
			{name: "NAME", text: func(x *pb.Change) string { return x.Name }},
			{name: "NODES", text: nodes},
			{name: "NOTE", text: func(x *pb.Change) string {
				if x.Note == "" && x.Verb == string(plan.VerbKeep) {
					return "unchanged"
				}
				return x.Note
			}},
		},
	}
	if wide {
		t.columns = append([]column[*pb.Change]{{name: "DOMAIN", text: func(*pb.Change) string { return domain }}},
			t.columns...)
	}
	return t
}
